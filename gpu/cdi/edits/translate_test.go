package edits

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/heteroflow/node-agent/gpu/cdi/hostfs"
	"github.com/heteroflow/node-agent/gpu/cdi/spec"
)

func TestWhatCannotBeTranslatedIsRefusedByName(t *testing.T) {
	uid := uint32(7)
	cases := map[string]struct {
		edits specs.ContainerEdits
		want  string
	}{
		"a hook":               {specs.ContainerEdits{Hooks: []*specs.Hook{{HookName: "createContainer", Path: "/x", Args: []string{"x", "ldcache"}}}}, "createContainer hook x ldcache"},
		"a network device":     {specs.ContainerEdits{NetDevices: []*specs.LinuxNetDevice{{HostInterfaceName: "ib0", Name: "ib0"}}}, "network device ib0"},
		"an RDT class":         {specs.ContainerEdits{IntelRdt: &specs.IntelRdt{ClosID: "x"}}, "Intel RDT"},
		"an owner of a node":   {specs.ContainerEdits{DeviceNodes: []*specs.DeviceNode{{Path: "/dev/null", UID: &uid}}}, "an owner other than on the host for device node /dev/null"},
		"a pipe":               {specs.ContainerEdits{DeviceNodes: []*specs.DeviceNode{{Path: "/dev/x", Type: "p"}}}, `type "p"`},
		"no permissions":       {specs.ContainerEdits{DeviceNodes: []*specs.DeviceNode{{Path: "/dev/x", Permissions: "none"}}}, `permissions "none"`},
		"a mount of a tmpfs":   {specs.ContainerEdits{Mounts: []*specs.Mount{{HostPath: "/a", ContainerPath: "/b", Type: "tmpfs"}}}, "type tmpfs at /b"},
		"an option of a mount": {specs.ContainerEdits{Mounts: []*specs.Mount{{HostPath: "/a", ContainerPath: "/b", Options: []string{"ro", "noexec"}}}}, "option noexec of the mount at /b"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Translate(hostfs.FS{}, "nvidia.heteroflow.io/gpu=0", tc.edits)
			refused, ok := errors.AsType[*UntranslatableError](err)
			if !ok || !strings.Contains(refused.What, tc.want) || !strings.Contains(err.Error(), "nvidia.heteroflow.io/gpu=0") {
				t.Errorf("got %v, want %q and the device refused", err, tc.want)
			}
		})
	}
}

func TestTheLastOfTwoValuesOfAVariableCounts(t *testing.T) {
	got, err := Translate(hostfs.FS{}, "", specs.ContainerEdits{Env: []string{"A=spec", "B=spec", "A=device"}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"A=device", "B=spec"}, got.Env); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func FuzzTranslate(f *testing.F) {
	files, err := filepath.Glob("../testdata/golden/*.json")
	if err != nil || len(files) == 0 {
		f.Fatalf("no recorded specs: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := spec.Parse(data)
		if err != nil {
			return
		}
		for _, d := range s.Devices {
			all := spec.Join(s.ContainerEdits, d.ContainerEdits)
			got, err := Translate(hostfs.FS{}, d.Name, all)
			if err == nil && (len(got.Nodes) != len(all.DeviceNodes) || len(got.Mounts) != len(all.Mounts)) {
				t.Fatalf("of %+v there is %+v", all, got)
			}
		}
	})
}
