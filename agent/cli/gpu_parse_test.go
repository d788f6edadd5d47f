package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/corpus"
	"github.com/heteroflow/node-agent/gpu/text"
	"github.com/heteroflow/node-agent/gpu/tool"
)

// parse runs "gpu parse" on output, given on standard input.
func parse(t *testing.T, output []byte, args ...string) string {
	t.Helper()
	cmd := newGPU(node{})
	var out bytes.Buffer
	cmd.SetArgs(append([]string{"parse", "-"}, args...))
	cmd.SetIn(bytes.NewReader(output))
	cmd.SetOut(&out)
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestParseSaysWhatOneOutputMeans(t *testing.T) {
	smi := filepath.Join("..", "..", "gpu", "nvidia", "smi", "testdata")
	for name, c := range map[string]struct{ vendor, command, exit, file string }{
		"table":     {"nvidia", "nvidia-smi", "0", filepath.Join(smi, "table-580.txt")},
		"mig":       {"nvidia", "nvidia-smi mig -lgi", "0", filepath.Join(smi, "mig-lgi.txt")},
		"processes": {"nvidia", "nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name,used_memory --format=csv", "0", filepath.Join(smi, "apps.csv")},
		"driver":    {"nvidia", "nvidia-smi", "9", filepath.Join("testdata", "broken", "query.txt")},
		"ascend":    {"ascend", "npu-smi info", "0", filepath.Join("testdata", "mixed", "info.txt")},
		"unknown":   {"kunlun", "xpu-smi", "0", filepath.Join("testdata", "none", "manifest.yaml")},
	} {
		t.Run(name, func(t *testing.T) {
			args := []string{"gpu", "parse", "--vendor", c.vendor, "--command", c.command, "--exit-code", c.exit, c.file}
			for ending, args := range map[string][]string{".golden": args, ".json.golden": append(args, "--json")} {
				exit, out, stderr := run(t, args...)
				if exit != 0 {
					t.Fatalf("exit %d: %s", exit, stderr)
				}
				golden(t, filepath.Join("testdata", "parse", name+ending), out)
			}
		})
	}
}

// What a vendor's own tests hold the detector against, the command prints.
func TestParsePrintsWhatTheDetectorOfEachVendorUnderstood(t *testing.T) {
	for _, vendor := range gpu.Vendors() {
		t.Run(string(vendor), func(t *testing.T) {
			files := corpus.Load(t, vendor)
			for _, f := range files {
				t.Run(f.Name, func(t *testing.T) {
					exit := 0
					if f.Exit != nil {
						exit = *f.Exit
					}
					detector, err := toolOf(vendor)
					if err != nil {
						t.Fatal(err)
					}
					understood := gpu.Understand(tool.Result{
						Argv: text.SplitCommand(f.Command), ExitCode: exit, Stdout: f.Output,
					}, detector.Parse)
					got := parse(t, f.Output, "--json", "--vendor", string(vendor),
						"--command", f.Command, "--exit-code", strconv.Itoa(exit))
					if diff := cmp.Diff(object(t, understood), json.RawMessage(got), asObjects); diff != "" {
						t.Errorf("(-detector +command):\n%s", diff)
					}
					if f.Expect.CollectorError != nil && understood.CollectorError == nil {
						t.Errorf("%s: it is no collector error without the exit status", f.Command)
					}
				})
			}
			t.Logf("%s: %d recorded outputs", vendor, len(files))
		})
	}
}

func object(t *testing.T, v any) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// asObjects compares JSON by what it says.
var asObjects = cmp.Transformer("object", func(raw json.RawMessage) any {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return err.Error()
	}
	return v
})

func TestAnOutputWithoutAnEndIsRefused(t *testing.T) {
	if _, err := readOutput(zeros{}, "-"); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("got %v", err)
	}
	long := filepath.Join(t.TempDir(), "long")
	f, err := os.Create(long)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(maxParsed + 1); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	exit, _, stderr := run(t, "gpu", "parse", "--vendor", "nvidia", "--command", "nvidia-smi", long)
	if exit != exitUsage || !strings.Contains(stderr, "larger than") {
		t.Errorf("exit %d, %s", exit, stderr)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
