// Package shim asks a containerd shim about its task directly, past containerd: the shim
// is the task's parent and knows how it ended whether or not containerd lives. It never
// changes anything. A Client runs the goroutines of its ttrpc connection until Close.
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

	taskv2 "github.com/containerd/containerd/api/runtime/task/v2"
	taskv3 "github.com/containerd/containerd/api/runtime/task/v3"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"github.com/containerd/ttrpc"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/heteroflow/node-agent/runtime/containerd/oom"
)

// Client is a connection to one shim.
type Client struct {
	conn *ttrpc.Client
	v2   taskv2.TTRPCTaskService
	v3   taskv3.TTRPCTaskService // nil: the shim speaks version 2
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
	c := &Client{conn: ttrpc.NewClient(conn)}
	if version >= 3 {
		c.v3 = taskv3.NewTTRPCTaskClient(c.conn)
	} else {
		c.v2 = taskv2.NewTTRPCTaskClient(c.conn)
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
	var answer interface {
		GetExitStatus() uint32
		GetExitedAt() *timestamppb.Timestamp
	}
	if c.v3 != nil {
		answer, err = c.v3.Wait(ctx, &taskv3.WaitRequest{ID: id})
	} else {
		answer, err = c.v2.Wait(ctx, &taskv2.WaitRequest{ID: id})
	}
	if err != nil {
		return 0, time.Time{}, fmt.Errorf("wait for task %s: %w", id, errgrpc.ToNative(err))
	}
	return int(answer.GetExitStatus()), answer.GetExitedAt().AsTime(), nil
}

// OOMKills returns how many processes of the task were killed for want of memory. The
// shim can tell until the task is deleted.
func (c *Client) OOMKills(ctx context.Context, id string) (uint64, error) {
	var answer interface{ GetStats() *anypb.Any }
	var err error
	if c.v3 != nil {
		answer, err = c.v3.Stats(ctx, &taskv3.StatsRequest{ID: id})
	} else {
		answer, err = c.v2.Stats(ctx, &taskv2.StatsRequest{ID: id})
	}
	if err != nil {
		return 0, fmt.Errorf("read metrics of task %s: %w", id, errgrpc.ToNative(err))
	}
	return oom.Kills(answer.GetStats())
}

// Close lets go of the connection.
func (c *Client) Close() error { return c.conn.Close() }
