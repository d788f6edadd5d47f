package docker_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/docker"
)

// versioned is a daemon that speaks the API versions from lowest to highest and knows
// nothing but its /info.
func versioned(lowest, highest string, info map[string]any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", highest)
		version, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v"), "/")
		var reply any = info
		status := http.StatusOK
		switch {
		case r.URL.Path == "/_ping":
			return
		case minor(version) < minor(lowest):
			status, reply = http.StatusBadRequest, refusal("client version %s is too old. Minimum supported API version is %s, please upgrade your client to a newer version", version, lowest)
		case minor(version) > minor(highest):
			status, reply = http.StatusBadRequest, refusal("client version %s is too new. Maximum supported API version is %s", version, highest)
		case rest != "info":
			status, reply = http.StatusNotFound, refusal("page not found")
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(reply)
	}
}

func minor(version string) (n int) {
	_, _ = fmt.Sscanf(version, "1.%d", &n)
	return n
}

func refusal(format string, a ...any) map[string]any {
	return map[string]any{"message": fmt.Sprintf(format, a...)}
}

func TestProbeNegotiatesTheAPIVersion(t *testing.T) {
	cases := map[string]struct {
		lowest, highest string
		want            string
	}{
		"with Docker 20.10":                     {"1.12", "1.41", "1.41"},
		"with Docker 29, which wants 1.44":      {"1.44", "1.52", "1.52"},
		"with a release newer than this client": {"1.44", "1.99", "1.56"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := startProxy(t, versioned(tc.lowest, tc.highest, map[string]any{
				"ServerVersion": "9.9", "DockerRootDir": "/data", "CgroupVersion": "2", "CDISpecDirs": []string{"/etc/cdi"},
			}))
			got, err := connect(t, docker.Options{Host: p.host}).Probe(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			want := runtime.Info{Version: "9.9", APIVersion: tc.want, RootDir: "/data", ImageDir: "/data", CgroupVersion: 2, CDI: true, CDIDirs: []string{"/etc/cdi"}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestProbeNamesBothVersionsWhenThereIsNoneInCommon(t *testing.T) {
	cases := map[string]struct {
		lowest, highest string
		want            []string
	}{
		"the daemon is too old": {"1.12", "1.39", []string{"1.39", "1.40"}},
		"the daemon is too new": {"1.90", "1.99", []string{"1.56", "1.90"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := startProxy(t, versioned(tc.lowest, tc.highest, nil))
			r := connect(t, docker.Options{Host: p.host})
			_, probe := r.Probe(t.Context())
			_, list := r.List(t.Context(), nil)
			for _, err := range []error{probe, list} {
				wantClass(t, err, runtime.ErrUnavailable)
				for _, version := range tc.want {
					if err == nil || !strings.Contains(err.Error(), version) {
						t.Errorf("the error does not name %s: %v", version, err)
					}
				}
			}
		})
	}
}

func TestADockerWithoutItsContainerdIsAway(t *testing.T) {
	components := func(names ...string) map[string]any {
		var all []map[string]string
		for _, name := range names {
			all = append(all, map[string]string{"Name": name, "Version": "1"})
		}
		return map[string]any{"Version": "9.9", "Components": all}
	}
	cases := map[string]struct {
		commit  string
		version map[string]any // nil: it is not told
		away    bool
	}{
		"as release 20.10 says it":            {"N/A", components("Engine", "runc", "docker-init"), true},
		"as release 29 says it":               {"", components("Engine", "runc", "docker-init"), true},
		"there, of a build without a commit":  {"", components("Engine", "containerd", "runc"), false},
		"back between the two questions":      {"N/A", components("Engine", "containerd", "runc"), false},
		"there":                               {"1fbd70374134b891f97ce19c70b6e50c7b9f4e0d", components("Engine"), false},
		"an engine of another make":           {"", components("Podman Engine", "Conmon"), false},
		"one that does not tell its versions": {"N/A", nil, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			info := map[string]any{"ServerVersion": "9.9", "ContainerdCommit": map[string]string{"ID": tc.commit}}
			answer := versioned("1.12", "1.41", info)
			p := startProxy(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/version") && tc.version != nil {
					w.Header().Set("Content-Type", "application/json")
					_ = json.NewEncoder(w).Encode(tc.version)
					return
				}
				answer(w, r)
			}))
			_, err := connect(t, docker.Options{Host: p.host}).Probe(t.Context())
			if away := errors.Is(err, runtime.ErrUnavailable); away != tc.away || (err != nil) != tc.away {
				t.Errorf("got %v, want away %t", err, tc.away)
			}
		})
	}
}

func TestADaemonThatIsReplacedByANewerReleaseIsFoundAgain(t *testing.T) {
	var upgraded atomic.Bool
	old, next := versioned("1.12", "1.41", nil), versioned("1.44", "1.52", nil)
	p := startProxy(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if upgraded.Load() {
			next(w, r)
			return
		}
		old(w, r)
	}))
	r := connect(t, docker.Options{Host: p.host})
	if info, err := r.Probe(t.Context()); err != nil || info.APIVersion != "1.41" {
		t.Fatalf("got %+v, %v", info, err)
	}
	upgraded.Store(true)
	_, err := r.Images(t.Context())
	wantClass(t, err, runtime.ErrUnavailable)
	_, err = r.Images(t.Context())
	wantClass(t, err, runtime.ErrNotFound) // of the new release, which knows only /info
	if info, err := r.Probe(t.Context()); err != nil || info.APIVersion != "1.52" {
		t.Errorf("got %+v, %v", info, err)
	}
}

func TestADaemonThatNeverAnswersIsUnavailableInTime(t *testing.T) {
	p := startProxy(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { hang(w, r, nil) }))
	short := 100 * time.Millisecond
	r := connect(t, docker.Options{Host: p.host, Timeouts: docker.Timeouts{Probe: short, Query: short, Logs: short, Remove: short}})
	id := strings.Repeat("0", 64)
	_, probe := r.Probe(t.Context())
	_, list := r.List(t.Context(), nil)
	_, images := r.Images(t.Context())
	_, logs := r.Logs(t.Context(), id, runtime.LogOptions{TailBytes: 1})
	for name, err := range map[string]error{"probe": probe, "list": list, "images": images, "logs": logs, "remove": r.Remove(t.Context(), id)} {
		if !errors.Is(err, runtime.ErrUnavailable) || !strings.Contains(err.Error(), "no answer from docker at "+p.host+" within 100ms") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestADaemonThatIsNotThereIsUnavailable(t *testing.T) {
	r := connect(t, docker.Options{Host: "unix://" + t.TempDir() + "/none.sock"})
	_, err := r.Probe(t.Context())
	wantClass(t, err, runtime.ErrUnavailable)
	if err == nil || !strings.Contains(err.Error(), "none.sock") {
		t.Errorf("the error does not name the socket: %v", err)
	}
}

func TestAHostThatMakesNoSenseIsInvalid(t *testing.T) {
	for _, host := range []string{"/var/run/docker.sock", "unix://", "nonsense"} {
		_, err := docker.New(docker.Options{Host: host})
		wantClass(t, err, runtime.ErrInvalid)
	}
}

func TestContainersAreReadWithCare(t *testing.T) {
	const never = `"StartedAt":"0001-01-01T00:00:00Z","FinishedAt":"0001-01-01T00:00:00Z"`
	const ran = `"StartedAt":"2026-01-02T03:04:05.6Z","FinishedAt":"2026-01-02T03:04:06.7Z"`
	const hasty = `"StartedAt":"2026-01-02T03:04:05.6Z","FinishedAt":"2026-01-02T03:04:05.5Z"`
	cases := map[string]struct {
		state      string
		want       runtime.State
		code       int // -1: not known, -2: no exit at all
		startError string
	}{
		"a failed first start is no exit":            {`"Status":"created","ExitCode":127,"Error":"no program",` + never, runtime.StateCreated, -2, "no program"},
		"a failed removal of what never ran neither": {`"Status":"dead","Dead":true,"ExitCode":0,` + never, runtime.StateDead, -2, ""},
		"an end noted before its start is one":       {`"Status":"exited","ExitCode":0,` + hasty, runtime.StateExited, 0, ""},
		"an exit is one":                             {`"Status":"exited","ExitCode":0,` + ran, runtime.StateExited, 0, ""},
		"a failed second start hides the first exit": {`"Status":"exited","ExitCode":128,"Error":"no mount",` + ran, runtime.StateExited, -1, "no mount"},
		"a running container has not ended":          {`"Status":"running","Running":true,"Pid":7,"ExitCode":0,` + ran, runtime.StateRunning, -2, ""},
		"a frozen container has not ended":           {`"Status":"paused","Running":true,"Paused":true,"Pid":7,"ExitCode":0,` + ran, runtime.StatePaused, -2, ""},
		"nor has one that is to be restarted":        {`"Status":"restarting","Running":true,"Restarting":true,"ExitCode":1,` + ran, runtime.StateRestarting, -2, ""},
		"nor one that is being removed":              {`"Status":"removing","ExitCode":0,` + ran, runtime.StateRemoving, -2, ""},
		"a failed removal of what ran is an exit":    {`"Status":"dead","Dead":true,"ExitCode":3,` + ran, runtime.StateDead, 3, ""},
		"an unknown word is an unknown state":        {`"Status":"hibernating","ExitCode":0,` + ran, runtime.StateUnknown, -2, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := startProxy(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Api-Version", "1.41")
				_, _ = fmt.Fprintf(w, `{"Id":"x","Name":"/task","Config":{"Image":"busybox"},"State":{%s}}`, tc.state)
			}))
			c, err := connect(t, docker.Options{Host: p.host}).Inspect(t.Context(), "task")
			if err != nil {
				t.Fatal(err)
			}
			code := -2
			if c.Exit != nil {
				if c.Exit.FinishedAt.Before(c.StartedAt) {
					t.Errorf("it ended at %v and started at %v", c.Exit.FinishedAt, c.StartedAt)
				}
				if code = -1; c.Exit.Code != nil {
					code = *c.Exit.Code
				}
			}
			if c.State != tc.want || code != tc.code || c.StartError != tc.startError {
				t.Errorf("got %+v with exit code %d", c, code)
			}
			if c.Image != "docker.io/library/busybox:latest" {
				t.Errorf("image %q", c.Image)
			}
		})
	}
}

func TestAnAnswerThatLacksEverythingIsTheDaemonsFault(t *testing.T) {
	for _, body := range []string{"{}", "null", "", "<html>", `{"State":{}}`} {
		p := startProxy(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(200, body)(w, nil, nil) }))
		_, err := connect(t, docker.Options{Host: p.host}).Inspect(t.Context(), "task")
		wantClass(t, err, runtime.ErrUnavailable)
	}
}
