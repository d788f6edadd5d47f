package biren

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

// Written from documents: no output of the tool is public.
func TestEachFormIsUnderstood(t *testing.T) {
	for file, command := range map[string]string{
		"noheader": "brsmi gpu --query-gpu=index,memory.used,memory.free,svi.mode.current,serial,temperature.gpu --format=csv,noheader,nounits",
		"header":   "brsmi gpu --query-gpu=index --format=csv",
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
