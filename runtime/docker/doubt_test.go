package docker_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/docker"
	"github.com/heteroflow/node-agent/test/engine"
)

func TestACodeThatDockerMakesUpIsNotTakenForTheProgramsOwn(t *testing.T) {
	const ran = `"Status":"exited","StartedAt":"2026-01-02T03:04:05Z","FinishedAt":"2026-01-02T03:04:06Z"`
	const died = `{"Type":"container","Action":"die","Actor":{"Attributes":{"exitCode":"255"}}}` + "\n"
	cases := map[string]struct {
		code   int
		events string
		known  bool
	}{
		"255 that Docker saw":               {255, died, true},
		"255 of which it remembers nothing": {255, "", false},
		"any other":                         {254, "", true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var asked []string
			p := startProxy(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Api-Version", "1.41")
				w.Header().Set("Content-Type", "application/json")
				switch {
				case strings.HasSuffix(r.URL.Path, "/events"):
					asked = append(asked, r.URL.Query().Get("filters"))
					_, _ = fmt.Fprint(w, tc.events)
				case strings.HasSuffix(r.URL.Path, "/info"):
					_, _ = fmt.Fprintf(w, `{"DockerRootDir":%q}`, t.TempDir())
				default:
					_, _ = fmt.Fprintf(w, `{"Id":%q,"Name":"/task","Config":{"Image":"busybox"},"State":{%s,"ExitCode":%d}}`, lostID, ran, tc.code)
				}
			}))
			c, err := connect(t, docker.Options{Host: p.host}).Inspect(t.Context(), lostID)
			if err != nil || c.State != runtime.StateExited || c.Exit == nil {
				t.Fatalf("got %+v, %v", c, err)
			}
			switch known := c.Exit.Code != nil; {
			case known != tc.known, known && *c.Exit.Code != tc.code:
				t.Errorf("got %+v", c.Exit)
			case !known && (c.Exit.Message == "" || !c.Exit.FinishedAt.IsZero()):
				t.Errorf("got %+v, want why it is not known, and no time that is that of Docker's start", c.Exit)
			}
			for _, filters := range asked {
				if !strings.Contains(filters, lostID) || !strings.Contains(filters, "die") {
					t.Errorf("asked for events %s", filters)
				}
			}
		})
	}
}

func TestA255OfTheProgramIsKnownAndOneThatDockerStoresWhenItStartsIsNot(t *testing.T) {
	e, r, img := ownDocker(t)
	b := bench{direct: r, image: img, run: "doubt"}
	own := b.start(t, "exit", "255")
	t.Cleanup(func() { remove(t, r, own) })
	exit, err := r.Wait(t.Context(), own)
	if err != nil || exit.Code == nil || *exit.Code != 255 {
		t.Errorf("the program's own: got %+v, %v", exit, err)
	}

	c, err := r.Create(t.Context(), b.spec("cut-off", "sleep", "1h"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { remove(t, r, c.ID) })
	if err := r.Start(t.Context(), c.ID); err != nil {
		t.Fatal(err)
	}
	if err := e.Docker.Kill(); err != nil {
		t.Fatal(err)
	}
	killShim(t, e, c.ID)
	if err := e.Docker.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	now, err := r.Inspect(t.Context(), c.ID)
	if err != nil || now.State != runtime.StateExited || now.Exit == nil {
		t.Fatalf("got %+v, %v", now, err)
	}
	if now.Exit.Code != nil && *now.Exit.Code == 255 {
		t.Errorf("a program that was killed is said to have ended with 255: %+v", now.Exit)
	}
}

func remove(t *testing.T, r *docker.Runtime, id string) {
	t.Helper()
	if err := r.Remove(context.WithoutCancel(t.Context()), id); err != nil {
		t.Error(err)
	}
}

// killShim kills the process that knows how a container ends, and the container with it,
// and waits until nothing of it lives and containerd has cleared up after it.
func killShim(t *testing.T, e *engine.Engines, id string) {
	t.Helper()
	shims := func() (pids []int) {
		all, err := e.Shims()
		if err != nil {
			t.Fatal(err)
		}
		for pid, line := range all {
			if strings.Contains(line, id) {
				pids = append(pids, pid)
			}
		}
		return pids
	}
	for _, pid := range shims() {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	await(t, func() error {
		// The program that clears up is the shim's own.
		if left := append(processesOf(t, id), shims()...); len(left) > 0 {
			return fmt.Errorf("there are still processes %d", left)
		}
		return nil
	})
}
