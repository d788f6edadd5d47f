package iluvatar

import (
	"encoding/json"
	"flag"
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
		"table":        "ixsmi",
		"xml":          "ixsmi -q -x",
		"query":        "ixsmi -q",
		"list":         "ixsmi -L",
		"csv":          "ixsmi --query-gpu=index --format=csv",
		"csv-noheader": "ixsmi --query-gpu=index,memory.total,memory.used,power.draw --format=csv,noheader,nounits",
		"dmon":         "timeout 2 ixsmi dmon",
		"pmon":         "timeout 2 ixsmi pmon",
		"topo":         "ixsmi topo -m",
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
			got, err := json.MarshalIndent(p, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", file+".golden")
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
