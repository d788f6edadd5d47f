package runtimefake_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/runtimefake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const image = "registry.example/app:v1"

func spec(name string) runtime.Spec {
	return runtime.Spec{
		Name: name, Image: image, Labels: map[string]string{"k": "v"},
		Network: runtime.Network{Mode: runtime.NetworkNone}, IPC: runtime.IPCPrivate,
		Logs: runtime.LogLimits{MaxBytes: 1 << 20, MaxFiles: 1},
	}
}

// started is a daemon with one running container of the program.
func started(t *testing.T, p runtimefake.Program) (*runtimefake.Daemon, *runtimefake.Runtime, string) {
	t.Helper()
	d := runtimefake.NewDaemon()
	d.AddImage(image, p)
	rt := d.Connect()
	c, err := rt.Create(t.Context(), spec("task-1"))
	if err != nil {
		t.Fatal(err)
	}
	if err := rt.Start(t.Context(), c.ID); err != nil {
		t.Fatal(err)
	}
	return d, rt, c.ID
}

func TestAProgramEndsAsItSays(t *testing.T) {
	cases := map[string]struct {
		program runtimefake.Program
		stop    bool
		code    int
		lost    bool
		oom     bool
		takes   time.Duration
	}{
		"by itself after its time":             {program: runtimefake.Program{Runs: time.Hour, Code: 3}, code: 3, takes: time.Hour},
		"killed for memory":                    {program: runtimefake.Program{Runs: time.Second, Code: 137, OOMKilled: true}, code: 137, oom: true, takes: time.Second},
		"with a code that nobody kept":         {program: runtimefake.Program{CodeLost: true}, lost: true},
		"by SIGTERM when it is stopped":        {program: runtimefake.Program{Forever: true}, stop: true, code: 143},
		"by SIGKILL if it ignores the SIGTERM": {program: runtimefake.Program{Forever: true, IgnoresTerm: true}, stop: true, code: 137, takes: 10 * time.Second},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, rt, id := started(t, tc.program)
				begun := time.Now()
				if tc.stop {
					if err := rt.Stop(t.Context(), id, 10*time.Second); err != nil {
						t.Fatal(err)
					}
				}
				exit, err := rt.Wait(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				if (exit.Code == nil) != tc.lost || exit.Code != nil && *exit.Code != tc.code || exit.OOMKilled != tc.oom {
					t.Errorf("got %+v", exit)
				}
				if off := time.Since(begun) - tc.takes; off.Abs() > time.Second {
					t.Errorf("took %v, want about %v", tc.takes+off, tc.takes)
				}
			})
		})
	}
}

func TestALostReplyLeavesTheEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := runtimefake.NewDaemon()
		d.AddImage(image, runtimefake.Program{Forever: true})
		rt := d.Connect()
		for _, op := range []runtimefake.Op{runtimefake.OpCreate, runtimefake.OpStart, runtimefake.OpStop, runtimefake.OpRemove} {
			d.Inject(runtimefake.Fault{Op: op, Times: 1, Applied: true})
		}
		if _, err := rt.Create(t.Context(), spec("task-1")); !errors.Is(err, runtime.ErrUnavailable) {
			t.Fatalf("create: %v", err)
		}
		c, err := rt.Create(t.Context(), spec("task-1"))
		if err != nil || d.Made() != 1 {
			t.Fatalf("%d containers made, %v", d.Made(), err)
		}
		states := []runtime.State{runtime.StateRunning, runtime.StateExited}
		for i, do := range []func() error{
			func() error { return rt.Start(t.Context(), c.ID) },
			func() error { return rt.Stop(t.Context(), c.ID, time.Second) },
		} {
			if err := do(); !errors.Is(err, runtime.ErrUnavailable) {
				t.Errorf("got %v", err)
			}
			if now, err := rt.Inspect(t.Context(), "task-1"); err != nil || now.State != states[i] {
				t.Errorf("got %s, %v, want %s", now.State, err, states[i])
			}
		}
		if err := rt.Remove(t.Context(), c.ID); !errors.Is(err, runtime.ErrUnavailable) || len(d.Containers()) != 0 {
			t.Errorf("remove: %v, left: %v", err, d.Containers())
		}
	})
}

func TestADaemonThatGoesAwayCutsItsClientsAndNotItsContainers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, rt, id := started(t, runtimefake.Program{Runs: time.Hour})
		time.AfterFunc(time.Minute, d.Stop)
		if _, err := rt.Wait(t.Context(), id); !errors.Is(err, runtime.ErrUnavailable) {
			t.Errorf("wait: %v", err)
		}
		if _, err := rt.Inspect(t.Context(), id); !errors.Is(err, runtime.ErrUnavailable) {
			t.Errorf("inspect: %v", err)
		}
		d.Resume()
		if now, err := rt.Inspect(t.Context(), id); err != nil || now.State != runtime.StateRunning {
			t.Errorf("got %s, %v", now.State, err)
		}
	})
}

func TestAnUnkillableProgramOutlivesStopAndRemove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, rt, id := started(t, runtimefake.Program{Unkillable: true})
		if err := rt.Stop(t.Context(), id, time.Second); !errors.Is(err, runtime.ErrStopTimeout) {
			t.Errorf("stop: %v", err)
		}
		if err := rt.Remove(t.Context(), id); !errors.Is(err, runtime.ErrConflict) || len(d.Containers()) != 1 {
			t.Errorf("remove: %v", err)
		}
	})
}

func TestADeadClientHasNoMoreEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, rt, id := started(t, runtimefake.Program{Forever: true})
		rt.Sever()
		if err := rt.Remove(t.Context(), id); err == nil || len(d.Containers()) != 1 {
			t.Errorf("remove: %v", err)
		}
	})
}

func TestACallWithAnEmptyIDIsRefusedAndRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := runtimefake.NewDaemon()
		if err := d.Connect().Remove(t.Context(), ""); !errors.Is(err, runtime.ErrInvalid) || len(d.Misuse()) != 1 {
			t.Errorf("got %v, remembered %q", err, d.Misuse())
		}
	})
}

func TestAPullTakesItsTimeAndWantsItsPassword(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := runtimefake.NewDaemon()
		d.Publish(image, runtimefake.Published{Takes: time.Minute, Wants: "word"})
		rt := d.Connect()
		if _, err := rt.Pull(t.Context(), runtime.PullRequest{Ref: image}); !errors.Is(err, runtime.ErrUnauthorized) {
			t.Errorf("without the password: %v", err)
		}
		begun := time.Now()
		req := runtime.PullRequest{Ref: image, Auth: &runtime.RegistryAuth{Username: "u", Password: "word"}}
		if _, err := rt.Pull(t.Context(), req); err != nil || time.Since(begun) < time.Minute {
			t.Errorf("with it: %v after %v", err, time.Since(begun))
		}
		if _, err := rt.Image(t.Context(), image); err != nil || d.Pulls(image) != 2 {
			t.Errorf("image: %v, %d pulls", err, d.Pulls(image))
		}
	})
}
