package check

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/cdi"
	"github.com/heteroflow/node-agent/gpu/cdi/hostfs"
	"github.com/heteroflow/node-agent/gpu/cdi/hosttest"
	"github.com/heteroflow/node-agent/gpu/cdi/specfile"
)

// installed is a host of hosttest and a directory with its spec files.
func installed(t *testing.T, name string, devices ...gpu.Device) (h hostfs.FS, dir string) {
	t.Helper()
	h, dir = hosttest.New(t, name), t.TempDir()
	c, err := (&cdi.Generator{Dir: dir, Host: h}).Generate(t.Context(), gpu.Snapshot{Devices: devices})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Save(); err != nil {
		t.Fatal(err)
	}
	return h, dir
}

func read(t *testing.T, own string, dirs ...string) []specfile.File {
	t.Helper()
	files, err := specfile.Installed(own, dirs...)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestWhatWasJustGeneratedHasNoProblem(t *testing.T) {
	for name, devices := range hosttest.Devices {
		h, dir := installed(t, name, devices...)
		files := read(t, dir, dir)
		if len(files) != 1 || files[0].Vendor != devices[0].Vendor || files[0].Err != nil {
			t.Errorf("%s: installed %+v", name, files)
		}
		if problems := Files(h, files); len(problems) > 0 {
			t.Errorf("%s: %+v", name, problems)
		}
	}
}

func TestEachProblemIsNamedWithWhatToDo(t *testing.T) {
	edit := func(old, replacement string) func(*testing.T, *hostfs.FS, string) {
		return func(t *testing.T, _ *hostfs.FS, own string) {
			data, err := os.ReadFile(own)
			if err != nil || !strings.Contains(string(data), old) {
				t.Fatalf("%v, %s", err, data)
			}
			hosttest.MakeFile(t, own, strings.ReplaceAll(string(data), old, replacement))
		}
	}
	node := func(name string, change func(*hostfs.Node)) func(*testing.T, *hostfs.FS, string) {
		return func(_ *testing.T, h *hostfs.FS, _ string) {
			before := h.Nodes
			h.Nodes = func(path string) (hostfs.Node, error) {
				n, err := before(path)
				if strings.HasSuffix(path, name) {
					change(&n)
				}
				return n, err
			}
		}
	}
	hook := `"hooks": [{"hookName": "createContainer", "path": "/usr/bin/nvidia-smi"}], "env": [`
	cases := map[string]struct {
		change  func(t *testing.T, h *hostfs.FS, own string)
		devices string
		what    string
		do      string
	}{
		"a node is gone": {func(_ *testing.T, h *hostfs.FS, _ string) {
			h.Nodes = func(string) (hostfs.Node, error) { return hostfs.Node{}, unix.ENOENT }
		}, "", "device node /dev/nvidiactl: no such file", "load the vendor's driver"},
		"a node has another number": {
			node("/dev/nvidia0", func(n *hostfs.Node) { n.Minor = 7 }),
			"0 GPU-11111111-2222-3333-4444-555555555555 all", "/dev/nvidia0 has numbers 195:7, in the file 195:0", anew,
		},
		"a node has another type": {node("/dev/nvidiactl", func(n *hostfs.Node) { n.Type = "b" }), "", "has type b, in the file c", anew},
		"a node has another mode": {node("/dev/nvidiactl", func(n *hostfs.Node) { n.Mode = 0o600 }), "", "has mode 0600, in the file 0666", anew},
		"a library is gone": {func(t *testing.T, h *hostfs.FS, _ string) {
			if err := os.Remove(filepath.Join(h.Root, "/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libcuda.so.570.1")); err != nil {
				t.Fatal(err)
			}
		}, "", "libcuda.so.570.1: no such file", anew},
		"a hook is gone":           {edit(`"env": [`, strings.ReplaceAll(hook, "smi", "cdi-hook")), "", "hook /usr/bin/nvidia-cdi-hook: no such file", "install its package"},
		"a hook cannot be run":     {edit(`"env": [`, strings.ReplaceAll(hook, "/usr", "/run/nvidia/driver/usr")), "", "nvidia-smi: not executable", "install its package anew"},
		"the kind is another":      {edit("nvidia.heteroflow.io", "musa.heteroflow.io"), "", "its kind is musa.heteroflow.io/gpu, not nvidia", anew},
		"the file is cut off":      {edit("}\n  ],", ""), "", "read CDI spec", anew},
		"a path leaves its parent": {edit(`"/dev/nvidiactl"`, `"/dev/../dev/nvidiactl"`), "", "clean absolute path", anew},
		"another file of the directory has its devices": {func(t *testing.T, _ *hostfs.FS, own string) {
			data, err := os.ReadFile(own)
			if err != nil {
				t.Fatal(err)
			}
			hosttest.MakeFile(t, filepath.Join(filepath.Dir(own), "copy.json"), string(data))
		}, "0 GPU-11111111-2222-3333-4444-555555555555 all", "refuse devices that are in two files", "remove it"},
		"another file has its kind": {func(t *testing.T, _ *hostfs.FS, own string) {
			hosttest.MakeFile(t, filepath.Join(filepath.Dir(own), "other.yaml"),
				"cdiVersion: 0.5.0\nkind: nvidia.heteroflow.io/gpu\ndevices: [{name: extra, containerEdits: {env: [A=b]}}]\n")
		}, "", "its kind, nvidia.heteroflow.io/gpu, is", "give it another kind"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			h, dir := installed(t, "nvidia-container",
				hosttest.Card(gpu.NVIDIA, 0, func(d *gpu.Device) { d.UUID = "GPU-11111111-2222-3333-4444-555555555555" }))
			tc.change(t, &h, specfile.Path(dir, gpu.NVIDIA))
			problems := Files(h, read(t, dir, dir))
			for _, p := range problems {
				if strings.Contains(p.What, tc.what) && strings.Contains(p.Do, tc.do) && strings.Join(p.Devices, " ") == tc.devices {
					return
				}
			}
			t.Errorf("want a problem of %q: %q, do %q, got %+v", tc.devices, tc.what, tc.do, problems)
		})
	}
}

func TestADirectoryAfterOursWins(t *testing.T) {
	for _, last := range []bool{true, false} {
		h, dir := installed(t, "nvidia-container", hosttest.Devices["nvidia-container"]...)
		other := t.TempDir()
		data, err := os.ReadFile(specfile.Path(dir, gpu.NVIDIA))
		if err != nil {
			t.Fatal(err)
		}
		hosttest.MakeFile(t, specfile.Path(other, gpu.NVIDIA), string(data))
		dirs, want := []string{other, dir}, "whenever"
		if last {
			dirs, want = []string{dir, other}, "in place of those in"
		}
		files := read(t, dir, dirs...)
		problems := Files(h, files)
		if len(problems) != 1 || !strings.Contains(problems[0].What, want) || problems[0].File != specfile.Path(other, gpu.NVIDIA) {
			t.Errorf("last %v: %+v", last, problems)
		}
	}
}

func TestWhatEnginesPassOverIsNoProblem(t *testing.T) {
	h, own := installed(t, "nvidia-container", hosttest.Devices["nvidia-container"]...)
	other := t.TempDir()
	hosttest.MakeFile(t, filepath.Join(other, "broken.yaml"), "kind: [")
	hosttest.MakeFile(t, filepath.Join(other, "theirs.yaml"), "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices: [{name: all, containerEdits: {deviceNodes: [{path: dev/x}]}}]\n")
	files := read(t, own, other, own)
	if problems := Files(h, files); len(files) != 3 || len(problems) > 0 {
		t.Errorf("%d files, problems %+v", len(files), problems)
	}
}
