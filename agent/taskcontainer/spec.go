// Package taskcontainer knows what a task's container is made from and how it is
// recognised again: the one place where a protocol.Task becomes a runtime.Spec and where
// a container's labels become a task. It does nothing and keeps nothing.
package taskcontainer

import (
	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/agent/pathfence"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
)

// Builder turns tasks into containers by the node's rules.
type Builder struct {
	// Fence decides which host paths a task may mount.
	Fence *pathfence.Fence
	// RuntimeRoot, if set, is where the container daemon keeps its own data, empty while
	// that is unknown: no task may mount it, wherever the operator put it.
	RuntimeRoot func() string
	// LogLimits bound the output each container may leave on the disk.
	LogLimits runtime.LogLimits
}

// RefusedError says which precondition a task does not meet.
type RefusedError struct {
	Reason protocol.Reason
	Err    error
}

// Error gives every problem found.
func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap gives the problems.
func (e *RefusedError) Unwrap() error { return e.Err }

func refuse(reason protocol.Reason, err error) error { return &RefusedError{reason, err} }

// Blueprint is all there is to know of a container before it is made.
type Blueprint struct {
	Spec        runtime.Spec
	Supervision Supervision
	Expect      Expectation
}

// Build returns the blueprint of a valid task's container with the devices it was given, or
// a *RefusedError.
func (b Builder) Build(t protocol.Task, devices Devices, log *zap.Logger) (Blueprint, error) {
	sup := Supervision{Timeout: t.Timeout(), Grace: t.StopGrace(), Network: t.Network, Health: t.HealthCheck, Holds: devices.Holds}
	if sup.Network == "" {
		sup.Network = protocol.NetworkBridge
	}
	volumes, err := b.volumes(t.Volumes)
	if err != nil {
		return Blueprint{}, refuse(protocol.ReasonVolumeDenied, err)
	}
	mounts, err := mounts(volumes)
	if err != nil {
		return Blueprint{}, refuse(protocol.ReasonVolumeDenied, err)
	}
	spec := runtime.Spec{
		Name:       Name(t.ID),
		Image:      t.Image,
		Labels:     labelsOf(t, sup),
		Entrypoint: t.Command,
		Args:       t.Args,
		Env:        environment(t.Env, log),
		WorkingDir: t.WorkingDir,
		User:       t.User,
		Mounts:     mounts,
		Network:    runtime.Network{Mode: runtime.NetworkMode(sup.Network), Ports: published(sup.Network, t.Ports)},
		IPC:        runtime.IPCPrivate,
		Resources: runtime.Resources{
			CPUs: t.CPUs, MemoryBytes: t.MemoryBytes, PidsLimit: t.PIDsLimit, ShmSizeBytes: t.ShmSizeBytes,
		},
		Logs: b.LogLimits,
	}
	if t.IPC == protocol.IPCHost {
		spec.IPC = runtime.IPCHost
	}
	devices.addTo(&spec)
	if err := spec.Validate(); err != nil {
		return Blueprint{}, refuse(protocol.ReasonInvalidSpec, err)
	}
	return Blueprint{Spec: spec, Supervision: sup, Expect: Expectation{Volumes: volumes, Nodes: devices.Expect}}, nil
}

// published are the ports to publish. On the host's network they are there already.
func published(mode protocol.NetworkMode, asked []protocol.Port) []runtime.Port {
	if mode == protocol.NetworkHost {
		return nil
	}
	var published []runtime.Port
	for _, p := range asked {
		transport := p.Protocol
		if transport == "" {
			transport = protocol.ProtocolTCP
		}
		published = append(published, runtime.Port{
			Container: uint16(p.ContainerPort), Host: uint16(p.HostPort), Protocol: string(transport),
		})
	}
	return published
}
