package recipe

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/cdi/hostfs"
	"github.com/heteroflow/node-agent/gpu/cdi/hosttest"
)

// absent makes the spec of cards, and says why each that is not in it is not.
func absent(t *testing.T, h hostfs.FS, devices ...gpu.Device) map[int]string {
	t.Helper()
	made, err := Source{Host: h}.Make(t.Context(), devices[0].Vendor, devices)
	if err != nil {
		t.Fatal(err)
	}
	reasons := map[int]string{}
	for _, a := range made.Absent {
		reasons[*a.Device.Index] = a.Reason
	}
	return reasons
}

func TestNoTwoCardsHaveOneNode(t *testing.T) {
	first, second := hosttest.Devices["enflame"][0], hosttest.Card(gpu.Enflame, 1, nil) // whose node would be that of the first, as far as is known
	want := map[int]string{1: "device node /dev/gcu1 is that of card 0"}
	if diff := cmp.Diff(want, absent(t, hosttest.New(t, "enflame"), first, second)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestOneOfSeveralCardsIsRefusedWhereTheyCannotBeToldApart(t *testing.T) {
	discrete := hosttest.Card(gpu.NVIDIA, 1, func(d *gpu.Device) { d.Model = "NVIDIA RTX 6000 Ada Generation" })
	for host, want := range map[string]string{
		"nvidia-wsl":   "on WSL2 a container has all cards or none",
		"nvidia-tegra": "install heteroflow-nvml and the NVIDIA container toolkit",
	} {
		reasons := absent(t, hosttest.New(t, host), hosttest.Devices[host][0], discrete)
		for i := range 2 {
			if !strings.Contains(reasons[i], want) {
				t.Errorf("%s, card %d: %q, want %q", host, i, reasons[i], want)
			}
		}
	}
}

func TestATegraWithoutNVIDIAsListsSaysWhatToInstall(t *testing.T) {
	reason := absent(t, hosttest.New(t, "nvidia-container"), hosttest.Devices["nvidia-tegra"][0])[0]
	if !strings.Contains(reason, "install the package nvidia-l4t-init") || !strings.Contains(reason, "devices.csv: no such file") {
		t.Errorf("got %q", reason)
	}
}

func TestPathsAreTheEnginesWhereItSeesTheHostElsewhere(t *testing.T) {
	h := hosttest.New(t, "enflame")
	h.EngineRoot = "/host"
	made, err := Source{Host: h}.Make(t.Context(), gpu.Enflame, hosttest.Devices["enflame"])
	if err != nil {
		t.Fatal(err)
	}
	if n := made.Spec.Devices[0].ContainerEdits.DeviceNodes[0]; n.HostPath != "/host/dev/gcu1" || n.Path != "/dev/gcu1" {
		t.Errorf("node %+v", n)
	}
	if m := made.Spec.ContainerEdits.Mounts[0]; m.HostPath != "/host/usr/bin/efsmi" || m.ContainerPath != "/usr/bin/efsmi" {
		t.Errorf("mount %+v", m)
	}
}

func FuzzTegraList(f *testing.F) {
	f.Add([]byte("dev, /dev/nvmap\nlib,/usr/lib/x.so\r\nsym, /a/../b\n# dev, x\ndir, /\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, e := range parseTegraList(data) {
			if !filepath.IsAbs(e.path) || filepath.Clean(e.path) != e.path || e.path == "/" {
				t.Fatalf("%q is no path to mount", e.path)
			}
		}
	})
}

func FuzzCapMinors(f *testing.F) {
	f.Add([]byte("config 1\nmonitor 2\ngpu0/gi0/access 3\ngpu0/gi0/ci0/access 4\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for name, minor := range parseCapMinors(data) {
			if !strings.Contains(string(data), name) || minor < 0 {
				t.Fatalf("%q has minor %d", name, minor)
			}
		}
	})
}
