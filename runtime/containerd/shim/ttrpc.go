package shim

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/containerd/errdefs"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/heteroflow/node-agent/runtime/containerd/wire"
)

// ttrpc is spoken by hand because its library brings gRPC's statuses, protobuf's reflection
// and a logger: a quarter more CPU time at each start of a log shim (docs/performance.md).
// The frames are those of its PROTOCOL.md, the messages those of its request.proto.

const (
	// frameHead is length (4 bytes), stream (4), type and flags.
	frameHead = 10
	maxFrame  = 4 << 20 // ttrpc's own bound

	frameRequest  = 1
	frameResponse = 2

	statusNotFound = 5 // google.rpc.Code
)

// call asks the service with a request that has the task's id as field 1 and nothing
// else. The error of a shim that does not know the task is errdefs.ErrNotFound.
func (c *Client) call(ctx context.Context, method, id string) (wire.Message, error) {
	stream := c.stream
	c.stream += 2                                                                      // a client's are odd
	stop := context.AfterFunc(ctx, func() { _ = c.conn.SetDeadline(time.Unix(1, 0)) }) // it fails only on a closed connection
	defer stop()
	_, err := c.conn.Write(encodeRequest(stream, c.service, method, id))
	if err == nil {
		var frame []byte
		if frame, err = readResponse(c.conn, stream); err == nil {
			return decodeResponse(frame)
		}
	}
	return nil, errors.Join(ctx.Err(), err)
}

// encodeRequest makes the frame of a Request: service = 1, method = 2, payload = 3.
func encodeRequest(stream uint32, service, method, id string) []byte {
	payload := appendString(nil, 1, id)
	frame := make([]byte, frameHead, frameHead+len(service)+len(method)+len(payload)+16)
	frame = appendString(frame, 1, service)
	frame = appendString(frame, 2, method)
	frame = appendString(frame, 3, string(payload))
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-frameHead))
	binary.BigEndian.PutUint32(frame[4:], stream)
	frame[8] = frameRequest
	return frame
}

func appendString(b []byte, field protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}

// readResponse reads the one frame that answers the stream.
func readResponse(r io.Reader, stream uint32) ([]byte, error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	length, of, kind := binary.BigEndian.Uint32(head[:]), binary.BigEndian.Uint32(head[4:]), head[8]
	if length > maxFrame || of != stream || kind != frameResponse {
		return nil, fmt.Errorf("answer of type %d with %d bytes on stream %d, want a response on stream %d", kind, length, of, stream)
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	return body, nil
}

// decodeResponse reads a Response: status = 1, of code = 1 and message = 2, payload = 2.
func decodeResponse(frame wire.Message) (wire.Message, error) {
	status, err := frame.Message(1)
	if err != nil {
		return nil, err
	}
	code, err := status.Varint(1)
	if err != nil {
		return nil, err
	}
	message, err := status.Bytes(2)
	if err != nil {
		return nil, err
	}
	switch int32(code) {
	case 0:
		return frame.Bytes(2)
	case statusNotFound:
		return nil, fmt.Errorf("%w: %s", errdefs.ErrNotFound, message)
	default:
		return nil, fmt.Errorf("the shim answers with code %d: %s", int32(code), message)
	}
}
