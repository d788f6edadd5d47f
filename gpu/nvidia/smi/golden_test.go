package smi

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/gpu/text"
)

var update = flag.Bool("update", false, "write the golden files anew")

// outputs are the testdata and the command that printed each.
var outputs = map[string]string{
	"table-580.txt":      "nvidia-smi",
	"table-275.txt":      "nvidia-smi",
	"table-jetson.txt":   "nvidia-smi",
	"table-squeezed.txt": "nvidia-smi",
	"table-vgpu.txt":     "nvidia-smi vgpu",
	"dmon.txt":           "nvidia-smi dmon -s pucm -c 2",
	"pmon.txt":           "nvidia-smi pmon -o DT -s um -c 1",
	"list-mig.txt":       "nvidia-smi -L",
	"csv-lost.csv":       "nvidia-smi --query-gpu=index,uuid,pci.bus_id,name,memory.total,memory.used,temperature.gpu,power.draw,gpu_recovery_action --format=csv",
	"csv-unnamed.csv":    "nvidia-smi --query-gpu=index,uuid,name,temperature.gpu,power.draw.instant,clocks_event_reasons.active --format=csv",
	"csv-reset.csv":      "nvidia-smi --query-gpu=index,uuid,name,memory.total,utilization.gpu,temperature.gpu,power.draw --format=csv,noheader,nounits",
	"apps.csv":           "nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name,used_memory --format=csv",
	"log-mig.txt":        "nvidia-smi -q",
	"log-recovery.txt":   "nvidia-smi -q -i 3",
	"log.xml":            "nvidia-smi -q -x",
	"topo.txt":           "nvidia-smi topo -m",
	"peer.txt":           "nvidia-smi topo -p2p r",
	"mig-lgi.txt":        "nvidia-smi mig -lgi",
	"mig-lci.txt":        "nvidia-smi mig -lci",
	"mig-lgip.txt":       "nvidia-smi mig -lgip",
	"mig-lcip.txt":       "nvidia-smi mig -lcip",
	"mig-lgipp.txt":      "nvidia-smi mig -lgipp",
	"mig-partial.txt":    "nvidia-smi mig -i 0 -cgi 2g.12gb,4g.24gb -C",
	"mig-pending.txt":    "nvidia-smi -i 0 -mig 1",
}

func read(tb testing.TB, name string) []byte {
	tb.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

func TestEachFormParsesToItsGoldenFile(t *testing.T) {
	for name, command := range outputs {
		t.Run(name, func(t *testing.T) {
			res, err := Parse(text.SplitCommand(command), 0, read(t, name))
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.MarshalIndent(res.Parsed, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, '\n')
			golden := filepath.Join("testdata", name+".golden.json")
			if *update {
				if err := os.WriteFile(golden, got, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(read(t, name+".golden.json")), string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
