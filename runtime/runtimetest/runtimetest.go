// Package runtimetest is the conformance suite of [runtime.Runtime]: what the agent
// relies on, tried out on a real daemon. Docker and containerd must both pass it.
//
// The suite runs on the daemon's own host, as root: it looks at the containers'
// processes from outside. All it needs it brings along, a registry in this process and
// images around the workload program, and it removes what it made, after a failure too.
package runtimetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/test/image"
	"github.com/heteroflow/node-agent/test/registry"
)

// Harness is what the suite needs to know of a runtime.
type Harness struct {
	// New returns another client of the daemon under test, which the suite closes.
	New func(t *testing.T) runtime.Runtime

	// RemoveImage takes a name of an image away from the daemon. There may be none.
	RemoveImage func(ctx context.Context, ref string) error

	// HidesRetryAfter: clients do not learn what a registry's Retry-After header said.
	HidesRetryAfter bool
}

const (
	testLabel = "io.heteroflow.runtimetest"
	username  = "suite"
	password  = "pa$$ word"

	// patience bounds everything that has no bound in the interface. On two busy
	// cores a container takes seconds.
	patience = 2 * time.Minute
)

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	s := setUp(t, h)
	groups := []struct {
		name string
		run  func(*suite, *testing.T)
	}{
		{"create", (*suite).testCreate},
		{"lifecycle", (*suite).testLifecycle},
		{"stop", (*suite).testStop},
		{"remove", (*suite).testRemove},
		{"exit", (*suite).testExit},
		{"memory", (*suite).testMemory},
		{"logs", (*suite).testLogs},
		{"process", (*suite).testProcess},
		{"mounts", (*suite).testMounts},
		{"limits", (*suite).testLimits},
		{"network", (*suite).testNetwork},
		{"images", (*suite).testImages},
		{"pull", (*suite).testPull},
		{"daemon", (*suite).testDaemon},
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) { g.run(s, t) })
	}
}

// suite is what all tests share.
type suite struct {
	Harness
	rt       runtime.Runtime
	registry *registry.Registry
	auth     *runtime.RegistryAuth
	workload v1.Image
	image    string // its reference; the daemon has it
	run      string // the value of testLabel on everything this run made
	names    atomic.Int64
}

func setUp(t *testing.T, h Harness) *suite {
	t.Helper()
	reg, err := registry.Start(registry.Options{Username: username, Password: password})
	if err != nil {
		t.Fatal(err)
	}
	s := &suite{
		Harness:  h,
		registry: reg,
		auth:     &runtime.RegistryAuth{Username: username, Password: password},
		run:      strings.ToLower(rand.Text()[:8]),
	}
	s.rt = s.client(t)
	t.Cleanup(func() {
		if err := reg.Close(); err != nil {
			t.Error(err)
		}
	})
	s.workload, err = image.Build(t.Context(), image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.image = pushTo(t, reg, "workload:v1", s.workload)
	s.pull(t, s.image)
	t.Cleanup(func() { s.sweep(t) })
	return s
}

// client returns another client of the daemon.
func (s *suite) client(t *testing.T) runtime.Runtime {
	t.Helper()
	rt := s.New(t)
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Errorf("close runtime: %v", err)
		}
	})
	return rt
}

// sweep removes the containers that a failed test has left.
func (s *suite) sweep(t *testing.T) {
	ctx := cleanUpContext(t)
	left, err := s.rt.List(ctx, map[string]string{testLabel: s.run})
	if err != nil {
		t.Errorf("look for containers left behind: %v", err)
	}
	for _, c := range left {
		t.Errorf("container %s (%s) was left behind", c.Name, c.State)
		if err := s.rt.Remove(ctx, c.ID); err != nil {
			t.Error(err)
		}
	}
}

// cleanUpContext is for after a test, when its own context has ended.
func cleanUpContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	t.Cleanup(cancel)
	return ctx
}

// spec is a container of the workload image that is given args. It is on the host's
// network, which is the quickest to set up.
func (s *suite) spec(args ...string) runtime.Spec {
	return runtime.Spec{
		Name:    fmt.Sprintf("rt-%s-%d", s.run, s.names.Add(1)),
		Image:   s.image,
		Labels:  map[string]string{testLabel: s.run},
		Args:    args,
		Network: runtime.Network{Mode: runtime.NetworkHost},
		IPC:     runtime.IPCPrivate,
		Logs:    runtime.LogLimits{MaxBytes: 1 << 20, MaxFiles: 2},
	}
}

// create makes a container that the test's end removes.
func (s *suite) create(t *testing.T, spec runtime.Spec) runtime.Container {
	t.Helper()
	c, err := s.rt.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	s.removeLater(t, c.ID)
	return c
}

func (s *suite) removeLater(t *testing.T, id string) {
	t.Helper()
	t.Cleanup(func() {
		if err := s.rt.Remove(cleanUpContext(t), id); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
}

// start creates and starts a container.
func (s *suite) start(t *testing.T, spec runtime.Spec) runtime.Container {
	t.Helper()
	c := s.create(t, spec)
	if err := s.rt.Start(t.Context(), c.ID); err != nil {
		t.Fatal(err)
	}
	return c
}

// finish runs a container to its end.
func (s *suite) finish(t *testing.T, spec runtime.Spec) (runtime.Container, runtime.Exit) {
	t.Helper()
	c := s.start(t, spec)
	return c, s.wait(t, c.ID)
}

func (s *suite) wait(t *testing.T, id string) runtime.Exit {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	exit, err := s.rt.Wait(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	return exit
}

// output runs a container to its end and returns what it has printed. It must exit 0.
func (s *suite) output(t *testing.T, spec runtime.Spec) []byte {
	t.Helper()
	c, exit := s.finish(t, spec)
	out := s.logs(t, c.ID)
	wantCode(t, exit, 0)
	if t.Failed() {
		t.Fatalf("its output:\n%s", out)
	}
	return out
}

func (s *suite) logs(t *testing.T, id string) []byte {
	t.Helper()
	out, err := s.rt.Logs(t.Context(), id, runtime.LogOptions{TailBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (s *suite) inspect(t *testing.T, id string) runtime.Container {
	t.Helper()
	c, err := s.rt.Inspect(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// waitForOutput waits until a running container has printed the text.
func (s *suite) waitForOutput(t *testing.T, id, text string) {
	t.Helper()
	eventually(t, fmt.Sprintf("the container prints %q", text), func() bool {
		return strings.Contains(string(s.logs(t, id)), text)
	})
}

// server is a container that ends with code 0 when it is stopped, once it serves: before
// that it has no handler for the signal, which the kernel then keeps from PID 1.
func (s *suite) server() runtime.Spec {
	return s.spec("serve", "--host", "127.0.0.1", "--port", "0")
}

// waitUntilServing waits until a server has come up in its nth run.
func (s *suite) waitUntilServing(t *testing.T, id string, run int) {
	t.Helper()
	eventually(t, fmt.Sprintf("run %d of the server has come up", run), func() bool {
		return strings.Count(string(s.logs(t, id)), "serving test-model") == run
	})
}

// eventually fails the test unless the condition comes true in time.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	timeout := time.After(patience)
	for !condition() {
		select {
		case <-ticker.C:
		case <-timeout:
			t.Fatalf("after %v it is not so that %s", patience, what)
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
}

func wantCode(t *testing.T, exit runtime.Exit, code int) {
	t.Helper()
	switch {
	case exit.Code == nil:
		t.Errorf("the exit code is not known (%s), want %d", exit.Message, code)
	case *exit.Code != code:
		t.Errorf("exit code %d (%s), want %d", *exit.Code, exit.Message, code)
	}
}

func wantClass(t *testing.T, err, class error) {
	t.Helper()
	if !errors.Is(err, class) {
		t.Errorf("got error %v, want one of class %q", err, class)
	}
}
