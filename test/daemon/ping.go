package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
)

// pingHTTP asks Docker's GET /_ping.
func pingHTTP(ctx context.Context, socket string) error {
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var dialer net.Dialer
			return dialer.DialContext(ctx, "unix", socket)
		},
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://docker/_ping", nil)
	if err != nil {
		return err
	}
	answer, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("GET /_ping answered %s", answer.Status)
	}
	return nil
}

// HTTP/2 of RFC 9113: the preface is in section 3.4, frames are in 4.1.
const (
	clientPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	emptySettings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	frameHeader   = 9
	typeSettings  = 4
)

var errNotGRPC = errors.New("what listens there does not speak gRPC")

// pingGRPC opens an HTTP/2 connection, whose server greets with a SETTINGS
// frame before anything is asked.
func pingGRPC(ctx context.Context, socket string) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return err
		}
	}
	if _, err := io.WriteString(conn, clientPreface+emptySettings); err != nil {
		return err
	}
	var header [frameHeader]byte
	if _, err := io.ReadFull(conn, header[:]); err != nil {
		return err
	}
	if header[3] != typeSettings {
		return errNotGRPC
	}
	return nil
}
