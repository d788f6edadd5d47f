package checkpoint

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/heteroflow/node-agent/agent/pathfence"
)

// tree is a checkpoint directory: path to content. A path that ends in "/" is an empty
// directory, a content that starts with "->" a symbolic link. Files are of one age unless
// later names them.
type tree map[string]string

var (
	torch     = torchArchive("archive/data.pkl", "archive/data/0", "archive/version")
	cutTorch  = torch[:len(torch)-60]
	oldTorch  = "\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
	pickle    = "\x80\x02}q\x00."
	cutPickle = pickle[:len(pickle)-1]
	dcpShards = tree{".metadata": pickle, "__0_0.distcp": "bytes", "__1_0.distcp": ""}
	distMeta  = `{"sharded_backend": "torch_dist", "sharded_backend_version": 1, "common_backend": "torch"}`
)

// torchArchive is a zip with stored entries, as torch.save writes it.
func torchArchive(names ...string) string {
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	for _, name := range names {
		entry, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
		if err == nil {
			_, err = entry.Write([]byte(name))
		}
		if err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return buf.String()
}

func safetensors(header string, data int) string {
	return string(binary.LittleEndian.AppendUint64(nil, uint64(len(header)))) + header + strings.Repeat("x", data)
}

var weights = safetensors(`{"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}`, 16)

// under puts trees below directories: under("iter_0000100", dcpShards, ...).
func under(dir string, trees ...tree) tree {
	out := tree{}
	for _, t := range trees {
		for name, content := range t {
			out[dir+"/"+name] = content
		}
	}
	return out
}

func merge(trees ...tree) tree {
	out := tree{}
	for _, t := range trees {
		maps.Copy(out, t)
	}
	return out
}

func (t tree) without(name string) tree {
	out := merge(t)
	if _, ok := out[name]; !ok {
		panic("not in the tree: " + name)
	}
	delete(out, name)
	return out
}

func (t tree) with(name, content string) tree { return merge(t, tree{name: content}) }

func (t tree) create(tb testing.TB, later ...string) string {
	tb.Helper()
	dir := tb.TempDir()
	for name, content := range t {
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if target, ok := strings.CutPrefix(content, "->"); ok {
			err = errors.Join(err, os.Symlink(target, path))
		} else if strings.HasSuffix(name, "/") {
			err = errors.Join(err, os.MkdirAll(path, 0o700))
		} else {
			err = errors.Join(err, os.WriteFile(path, []byte(content), 0o600))
			err = errors.Join(err, os.Chtimes(path, time.Time{}, time.Unix(1_700_000_000, 0)))
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	for i, name := range later {
		if err := os.Chtimes(filepath.Join(dir, name), time.Time{}, time.Unix(1_700_000_001+int64(i), 0)); err != nil {
			tb.Fatal(err)
		}
	}
	return dir
}

func fenceAround(tb testing.TB, dir string) *pathfence.Fence {
	tb.Helper()
	f, err := pathfence.New(pathfence.Config{Allow: []string{dir}})
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

// probeCase is one directory and what must be chosen in it.
type probeCase struct {
	name      string
	tree      tree
	later     []string // files newer than the rest, each newer than the one before
	framework string   // as the task says it
	path      string   // "" for none
	by        string   // the rule that decided, if not the file's own
	step      int64    // -1: not known
	reason    string   // part of it
}

func runProbes(t *testing.T, rule string, cases []probeCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := c.tree.create(t, c.later...)
			got, err := Probe(t.Context(), fenceAround(t, dir), dir, c.framework)
			if err != nil {
				t.Fatal(err)
			}
			if got.Path != c.path {
				t.Errorf("chose %q, want %q (%s)", got.Path, c.path, got.Reason)
			}
			by := rule
			if c.by != "" {
				by = c.by
			}
			if by == "none" {
				by = ""
			}
			if got.Framework != by {
				t.Errorf("decided by %q, want %q (%s)", got.Framework, by, got.Reason)
			}
			if step := stepOf(got); c.path != "" && step != c.step {
				t.Errorf("step %d, want %d", step, c.step)
			}
			if !strings.Contains(got.Reason, c.reason) || got.Reason == "" || strings.Contains(got.Reason, "\n") || len(got.Reason) > 2000 {
				t.Errorf("reason %q, want one line with %q", got.Reason, c.reason)
			}
		})
	}
}

func stepOf(f Found) int64 {
	if f.Step == nil {
		return -1
	}
	return *f.Step
}

func TestADirectoryThatDoesNotExistHoldsNone(t *testing.T) {
	dir := t.TempDir()
	got, err := Probe(t.Context(), fenceAround(t, dir), filepath.Join(dir, "not/yet"), "")
	if err != nil || got.Path != "" || got.Reason == "" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestADirectoryOutsideTheFenceIsRefused(t *testing.T) {
	inside, outside := t.TempDir(), tree{"a.pt": torch}.create(t)
	if err := os.Symlink(outside, filepath.Join(inside, "link")); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{outside, filepath.Join(inside, "link"), inside + "/../x", "relative"} {
		if got, err := Probe(t.Context(), fenceAround(t, inside), dir, ""); !errors.As(err, new(*pathfence.DeniedError)) {
			t.Errorf("Probe(%s) = %+v, %v, want a DeniedError", dir, got, err)
		}
	}
}

func TestAnEndedContextEndsTheProbe(t *testing.T) {
	dir := merge(under("iter_0000100", dcpShards), tree{megatronTracker: "100"}).create(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := Probe(ctx, fenceAround(t, dir), dir, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("got %+v, %v, want context.Canceled", got, err)
	}
}

func TestAProbeStopsAtItsBounds(t *testing.T) {
	files := tree{}
	for i := range 50 {
		files[fmt.Sprintf("checkpoint-%d/%s", i, trainerState)] = "{}"
		files[fmt.Sprintf("model_%d.pt", i)] = cutTorch
	}
	root, err := os.OpenRoot(files.create(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	for name, limit := range map[string]func(*budget){
		"entries": func(b *budget) { b.entries = 120 },
		"bytes":   func(b *budget) { b.bytes = 50 },
	} {
		for _, rule := range []func(*dir) (Found, error){probeHuggingFace, probeTorch} {
			b := newBudget(t.Context())
			limit(b)
			d, err := openDir(root, ".", b)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := rule(d); !errors.Is(err, ErrTooLarge) {
				t.Errorf("%s: got %+v, %v, want ErrTooLarge", name, got, err)
			}
		}
	}
}

func TestEveryFrameworkNameHasRules(t *testing.T) {
	for name := range aliases {
		if got := rulesFor(strings.ToUpper(name)); len(got) < 2 || got[0].name != "mark" {
			t.Errorf("rules for %s: %v", name, got)
		}
	}
	if len(rulesFor("something new")) != len(rules) {
		t.Error("an unknown framework does not get all rules")
	}
}

func TestUnknownAndForeignFiles(t *testing.T) {
	runProbes(t, "none", []probeCase{
		{name: "an empty directory", reason: "no checkpoint"},
		{name: "files of no framework", tree: tree{"README.md": "x", "logs/a": "x", "latest": "step-5", "step-5/a": "x"}},
		{name: "another framework's checkpoint than the task says", tree: merge(under("iter_0000100", dcpShards), tree{megatronTracker: "100"}), framework: "tensorflow"},
		{name: "a pretrained model is no checkpoint", tree: tree{safetensorsIndex: `{"weight_map":{"w":"a.safetensors"}}`, "a.safetensors": weights}},
	})
}

func TestMark(t *testing.T) {
	runProbes(t, "mark", []probeCase{
		{name: "the highest marked step", tree: tree{"a-100/x": "x", "a-100/" + markName: "", "a-200/x": "x", "a-200/" + markName: "", "a-300/x": "x"}, path: "a-200", step: 200},
		{name: "the step in the mark goes over the name", tree: tree{"a1/" + markName: "500\n", "a2/" + markName: "400"}, path: "a1", step: 500},
		{name: "a marked file", tree: tree{"m.bin": "x", "m.bin" + markName: "7"}, path: "m.bin", step: 7},
		{name: "the directory itself", tree: tree{"x": "x", markName: " 9 "}, path: ".", step: 9},
		{name: "the newest mark where no step is known", tree: tree{"a/" + markName: "", "b/" + markName: "", "c/" + markName: "no number"}, later: []string{"b/" + markName}, path: "b", step: -1},
		{name: "an unreadable step is no step", tree: tree{"a/" + markName: strings.Repeat("9", 5000)}, path: "a", step: -1},
		{name: "the mark of a missing file", tree: tree{"m.bin" + markName: "7"}, by: "none"},
		{name: "the mark of an empty file", tree: tree{"m.bin": "", "m.bin" + markName: "7"}, reason: "incomplete"},
		{name: "a mark that is a link", tree: tree{"a-1/" + markName: "->../x", "x": "1"}, by: "none"},
		{name: "it goes over the framework's own", tree: merge(under("iter_0000100", dcpShards), tree{megatronTracker: "100", "iter_0000050/" + markName: ""}), framework: "megatron", path: "iter_0000050", step: 50},
	})
}

func BenchmarkProbe(b *testing.B) {
	shards := tree{".metadata": pickle, "metadata.json": distMeta}
	for i := range 256 {
		shards[fmt.Sprintf("__%d_0.distcp", i)] = "x"
	}
	files := tree{megatronTracker: "1000"}
	for i := range 10 {
		files = merge(files, under(fmt.Sprintf("iter_%07d", (i+1)*100), shards))
	}
	dir := files.create(b)
	fence := fenceAround(b, dir)
	for b.Loop() {
		if got, err := Probe(b.Context(), fence, dir, ""); err != nil || got.Path != "iter_0001000" {
			b.Fatal(got, err)
		}
	}
}
