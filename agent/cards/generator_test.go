package cards

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/heteroflow/node-agent/agent/config"
	"github.com/heteroflow/node-agent/agent/inventory/gpus"
	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/nvidia/nvml"
)

func TestTheRecipeServesWhileNVIDIAsHelperDoesNotAnswer(t *testing.T) {
	cfg := config.GPU{CDIDir: t.TempDir(), HostRoot: t.TempDir()}
	for name, tc := range map[string]struct {
		helper *nvml.Client
		asked  bool
	}{
		"it is not installed": {nvml.New(nvml.Config{Path: filepath.Join(t.TempDir(), "absent"), HostRoot: cfg.HostRoot}), true},
		"there is none":       {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			machine := gpus.Machine{Helper: tc.helper}
			defer func() {
				if err := machine.Close(); err != nil {
					t.Error(err)
				}
			}()
			g := NewGenerator(machine, cfg)
			if g.Dir != cfg.CDIDir {
				t.Errorf("specs go to %s", g.Dir)
			}
			catalog, err := g.Generate(t.Context(), gpu.Snapshot{Devices: []gpu.Device{
				{Vendor: gpu.NVIDIA, UUID: "GPU-1", Index: new(0), Minor: new(0)},
			}})
			if err != nil {
				t.Fatal(err)
			}
			absent := catalog.Absent() // as the recipe says it: the host of this test has no node
			if len(absent) != 1 || !strings.Contains(absent[0].Reason, "device node /dev/nvidia0: no such file") {
				t.Errorf("absent: %+v", absent)
			}
			said := false
			for _, o := range catalog.Omitted()[gpu.NVIDIA] {
				said = said || strings.HasPrefix(o.Path, "hooks of")
			}
			if said != tc.asked {
				t.Errorf("left out: %+v", catalog.Omitted())
			}
		})
	}
}
