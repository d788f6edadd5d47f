package ascend

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/gpu/text"
)

var update = flag.Bool("update", false, "write the golden files")

// Each form of output, written for this test, against what it means.
func TestEachFormIsUnderstood(t *testing.T) {
	for file, command := range map[string]string{
		"info-910b":      "npu-smi info",
		"info-910c":      "npu-smi info",
		"info-950":       "npu-smi info",
		"info-310p-duo":  "npu-smi info",
		"common-duo":     "npu-smi info -t common -i 3001",
		"usages-duo":     "npu-smi info -t usages -i 3001",
		"health-alarm":   "npu-smi info -t health -i 6 -c 1",
		"board-card5":    "npu-smi info -t board -i 5",
		"fault-event":    "npu-smi info -t current-fault-event -i 2",
		"map-910c":       "npu-smi info -m",
		"topo":           "npu-smi info -t topo",
		"watch":          "npu-smi info watch",
		"list-two-cards": "npu-smi info -l",
	} {
		t.Run(file, func(t *testing.T) {
			in, err := os.ReadFile(filepath.Join("testdata", file+".txt"))
			if err != nil {
				t.Fatal(err)
			}
			p, err := Parse(text.SplitCommand(command), 0, in)
			if err != nil {
				t.Fatal(err)
			}
			var numbers []string
			for _, d := range p.GPUs {
				numbers = append(numbers, fmt.Sprintf("card %s chip %s minor %s", show(d.Card), show(d.Chip), show(d.Minor)))
			}
			got, err := json.MarshalIndent(map[string]any{"parsed": p, "numbers": numbers}, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", file+".json")
			if *update {
				if err := os.WriteFile(golden, append(got, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
				t.Errorf("%s (-want +got):\n%s", command, diff)
			}
		})
	}
}

func show(n *int) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}
