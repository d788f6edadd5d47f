package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/moby/moby/client"

	"github.com/heteroflow/node-agent/agent/taskcontainer"
	"github.com/heteroflow/node-agent/runtime/docker"
)

// sweeper returns a function that removes what the demo put into the runtime. A container
// it finds is an error: the agent should have removed it.
func sweeper(name, image string) (func(context.Context) error, error) {
	if name != "docker" {
		return nil, fmt.Errorf("runtime %q: this release runs tasks on docker only", name)
	}
	rt, err := docker.New(docker.Options{})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		left, err := rt.List(ctx, taskcontainer.OwnLabels(nodeID))
		errs := []error{err}
		for _, c := range left {
			errs = append(errs, fmt.Errorf("the agent left container %s (%s)", c.Name, c.State), rt.Remove(ctx, c.ID))
		}
		return errors.Join(append(errs, removeImage(ctx, image), rt.Close())...)
	}, nil
}

// removeImage takes the demo's image away; the agent itself never removes one.
func removeImage(ctx context.Context, image string) error {
	c, err := client.New(client.FromEnv)
	if err != nil {
		return err
	}
	_, err = c.ImageRemove(ctx, image, client.ImageRemoveOptions{PruneChildren: true})
	return errors.Join(err, c.Close())
}
