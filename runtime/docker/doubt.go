package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/moby/moby/client"

	"github.com/heteroflow/node-agent/runtime"
)

// lostCode is what a daemon stores that finds, when it starts, that a container has ended
// and nobody can tell it how: as a rule the machine lost power, or containerd died too.
const lostCode = 255

// doubt takes away an exit code that the daemon may have made up, and with it the time of
// the end, which is then that of the daemon's start. A program that ended with that very
// code while the daemon watched has an event of its end, which the daemon has in memory; of
// those that it made up there never is one.
func (r *Runtime) doubt(ctx context.Context, c runtime.Container) (runtime.Container, error) {
	if c.Exit == nil || c.Exit.Code == nil || *c.Exit.Code != lostCode {
		return c, nil
	}
	saw, err := r.sawEnd(ctx, c)
	if err != nil || saw {
		return c, err
	}
	c.Exit = &runtime.Exit{
		OOMKilled: c.Exit.OOMKilled,
		Message:   fmt.Sprintf("Docker says %d, as it does when it does not know, and has no memory of the end", lostCode),
	}
	return c, nil
}

// sawEnd tells whether the daemon has in memory that the container's last run ended. It
// keeps the last 256 events of all containers, and starts with none.
func (r *Runtime) sawEnd(ctx context.Context, c runtime.Container) (bool, error) {
	options := client.EventsListOptions{
		Since: c.StartedAt.Format(time.RFC3339Nano), Until: time.Now().Format(time.RFC3339Nano),
		Filters: client.Filters{}.Add("container", c.ID).Add("event", "die"),
	}
	saw := false
	err := r.call(ctx, r.timeouts.Query, func(ctx context.Context, api *client.Client) error {
		events := api.Events(ctx, options)
		select {
		case <-events.Messages:
			saw = true
		case err := <-events.Err:
			if !errors.Is(err, io.EOF) {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("read events of its end: %w", err)
	}
	return saw, nil
}
