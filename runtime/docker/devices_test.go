package docker_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/api/types/container"

	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/docker"
	"github.com/heteroflow/node-agent/runtime/ulimit"
)

// askedFor is what a daemon is asked for when a container of the spec is made. It runs in
// this process.
func askedFor(t *testing.T, spec runtime.Spec) *container.HostConfig {
	t.Helper()
	var asked atomic.Pointer[container.HostConfig]
	p := startProxy(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.44")
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/containers/create") {
			var body struct{ HostConfig container.HostConfig }
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
				t.Error(err)
			}
			asked.Store(&body.HostConfig)
			w.WriteHeader(http.StatusCreated)
		}
		_, _ = fmt.Fprintf(w, `{"Id":%q,"Name":"/task","Config":{"Image":"busybox"},"State":{"Status":"created"}}`, strings.Repeat("a", 64))
	}))
	if _, err := connect(t, docker.Options{Host: p.host}).Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	return asked.Load()
}

func TestProcessLimitsAreThoseOfGPUWorkWithinTheDaemonsOwn(t *testing.T) {
	may, err := ulimit.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	got := askedFor(t, runtime.Spec{
		Name: "task", Image: "busybox", Network: runtime.Network{Mode: runtime.NetworkNone}, IPC: runtime.IPCPrivate,
		Logs: runtime.LogLimits{MaxBytes: 1 << 20, MaxFiles: 1},
	})
	files, memory := int64(may.OpenFiles), int64(may.LockedMemory)
	want := []*container.Ulimit{{Name: "nofile", Hard: files, Soft: files}, {Name: "memlock", Hard: memory, Soft: memory}}
	if diff := cmp.Diff(want, got.Ulimits); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
}

func TestDevicesAreAskedForInTheDaemonsWords(t *testing.T) {
	spec := runtime.Spec{
		Name: "task", Image: "busybox", Network: runtime.Network{Mode: runtime.NetworkNone}, IPC: runtime.IPCPrivate,
		Logs:       runtime.LogLimits{MaxBytes: 1 << 20, MaxFiles: 1},
		CDIDevices: []string{"a.example/gpu=0", "b.example/gpu=all"},
		Devices:    []runtime.Device{{HostPath: "/dev/there", Path: "/dev/here", Permissions: "rw"}},
		Groups:     []uint32{44, 109},
	}
	got := askedFor(t, spec)
	if diff := cmp.Diff([]container.DeviceRequest{{Driver: "cdi", DeviceIDs: spec.CDIDevices}}, got.DeviceRequests); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	want := []container.DeviceMapping{{PathOnHost: "/dev/there", PathInContainer: "/dev/here", CgroupPermissions: "rw"}}
	if diff := cmp.Diff(want, got.Devices); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"44", "109"}, got.GroupAdd); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
}

func TestADeviceThatTheDaemonCannotGiveIsNoFaultOfTheProgram(t *testing.T) {
	b := newBench(t, docker.Timeouts{})
	for name, change := range map[string]func(*runtime.Spec){
		"a CDI name that no spec has": func(s *runtime.Spec) { s.CDIDevices = []string{"none.example/gpu=0"} },
		"a device node that is not there": func(s *runtime.Spec) {
			s.Devices = []runtime.Device{{HostPath: "/dev/none-of-that-name", Path: "/dev/x", Permissions: "rw"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			spec := b.spec(strings.ReplaceAll(name, " ", "-"), "exit", "0")
			change(&spec)
			c, err := b.direct.Create(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			wantClass(t, b.direct.Start(t.Context(), c.ID), runtime.ErrDeviceUnavailable)
			if state := b.state(t, c.ID); state != runtime.StateCreated {
				t.Errorf("it is %s", state)
			}
		})
	}
}
