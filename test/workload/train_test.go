package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func tree(t *testing.T, dir string) []string {
	t.Helper()
	var paths []string
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			paths = append(paths, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func TestTrainLeavesCompleteCheckpointsAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	code, out, errs := call(t, "train", "--steps", "5", "--step-time", "0", "--checkpoint-every", "2", "--checkpoint-dir", dir, "--mark", "DONE")
	if code != 0 {
		t.Fatalf("status %d: %s", code, errs)
	}
	want := []string{
		"latest",
		"step-000002/DONE", "step-000002/state.json",
		"step-000004/DONE", "step-000004/state.json",
		"step-000005/DONE", "step-000005/state.json",
	}
	if diff := cmp.Diff(want, tree(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if got := readFile(t, filepath.Join(dir, "latest")); got != "step-000005\n" {
		t.Errorf("latest = %q", got)
	}
	if !strings.HasPrefix(out, "starting from scratch\n") || !strings.HasSuffix(out, "trained 5 steps\n") {
		t.Errorf("stdout = %q", out)
	}
}

func TestTrainResumesFromADirectoryOrItsPointer(t *testing.T) {
	for _, at := range []string{"step-000003", ""} {
		t.Run("at "+at, func(t *testing.T) {
			dir := t.TempDir()
			if code, _, errs := call(t, "train", "--steps", "3", "--step-time", "0", "--checkpoint-dir", dir); code != 0 {
				t.Fatal(errs)
			}
			t.Setenv(resumeVariable, filepath.Join(dir, at))
			code, out, errs := call(t, "train", "--steps", "5", "--step-time", "0", "--checkpoint-dir", dir)
			want := "resumed from " + filepath.Join(dir, at) + " at step 3\nstep 4/5 loss 0.6561\n"
			if code != 0 || !strings.HasPrefix(out, want) {
				t.Errorf("status %d, stderr %q, stdout %q does not start with %q", code, errs, out, want)
			}
		})
	}
}

func TestTornCheckpointIsNotResumed(t *testing.T) {
	dir := t.TempDir()
	args := []string{"train", "--steps", "5", "--step-time", "0", "--checkpoint-dir", dir, "--tear-at", "3"}
	if code, _, errs := call(t, args...); code != exitKilled {
		t.Fatalf("status = %d, want %d: %s", code, exitKilled, errs)
	}
	if got := readFile(t, filepath.Join(dir, "latest")); got != "step-000002\n" {
		t.Errorf("latest = %q, want the step before the torn one", got)
	}
	t.Setenv(resumeVariable, filepath.Join(dir, "step-000003"))
	code, _, errs := call(t, "train", "--checkpoint-dir", dir)
	if code != exitError || !strings.Contains(errs, "no completion mark") {
		t.Errorf("status %d, stderr %q", code, errs)
	}
}

func TestLoadNamesWhatIsWrong(t *testing.T) {
	store := checkpoints{mark: "COMPLETE"}
	tests := []struct{ name, state, want string }{
		{"data that is no JSON", "{", "unexpected end"},
		{"a negative step", `{"step":-1}`, "negative"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, data := range map[string]string{stateFile: tt.state, store.mark: ""} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := store.load(dir); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q in it", err, tt.want)
			}
		})
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
