package engine

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
)

var bridges atomic.Uint32

// makeBridge makes the interface that Docker is told to use as its bridge. Told to use
// none, it would take away docker0, which is the machine's own Docker's.
func (e *Engines) makeBridge(ctx context.Context) error {
	n := bridges.Add(1)
	e.bridge = fmt.Sprintf("hfe%d-%d", os.Getpid(), n)
	address := fmt.Sprintf("10.216.%d.%d/30", os.Getpid()%256, n%64*4+1)
	for _, args := range [][]string{
		{"link", "add", "name", e.bridge, "type", "bridge"},
		{"addr", "add", address, "dev", e.bridge},
		{"link", "set", e.bridge, "up"},
	} {
		if err := ip(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

func (e *Engines) removeBridge() error {
	if e.bridge == "" {
		return nil
	}
	return ip(context.Background(), "link", "delete", e.bridge)
}

func ip(ctx context.Context, args ...string) error {
	if out, err := exec.CommandContext(ctx, "ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %q: %w: %s", args, err, bytes.TrimSpace(out))
	}
	return nil
}
