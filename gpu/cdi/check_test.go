package cdi

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/heteroflow/node-agent/gpu"
)

// installed is a generator whose specs for a host of testdata are in its directory.
func installed(t *testing.T, host string) *Generator {
	t.Helper()
	g := fakeGenerator(t, host)
	c, err := g.Generate(t.Context(), gpu.Snapshot{Devices: nodes[host]})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Save(); err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *Generator) installed(t *testing.T, dirs ...string) []File {
	t.Helper()
	files, err := g.Installed(append(dirs, g.Dir())...)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestWhatWasJustGeneratedHasNoProblem(t *testing.T) {
	for name := range nodes {
		g := installed(t, name)
		files := g.installed(t)
		if len(files) != 1 || files[0].Vendor != nodes[name][0].Vendor || files[0].Err != nil {
			t.Errorf("%s: installed %+v", name, files)
		}
		if problems := g.Check(files); len(problems) > 0 {
			t.Errorf("%s: %+v", name, problems)
		}
	}
}

func TestEachProblemIsNamedWithWhatToDo(t *testing.T) {
	const own = "heteroflow-nvidia.json"
	edit := func(old, replacement string) func(*testing.T, *Generator) {
		return func(t *testing.T, g *Generator) {
			data, err := os.ReadFile(filepath.Join(g.Dir(), own))
			if err != nil || !strings.Contains(string(data), old) {
				t.Fatalf("%v, %s", err, data)
			}
			makeFile(t, filepath.Join(g.Dir(), own), strings.ReplaceAll(string(data), old, replacement))
		}
	}
	node := func(name string, change func(*deviceNumber)) func(*testing.T, *Generator) {
		return func(_ *testing.T, g *Generator) {
			before := g.own.host.number
			g.own.host.number = func(path string) (deviceNumber, error) {
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
		change  func(*testing.T, *Generator)
		devices string
		what    string
		do      string
	}{
		"a node is gone": {func(_ *testing.T, g *Generator) {
			g.own.host.number = func(string) (deviceNumber, error) { return deviceNumber{}, unix.ENOENT }
		}, "", "device node /dev/nvidiactl: no such file", "load the vendor's driver"},
		"a node has another number": {
			node("/dev/nvidia0", func(n *deviceNumber) { n.minor = 7 }),
			"0 GPU-11111111-2222-3333-4444-555555555555 all", "/dev/nvidia0 has numbers 195:7, in the file 195:0", anew,
		},
		"a node has another type": {node("/dev/nvidiactl", func(n *deviceNumber) { n.kind = "b" }), "", "has type b, in the file c", anew},
		"a node has another mode": {node("/dev/nvidiactl", func(n *deviceNumber) { n.mode = 0o600 }), "", "has mode 0600, in the file 0666", anew},
		"a library is gone": {func(t *testing.T, g *Generator) {
			if err := os.Remove(g.own.host.at("/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libcuda.so.570.1")); err != nil {
				t.Fatal(err)
			}
		}, "", "libcuda.so.570.1: no such file", anew},
		"a hook is gone":           {edit(`"env": [`, strings.ReplaceAll(hook, "smi", "cdi-hook")), "", "hook /usr/bin/nvidia-cdi-hook: no such file", "install its package"},
		"a hook cannot be run":     {edit(`"env": [`, strings.ReplaceAll(hook, "/usr", "/run/nvidia/driver/usr")), "", "nvidia-smi: not executable", "install its package anew"},
		"the kind is another":      {edit("nvidia.heteroflow.io", "musa.heteroflow.io"), "", "its kind is musa.heteroflow.io/gpu, not nvidia", anew},
		"the file is cut off":      {edit("}\n  ],", ""), "", "read CDI spec", anew},
		"a path leaves its parent": {edit(`"/dev/nvidiactl"`, `"/dev/../dev/nvidiactl"`), "", "clean absolute path", anew},
		"another file of the directory has its devices": {func(t *testing.T, g *Generator) {
			data, err := os.ReadFile(filepath.Join(g.Dir(), own))
			if err != nil {
				t.Fatal(err)
			}
			makeFile(t, filepath.Join(g.Dir(), "copy.json"), string(data))
		}, "0 GPU-11111111-2222-3333-4444-555555555555 all", "refuse devices that are in two files", "remove it"},
		"another file has its kind": {func(t *testing.T, g *Generator) {
			makeFile(t, filepath.Join(g.Dir(), "other.yaml"),
				"cdiVersion: 0.5.0\nkind: nvidia.heteroflow.io/gpu\ndevices: [{name: extra, containerEdits: {env: [A=b]}}]\n")
		}, "", "its kind, nvidia.heteroflow.io/gpu, is", "give it another kind"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := fakeGenerator(t, "nvidia-container")
			devices := []gpu.Device{card(gpu.NVIDIA, 0, func(d *gpu.Device) { d.UUID = "GPU-11111111-2222-3333-4444-555555555555" })}
			c, err := g.Generate(t.Context(), gpu.Snapshot{Devices: devices})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Save(); err != nil {
				t.Fatal(err)
			}
			tc.change(t, g)
			problems := g.Check(g.installed(t))
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
		g, other := installed(t, "nvidia-container"), t.TempDir()
		data, err := os.ReadFile(filepath.Join(g.Dir(), "heteroflow-nvidia.json"))
		if err != nil {
			t.Fatal(err)
		}
		makeFile(t, filepath.Join(other, "heteroflow-nvidia.json"), string(data))
		dirs, want := []string{other, g.Dir()}, "whenever"
		if last {
			dirs, want = []string{g.Dir(), other}, "in place of those in"
		}
		files, err := g.Installed(dirs...)
		if err != nil {
			t.Fatal(err)
		}
		problems := g.Check(files)
		if len(problems) != 1 || !strings.Contains(problems[0].What, want) || problems[0].File != filepath.Join(other, "heteroflow-nvidia.json") {
			t.Errorf("last %v: %+v", last, problems)
		}
	}
}

func TestWhatIsNobodysSpecIsPassedOver(t *testing.T) {
	g := installed(t, "nvidia-container")
	dir := t.TempDir()
	makeFile(t, filepath.Join(dir, "broken.yaml"), "kind: [")
	makeFile(t, filepath.Join(dir, "holes.yaml"), "cdiVersion: 0.5.0\nkind: a.example/b\ndevices: [{name: x, containerEdits: {deviceNodes: [~]}}]\n")
	makeFile(t, filepath.Join(dir, "empty.json"), "")
	makeFile(t, filepath.Join(dir, "notes.txt"), "nothing")
	makeFile(t, filepath.Join(dir, "below", "x.json"), "{}")
	makeFile(t, filepath.Join(dir, "theirs.yaml"), "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices: [{name: all, containerEdits: {deviceNodes: [{path: dev/x}]}}]\n")
	if err := unix.Mkfifo(filepath.Join(dir, "pipe.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	files := g.installed(t, dir, link, filepath.Join(dir, "absent"))
	got := map[string]bool{} // whether it can be used
	for _, f := range files {
		got[filepath.Base(f.Path)] = f.Err == nil
	}
	want := map[string]bool{
		"broken.yaml": false, "holes.yaml": false, "empty.json": false, "theirs.yaml": true, "pipe.json": false,
		"heteroflow-nvidia.json": true,
	}
	if diff := cmp.Diff(want, got); diff != "" || len(files) != len(want) {
		t.Errorf("%d files (-want +got):\n%s", len(files), diff)
	}
	if problems := g.Check(files); len(problems) > 0 {
		t.Errorf("%+v", problems)
	}
	if _, err := g.Installed(filepath.Join(dir, "theirs.yaml")); err == nil {
		t.Error("a file is taken for a directory")
	}
}

func TestEntriesSayWhichNamesAreTheSameDevice(t *testing.T) {
	g := installed(t, "nvidia")
	var got []string
	for _, f := range g.installed(t) {
		for _, e := range f.Entries() {
			got = append(got, strings.Join(append([]string{e.Name, strings.Join(e.Nodes, " ")}, e.Aliases...), " | "))
		}
	}
	const shared = "/dev/nvidiactl /dev/nvidia-uvm /dev/nvidia-uvm-tools "
	want := []string{
		"nvidia.heteroflow.io/gpu=MIG-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee | " + shared + "/dev/nvidia1 /dev/nvidia-caps/nvidia-cap12 /dev/nvidia-caps/nvidia-cap13",
		"nvidia.heteroflow.io/gpu=1 | " + shared + "/dev/nvidia0 | GPU-66666666-2222-3333-4444-555555555555 | all",
		"nvidia.heteroflow.io/gpu=GPU-66666666-2222-3333-4444-555555555555 | " + shared + "/dev/nvidia0 | 1 | all",
		"nvidia.heteroflow.io/gpu=all | " + shared + "/dev/nvidia0 | 1 | GPU-66666666-2222-3333-4444-555555555555",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
