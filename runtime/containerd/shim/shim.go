// Package shim asks a containerd shim about its task directly, past containerd: the shim
// is the task's parent and knows how it ended whether or not containerd lives. It never
// changes anything, and starts no goroutines.
package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/heteroflow/node-agent/runtime/containerd/oom"
	"github.com/heteroflow/node-agent/runtime/containerd/wire"
)

// Client is a connection to one shim. It is for one call at a time; after an error other
// than the shim's own no more are possible.
type Client struct {
	conn    net.Conn
	service string
	stream  uint32 // of the next call
}

// Dial connects to the shim of a bundle, the directory containerd keeps for a task and
// in which the shim and its children run.
func Dial(ctx context.Context, bundle string) (*Client, error) {
	address, version, err := find(bundle)
	if err != nil {
		return nil, fmt.Errorf("find the shim of bundle %s: %w", bundle, err)
	}
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "unix", strings.TrimPrefix(address, "unix://"))
	if err != nil {
		return nil, fmt.Errorf("dial shim: %w", err)
	}
	c := &Client{conn: conn, service: "containerd.task.v2.Task", stream: 1}
	if version >= 3 {
		c.service = "containerd.task.v3.Task"
	}
	return c, nil
}

// find reads what containerd 1.7 and 2 (bootstrap.json) or 1.6 (address) left.
func find(bundle string) (address string, version int, err error) {
	data, err := os.ReadFile(filepath.Join(bundle, "bootstrap.json"))
	if err == nil {
		var params struct {
			Version  int    `json:"version"`
			Address  string `json:"address"`
			Protocol string `json:"protocol"`
		}
		if err := json.Unmarshal(data, &params); err != nil {
			return "", 0, fmt.Errorf("decode bootstrap.json: %w", err)
		}
		if params.Protocol != "ttrpc" {
			return "", 0, fmt.Errorf("the shim speaks %q, not ttrpc", params.Protocol)
		}
		return params.Address, params.Version, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", 0, err
	}
	data, err = os.ReadFile(filepath.Join(bundle, "address"))
	return strings.TrimSpace(string(data)), 2, err
}

// Wait blocks until the task has ended. While the shim is still creating the task the
// error is errdefs.ErrNotFound.
func (c *Client) Wait(ctx context.Context, id string) (code int, at time.Time, err error) {
	answer, err := c.call(ctx, "Wait", id)
	if err == nil {
		code, at, err = decodeExit(answer)
	}
	if err != nil {
		return 0, time.Time{}, fmt.Errorf("wait for task %s: %w", id, err)
	}
	return code, at, nil
}

// decodeExit reads a WaitResponse: exit_status = 1, exited_at = 2, a Timestamp of
// seconds = 1 and nanos = 2.
func decodeExit(answer wire.Message) (code int, at time.Time, err error) {
	status, err := answer.Varint(1)
	if err != nil {
		return 0, time.Time{}, err
	}
	exited, err := answer.Message(2)
	if err != nil {
		return 0, time.Time{}, err
	}
	seconds, err := exited.Varint(1)
	if err != nil {
		return 0, time.Time{}, err
	}
	nanos, err := exited.Varint(2)
	if err != nil {
		return 0, time.Time{}, err
	}
	return int(uint32(status)), time.Unix(int64(seconds), int64(int32(nanos))).UTC(), nil
}

// OOMKills returns how many processes of the task were killed for want of memory. The
// shim can tell until the task is deleted.
func (c *Client) OOMKills(ctx context.Context, id string) (uint64, error) {
	answer, err := c.call(ctx, "Stats", id)
	if err == nil {
		var kills uint64
		if kills, err = decodeKills(answer); err == nil {
			return kills, nil
		}
	}
	return 0, fmt.Errorf("read metrics of task %s: %w", id, err)
}

// decodeKills reads a StatsResponse: stats = 1, an Any of type_url = 1 and value = 2.
func decodeKills(answer wire.Message) (uint64, error) {
	stats, err := answer.Message(1)
	if err != nil {
		return 0, err
	}
	typeURL, err := stats.Bytes(1)
	if err != nil {
		return 0, err
	}
	value, err := stats.Bytes(2)
	if err != nil {
		return 0, err
	}
	return oom.Kills(string(typeURL), value)
}

// Close lets go of the connection.
func (c *Client) Close() error { return c.conn.Close() }
