package cdi

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/ascend"
	"github.com/heteroflow/node-agent/gpu/biren"
	"github.com/heteroflow/node-agent/gpu/cambricon"
	"github.com/heteroflow/node-agent/gpu/enflame"
	"github.com/heteroflow/node-agent/gpu/hygon"
	"github.com/heteroflow/node-agent/gpu/iluvatar"
	"github.com/heteroflow/node-agent/gpu/metax"
	"github.com/heteroflow/node-agent/gpu/musa"
	"github.com/heteroflow/node-agent/gpu/nvidia"
)

// catalogOf is the catalog of a host of testdata with some things changed in what its
// detectors found.
func catalogOf(t *testing.T, host string, change func(*gpu.Snapshot)) *Catalog {
	t.Helper()
	s := gpu.Snapshot{Type: nodes[host][0].Vendor, Devices: nodes[host]}
	if change != nil {
		change(&s)
	}
	c, err := fakeGenerator(t, host).Generate(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const second = "GPU-66666666-2222-3333-4444-555555555555" // card 1 of the host nvidia

func TestACardIsSelectedOnlyIfAllThatIsSaidOfItIsTrue(t *testing.T) {
	cases := map[string]struct {
		change func(*gpu.Snapshot)
		index  *int
		uuid   string
		want   string // qualified name, or part of the refusal
	}{
		"by index":                     {nil, new(1), "", "nvidia.heteroflow.io/gpu=" + second},
		"by uuid":                      {nil, nil, second, "nvidia.heteroflow.io/gpu=" + second},
		"by both":                      {nil, new(1), second, "nvidia.heteroflow.io/gpu=" + second},
		"the index of another card":    {nil, new(2), second, "the card with this uuid has index 1"},
		"the uuid of no card":          {nil, new(1), "GPU-gone", `the card with this index has uuid "GPU-66`},
		"an index that is not there":   {nil, new(7), "", "device 7: not in the inventory"},
		"a uuid that is not there":     {nil, nil, "GPU-gone", "device GPU-gone: not in the inventory"},
		"a card in MIG mode":           {nil, new(0), "", "it is in MIG mode"},
		"a card without a device node": {nil, new(2), "", "device node /dev/nvidia2: no such file or directory"},
		"a card that the tool reports as failed": {func(s *gpu.Snapshot) {
			s.Stats = []gpu.Stats{{Index: new(1), Health: gpu.HealthFailed, HealthMessage: "fell off the bus"}}
		}, new(1), "", "the card has failed: fell off the bus"},
		"a card with a failure by uuid": {func(s *gpu.Snapshot) {
			s.Failures = []gpu.Failure{{UUID: second, Code: "gpu_lost", Message: "GPU is lost"}}
		}, new(1), "", "the card has failed: gpu_lost: GPU is lost"},
		"a card beside one with a failure": {func(s *gpu.Snapshot) {
			s.Failures = []gpu.Failure{{Index: new(2), Code: "gpu_lost"}, {Vendor: gpu.Ascend, Index: new(1), Code: "sick"}}
		}, new(1), "", "nvidia.heteroflow.io/gpu=" + second},
		"a vendor whose tool fails": {func(s *gpu.Snapshot) {
			s.Devices = nil
			s.Vendors = []gpu.VendorStatus{{Vendor: gpu.NVIDIA, Error: &gpu.CollectorError{Code: "tool_hung", Message: "no answer"}}}
		}, new(1), "", "the vendor's tool fails: "},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := catalogOf(t, "nvidia", tc.change)
			got, err := c.Select(gpu.NVIDIA, tc.index, tc.uuid)
			if err == nil {
				if got.Name != tc.want {
					t.Errorf("selected %s, want %s", got.Name, tc.want)
				}
				return
			}
			refused, ok := errors.AsType[*UnavailableError](err)
			if !ok || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %v, want a refusal that says %q", err, tc.want)
			}
			if !strings.HasSuffix(refused.File, "heteroflow-nvidia.json") || !strings.Contains(err.Error(), refused.File) {
				t.Errorf("the refusal names the spec file as %q: %v", refused.File, err)
			}
		})
	}
}

func TestAnInstanceIsSelectedByItsUUID(t *testing.T) {
	const instance = "MIG-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
	c := catalogOf(t, "nvidia", nil)
	s, err := c.SelectInstance(instance)
	if err != nil || s.Name != "nvidia.heteroflow.io/gpu="+instance || *s.Device.Index != 0 {
		t.Fatalf("got %+v, %v", s, err)
	}
	got, err := c.Nodes([]Selection{s})
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, n := range got {
		paths = append(paths, n.Path)
	}
	want := []string{"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia1", "/dev/nvidia-caps/nvidia-cap12", "/dev/nvidia-caps/nvidia-cap13"}
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	for uuid, want := range map[string]string{
		"MIG-gone": "no card has this MIG instance", "": "no card has this MIG instance",
		"MIG-of-which-no-rights-are-listed": "does not list gpu1/gi2/access",
	} {
		if _, err := c.SelectInstance(uuid); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", uuid, err, want)
		}
	}
	c = catalogOf(t, "nvidia", func(s *gpu.Snapshot) { s.Failures = []gpu.Failure{{Index: new(0), Code: "gpu_lost"}} })
	if _, err := c.SelectInstance(instance); err == nil || !strings.Contains(err.Error(), "has failed: gpu_lost") {
		t.Errorf("on a failed card: %v", err)
	}
}

func TestFilesFollowTheInventoryAndNothingElseIsTouched(t *testing.T) {
	dir := t.TempDir()
	foreign := map[string]string{
		"nvidia.yaml": "theirs", "heteroflow-other.json": "no vendor of ours", "heteroflow-nvidia.yaml": "no name of ours",
	}
	for name, content := range foreign {
		makeFile(t, filepath.Join(dir, name), content)
	}
	save := func(host string, change func(*gpu.Snapshot)) []string {
		c := catalogOf(t, host, change)
		c.dir = dir
		for v, e := range c.vendors {
			e.file = filepath.Join(dir, fileName(v))
		}
		changed, err := c.Save()
		if err != nil {
			t.Fatal(err)
		}
		return changed
	}
	file := filepath.Join(dir, "heteroflow-nvidia.json")
	steps := []struct {
		name   string
		host   string
		change func(*gpu.Snapshot)
		want   []string
		exists bool
	}{
		{"the first time", "nvidia", nil, []string{file}, true},
		{"with nothing new", "nvidia", nil, nil, true},
		{"with another device", "nvidia", func(s *gpu.Snapshot) { s.Devices = s.Devices[1:] }, []string{file}, true},
		{"with a tool that fails", "nvidia", func(s *gpu.Snapshot) {
			s.Devices, s.Vendors = nil, []gpu.VendorStatus{{Vendor: gpu.NVIDIA, Error: &gpu.CollectorError{Code: "hung"}}}
		}, nil, true},
		{"with no device any more", "nvidia", func(s *gpu.Snapshot) { s.Devices = nil }, []string{file}, false},
	}
	for _, step := range steps {
		if diff := cmp.Diff(step.want, save(step.host, step.change)); diff != "" {
			t.Errorf("%s: changed (-want +got):\n%s", step.name, diff)
		}
		if _, err := os.Stat(file); (err == nil) != step.exists {
			t.Errorf("%s: file is there: %v", step.name, err == nil)
		}
	}
	for name, content := range foreign {
		if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(data) != content {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != len(foreign) {
		t.Errorf("left in the directory: %v, %v", entries, err)
	}
}

func TestASpecFileIsReadableByEnginesOfOtherUsers(t *testing.T) {
	c := catalogOf(t, "enflame", nil)
	if _, err := c.Save(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(c.vendors[gpu.Enflame].file)
	if err != nil || info.Mode() != 0o644 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestADirectoryThatCannotBeWrittenIsAnError(t *testing.T) {
	c := catalogOf(t, "enflame", nil)
	c.dir = filepath.Join(t.TempDir(), "file")
	makeFile(t, c.dir, "")
	if _, err := c.Save(); err == nil || !strings.Contains(err.Error(), c.dir) {
		t.Errorf("got %v, want an error that names the directory", err)
	}
}

func TestTranslationSaysTheSameInPlainWords(t *testing.T) {
	c := catalogOf(t, "hygon", nil)
	s, err := c.Select(gpu.Hygon, new(0), "")
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Translate([]Selection{s})
	if err != nil {
		t.Fatal(err)
	}
	if groups, err := c.Groups([]Selection{s}); err != nil || !cmp.Equal(groups, []uint32{44}) {
		t.Errorf("groups %v, %v", groups, err)
	}
	node := func(name string, major, minor int64) Node {
		return Node{HostPath: name, Path: name, Type: "c", Major: major, Minor: minor, Permissions: "rw"}
	}
	want := Edits{
		Nodes: []Node{
			node("/dev/kfd", 10, 240), node("/dev/mkfd", 10, 241),
			node("/dev/dri/card1", 226, 1), node("/dev/dri/renderD128", 226, 128),
		},
		Mounts: []Mount{{Source: "/opt/hyhal-2.0", Target: "/opt/hyhal", ReadOnly: true}},
		Groups: []uint32{44}, // the nodes are closed to others
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestWhatCannotBeTranslatedIsRefusedByName(t *testing.T) {
	uid := uint32(7)
	cases := map[string]struct {
		edits specs.ContainerEdits
		want  string
	}{
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
			e := &entry{Made: Made{Spec: &specs.Spec{Devices: []specs.Device{{Name: "0", ContainerEdits: tc.edits}}}}}
			c := &Catalog{host: host{root: "/", number: numberOf}, vendors: map[gpu.Vendor]*entry{gpu.NVIDIA: e}}
			_, err := c.Translate([]Selection{{Name: QualifiedName(gpu.NVIDIA, "0"), Vendor: gpu.NVIDIA}})
			refused, ok := errors.AsType[*UntranslatableError](err)
			if !ok || !strings.Contains(refused.What, tc.want) || !strings.Contains(err.Error(), "nvidia.heteroflow.io/gpu=0") {
				t.Errorf("got %v, want %q and the device refused", err, tc.want)
			}
		})
	}
}

func TestTheLastOfTwoValuesOfAVariableCounts(t *testing.T) {
	spec := &specs.Spec{
		ContainerEdits: specs.ContainerEdits{Env: []string{"A=spec", "B=spec"}},
		Devices:        []specs.Device{{Name: "0", ContainerEdits: specs.ContainerEdits{Env: []string{"A=device"}}}},
	}
	c := &Catalog{vendors: map[gpu.Vendor]*entry{gpu.NVIDIA: {Made: Made{Spec: spec}}}}
	got, err := c.Translate([]Selection{{Name: QualifiedName(gpu.NVIDIA, "0"), Vendor: gpu.NVIDIA}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"A=device", "B=spec"}, got.Env); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestVisibilityTellsRuntimesNothingAndProcessesEverything(t *testing.T) {
	none := []string{
		"NVIDIA_VISIBLE_DEVICES=void", "ASCEND_VISIBLE_DEVICES=void", "HCU_VISIBLE_DEVICES=void",
		"CAMBRICON_VISIBLE_DEVICES=", "MTHREADS_VISIBLE_DEVICES=", "IX_VISIBLE_DEVICES=", "ENFLAME_VISIBLE_DEVICES=", "BIREN_VISIBLE_DEVICES=",
	}
	cases := map[string]struct {
		given map[gpu.Vendor]int
		want  []string // beside none
	}{
		"no device":              {nil, nil},
		"two of NVIDIA":          {map[gpu.Vendor]int{gpu.NVIDIA: 2}, []string{"CUDA_VISIBLE_DEVICES=0,1"}},
		"one of Ascend":          {map[gpu.Vendor]int{gpu.Ascend: 1}, []string{"ASCEND_RT_VISIBLE_DEVICES=0"}},
		"one of Hygon":           {map[gpu.Vendor]int{gpu.Hygon: 1}, []string{"HIP_VISIBLE_DEVICES=0", "ROCR_VISIBLE_DEVICES=0"}},
		"one of Cambricon":       {map[gpu.Vendor]int{gpu.Cambricon: 1}, []string{"MLU_VISIBLE_DEVICES=0"}},
		"one of Kunlunxin":       {map[gpu.Vendor]int{gpu.Kunlun: 1}, []string{"CUDA_VISIBLE_DEVICES=0", "XPU_VISIBLE_DEVICES=0"}},
		"one of Moore Threads":   {map[gpu.Vendor]int{gpu.MUSA: 1}, []string{"MUSA_VISIBLE_DEVICES=0"}},
		"one of Iluvatar":        {map[gpu.Vendor]int{gpu.Iluvatar: 1}, []string{"CUDA_VISIBLE_DEVICES=0"}},
		"three of MetaX":         {map[gpu.Vendor]int{gpu.MetaX: 3}, []string{"CUDA_VISIBLE_DEVICES=0,1,2", "MACA_VISIBLE_DEVICES=0,1,2"}},
		"one of Enflame":         {map[gpu.Vendor]int{gpu.Enflame: 1}, []string{"TOPS_VISIBLE_DEVICES=0"}},
		"one of Biren":           {map[gpu.Vendor]int{gpu.Biren: 1}, nil},
		"two vendors that share": {map[gpu.Vendor]int{gpu.NVIDIA: 1, gpu.Iluvatar: 2}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			want := map[string]bool{}
			for _, kv := range append(tc.want, none...) {
				want[kv] = true
			}
			got := map[string]bool{}
			for _, kv := range Visibility(tc.given) {
				got[kv] = true
				if name, _, _ := strings.Cut(kv, "="); !IsVisibility(name) {
					t.Errorf("%s could be set by a task, too", name)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	for _, name := range []string{"PATH", "", "VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"} {
		if IsVisibility(name) {
			t.Errorf("%q counts as a visibility variable", name)
		}
	}
}

// The vendors' own generators, and gpustack's, have these kinds.
func TestOurKindsAreNobodyElses(t *testing.T) {
	for vendor, theirs := range map[gpu.Vendor]string{
		gpu.Ascend: ascend.OfficialCDIKind, gpu.Biren: biren.OfficialCDIKind, gpu.Cambricon: cambricon.OfficialCDIKind,
		gpu.Enflame: enflame.OfficialCDIKind, gpu.Hygon: hygon.OfficialCDIKind, gpu.Iluvatar: iluvatar.OfficialCDIKind,
		gpu.MetaX: metax.OfficialCDIKind, gpu.MUSA: musa.OfficialCDIKind, gpu.NVIDIA: nvidia.OfficialCDIKind,
	} {
		if err := validateKind(theirs); err != nil || Kind(vendor) == theirs {
			t.Errorf("%s: %s, %v", vendor, theirs, err)
		}
	}
}
