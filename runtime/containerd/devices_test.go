package containerd

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/heteroflow/node-agent/runtime"
)

const nullSpec = `{"cdiVersion": "0.5.0", "kind": "a.example/gpu",
  "devices": [{"name": "0", "containerEdits": {"env": ["CARD=spec"], "deviceNodes": [{"path": "/dev/card0", "hostPath": "/dev/null", "permissions": "rw"}]}}],
  "containerEdits": {"mounts": [{"hostPath": "/etc/hostname", "containerPath": "/vendor", "options": ["ro", "rbind"]}]}}`

func container() *specs.Spec {
	return &specs.Spec{
		Process: &specs.Process{Env: []string{"CARD=task", "A=1"}, User: specs.User{AdditionalGids: []uint32{0}}},
		Mounts:  []specs.Mount{{Destination: "/vendor", Source: "/task"}},
		Linux:   &specs.Linux{Resources: &specs.LinuxResources{Devices: []specs.LinuxDeviceCgroup{{Access: "rwm"}}}},
	}
}

func TestACDIDeviceIsInjectedOverWhatTheTaskSays(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.json"), []byte(nullSpec), 0o600); err != nil {
		t.Fatal(err)
	}
	oci := container()
	if err := inject(oci, runtime.Spec{CDIDevices: []string{"a.example/gpu=0"}}, []string{dir}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(oci.Process.Env, []string{"CARD=spec", "A=1"}) {
		t.Errorf("environment %q", oci.Process.Env)
	}
	if len(oci.Mounts) != 1 || oci.Mounts[0].Source != "/etc/hostname" {
		t.Errorf("mounts %+v", oci.Mounts)
	}
	wantNode(t, oci, "/dev/card0")
}

func TestADeviceWithoutCDIIsInjectedWithItsGroups(t *testing.T) {
	oci := container()
	err := inject(oci, runtime.Spec{
		Devices: []runtime.Device{{HostPath: "/dev/null", Path: "/dev/card0", Permissions: "rw"}}, Groups: []uint32{0, 44},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	wantNode(t, oci, "/dev/card0")
	if got := oci.Process.User.AdditionalGids; !slices.Equal(got, []uint32{0, 44}) {
		t.Errorf("groups %v", got)
	}
}

// wantNode looks for /dev/null under another name, and for the right to use it.
func wantNode(t *testing.T, oci *specs.Spec, path string) {
	t.Helper()
	if len(oci.Linux.Devices) != 1 || oci.Linux.Devices[0].Path != path || oci.Linux.Devices[0].Major != 1 || oci.Linux.Devices[0].Minor != 3 {
		t.Errorf("devices %+v", oci.Linux.Devices)
	}
	last := oci.Linux.Resources.Devices[len(oci.Linux.Resources.Devices)-1]
	if !last.Allow || last.Access != "rw" || *last.Major != 1 || *last.Minor != 3 {
		t.Errorf("device cgroup %+v", oci.Linux.Resources.Devices)
	}
}

func TestADeviceThatCannotBeInjectedIsNamed(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken.json")
	if err := os.WriteFile(broken, []byte(`{"cdiVersion": "0.5.0"`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		spec runtime.Spec
		want []string
	}{
		"a name that no spec has": {runtime.Spec{CDIDevices: []string{"a.example/gpu=7"}}, []string{"a.example/gpu=7", broken}},
		"a node that is not there": {
			runtime.Spec{Devices: []runtime.Device{{HostPath: "/dev/none-of-that-name", Path: "/dev/x", Permissions: "rw"}}},
			[]string{"/dev/none-of-that-name"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := inject(container(), tc.spec, []string{dir})
			if !errors.Is(err, runtime.ErrDeviceUnavailable) {
				t.Fatalf("got %v, want ErrDeviceUnavailable", err)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v does not name %s", err, want)
				}
			}
		})
	}
}
