package docker

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/heteroflow/node-agent/runtime"
)

var (
	fullID    = regexp.MustCompile(`^[0-9a-f]{64}$`)
	idOrNames = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]*$`)
)

// checkID refuses all but full ids: the daemon would take a part of one for the whole,
// and the client an empty or odd one for another address of the API.
func checkID(id string) error {
	if !fullID.MatchString(id) {
		return fmt.Errorf("%w: container id %q: want 64 hexadecimal digits", runtime.ErrInvalid, id)
	}
	return nil
}

// Inspect returns everything known of one container, by its full id or its name. One of
// which Docker lost a run, or the exit code, has ended nobody knows how.
func (r *Runtime) Inspect(ctx context.Context, id string) (runtime.Container, error) {
	if !idOrNames.MatchString(id) {
		return runtime.Container{}, fmt.Errorf("inspect container: %w: id or name %q", runtime.ErrInvalid, id)
	}
	c, err := r.inspect(ctx, id)
	if err == nil {
		c, err = r.withLost(ctx, c)
	}
	if err == nil {
		c, err = r.doubt(ctx, c)
	}
	if err != nil {
		return runtime.Container{}, fmt.Errorf("inspect container %s: %w", id, err)
	}
	return c, nil
}

// inspect is what the daemon itself knows.
func (r *Runtime) inspect(ctx context.Context, id string) (runtime.Container, error) {
	var c runtime.Container
	err := r.call(ctx, r.timeouts.Query, func(ctx context.Context, api *client.Client) error {
		reply, err := api.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
		if err != nil {
			return err
		}
		c, err = inspected(reply.Container)
		return err
	})
	if err == nil && c.ID != id && c.Name != id {
		// The daemon has read the name as the beginning of an id.
		err = fmt.Errorf("%w: no container has this id or name", runtime.ErrNotFound)
	}
	return c, err
}

// List returns the containers that carry all the labels.
func (r *Runtime) List(ctx context.Context, labels map[string]string) ([]runtime.Container, error) {
	found, err := r.list(ctx, withLabels(labels))
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	return found, nil
}

func withLabels(labels map[string]string) client.Filters {
	filters := client.Filters{}
	for key, value := range labels {
		filters.Add("label", key+"="+value)
	}
	return filters
}

func (r *Runtime) list(ctx context.Context, filters client.Filters) (found []runtime.Container, err error) {
	err = r.call(ctx, r.timeouts.Query, func(ctx context.Context, api *client.Client) error {
		reply, err := api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filters})
		for _, summary := range reply.Items {
			found = append(found, listed(summary))
		}
		return err
	})
	return found, err
}

func listed(s container.Summary) runtime.Container {
	c := runtime.Container{
		ID:        s.ID,
		Image:     imageName(s.Image),
		Labels:    s.Labels,
		State:     state(s.State),
		CreatedAt: time.Unix(s.Created, 0).UTC(),
	}
	for _, name := range s.Names {
		// Names with two slashes are links of other containers.
		if name, ok := strings.CutPrefix(name, "/"); ok && !strings.Contains(name, "/") {
			c.Name = name
		}
	}
	return c
}

func inspected(in container.InspectResponse) (runtime.Container, error) {
	if in.State == nil || in.Config == nil {
		return runtime.Container{}, fmt.Errorf("%w: the daemon's answer lacks the state or the configuration", runtime.ErrUnavailable)
	}
	c := runtime.Container{
		ID:         in.ID,
		Name:       strings.TrimPrefix(in.Name, "/"),
		Image:      imageName(in.Config.Image),
		Labels:     in.Config.Labels,
		State:      state(in.State.Status),
		CreatedAt:  parseTime(in.Created),
		StartedAt:  parseTime(in.State.StartedAt),
		PID:        in.State.Pid,
		StartError: in.State.Error,
	}
	if in.NetworkSettings != nil {
		if bridge := in.NetworkSettings.Networks["bridge"]; bridge != nil {
			c.IP = bridge.IPAddress
		}
	}
	if ended := c.State == runtime.StateExited || c.State == runtime.StateDead; ended && !c.StartedAt.IsZero() {
		c.Exit = &runtime.Exit{
			OOMKilled:  in.State.OOMKilled,
			FinishedAt: latest(parseTime(in.State.FinishedAt), c.StartedAt),
			Message:    in.State.Error,
		}
		// With an error the code is that of a start that failed, written over the
		// code of the run before.
		if in.State.Error == "" {
			c.Exit.Code = new(in.State.ExitCode)
		}
	}
	return c, nil
}

// latest: Docker notes the start once it hears of it, which may be after the end.
func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

var states = map[container.ContainerState]runtime.State{
	container.StateCreated:    runtime.StateCreated,
	container.StateRunning:    runtime.StateRunning,
	container.StatePaused:     runtime.StatePaused,
	container.StateRestarting: runtime.StateRestarting,
	container.StateRemoving:   runtime.StateRemoving,
	container.StateExited:     runtime.StateExited,
	container.StateDead:       runtime.StateDead,
}

func state(s container.ContainerState) runtime.State {
	return cmp.Or(states[s], runtime.StateUnknown)
}

// parseTime returns zero for the year 1, by which the daemon says never, and for what
// is no time.
func parseTime(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || t.Year() <= 1 {
		return time.Time{}
	}
	return t
}
