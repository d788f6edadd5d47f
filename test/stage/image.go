package stage

import (
	"context"
	"errors"
	"fmt"

	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/test/image"
	"github.com/heteroflow/node-agent/test/registry"
)

// The credentials of a staged registry.
const (
	RegistryUser     = "puller"
	RegistryPassword = "registry-password-MARK"
)

// Images is a private registry that holds the workload.
type Images struct {
	*registry.Registry
	Workload string // full reference
}

// StartImages starts the registry and pushes the workload with the given options.
func StartImages(ctx context.Context, o image.Options) (*Images, error) {
	r, err := registry.Start(registry.Options{Username: RegistryUser, Password: RegistryPassword}) //nolint:contextcheck // it lives until Close
	if err != nil {
		return nil, fmt.Errorf("start registry: %w", err)
	}
	img, err := image.Build(ctx, o)
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	ref, err := r.Push(img, "heteroflow/workload:v1")
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return &Images{Registry: r, Workload: ref}, nil
}

// Auth are credentials the registry accepts.
func (i *Images) Auth() *protocol.RegistryAuth {
	return &protocol.RegistryAuth{Server: i.Addr(), Username: RegistryUser, Password: RegistryPassword}
}
