// Package devices_test gives one inventory of cards to containers in every way the agent
// knows, and compares what they see from inside.
package devices_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	moby "github.com/moby/moby/client"
	"go.uber.org/goleak"

	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/containerd"
	"github.com/heteroflow/node-agent/runtime/containerd/logshim"
	"github.com/heteroflow/node-agent/runtime/docker"
	"github.com/heteroflow/node-agent/test/daemon"
)

// The test binary is also the log binary that containerd's shims start.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == logshim.Command {
		os.Exit(logshim.Main(os.Args[2]))
	}
	goleak.VerifyTestMain(m)
}

// way is one way to give a container devices.
type way struct {
	rt          runtime.Runtime
	info        runtime.Info // what it says of itself, or is made to
	removeImage func(ctx context.Context, ref string) error
}

// ways are all there are. Each skips its test where this machine has no such daemon.
// specs is where CDI specs are written to.
var ways = map[string]func(t *testing.T, specs string) way{
	"containerd, names of CDI": func(t *testing.T, specs string) way { return onContainerd(t, specs) },
	"containerd, node by node": func(t *testing.T, specs string) way { return onContainerd(t, specs).withoutCDI() },
	"Docker, node by node":     func(t *testing.T, _ string) way { return onDocker(t).withoutCDI() },
	"Docker, names of CDI":     dockerWithCDI,
}

// withoutCDI is the way of a runtime that does not resolve CDI names.
func (w way) withoutCDI() way {
	w.info.CDI, w.info.CDIDirs = false, nil
	return w
}

func onContainerd(t *testing.T, specs string) way {
	t.Helper()
	const namespace = "heteroflow-devices-test"
	address := daemon.RequireContainerd(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	rt, err := containerd.New(containerd.Options{
		Address: address, Namespace: namespace, LogBinary: self, CDIDirs: []string{specs},
		StateDir: t.TempDir(), RunDir: t.TempDir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	bare, err := client.New(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(rt.Close(), bare.Close()); err != nil {
			t.Error(err)
		}
	})
	return probed(t, way{rt: rt, removeImage: func(ctx context.Context, ref string) error {
		err := bare.ImageService().Delete(namespaces.WithNamespace(ctx, namespace), ref, images.SynchronousDelete())
		if errdefs.IsNotFound(err) {
			return nil
		}
		return err
	}})
}

func onDocker(t *testing.T) way {
	t.Helper()
	host := daemon.RequireDocker(t)
	rt, err := docker.New(docker.Options{Host: host})
	if err != nil {
		t.Fatal(err)
	}
	bare, err := moby.New(moby.WithHost(host))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(rt.Close(), bare.Close()); err != nil {
			t.Error(err)
		}
	})
	return probed(t, way{rt: rt, removeImage: func(ctx context.Context, ref string) error {
		_, err := bare.ImageRemove(ctx, ref, moby.ImageRemoveOptions{PruneChildren: true})
		return err
	}})
}

func dockerWithCDI(t *testing.T, specs string) way {
	t.Helper()
	w := onDocker(t)
	for _, dir := range w.info.CDIDirs {
		if sameDir(dir, specs) {
			return w
		}
	}
	t.Skipf("Docker %s looks for CDI specs in %q, which is not among them: %s (%s says where to write them)",
		w.info.Version, w.info.CDIDirs, specs, specsVariable)
	return w
}

func probed(t *testing.T, w way) way {
	t.Helper()
	var err error
	if w.info, err = w.rt.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

// specsVariable is where specs are written, for a Docker that looks there; by default a
// directory of the test's own.
const specsVariable = "HFTEST_CDI_DIR"

func sameDir(a, b string) bool {
	a, errA := filepath.EvalSymlinks(a)
	b, errB := filepath.EvalSymlinks(b)
	return errA == nil && errB == nil && a == b
}
