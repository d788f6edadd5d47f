package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/heteroflow/node-agent/agent/config"
	"github.com/heteroflow/node-agent/gpu/cdi/check"
)

// onRoot puts a recorded node onto a file system of its own, which has the cards' device
// nodes and some of their drivers, and specs in a directory of its own.
func onRoot(t *testing.T, n node) (_ node, root, dir string) {
	t.Helper()
	root, dir = t.TempDir(), t.TempDir()
	libs := filepath.Join(root, "usr/lib/x86_64-linux-gnu")
	for _, d := range []string{libs, filepath.Join(root, "dev"), filepath.Join(root, "usr/bin")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, minor := range map[string]uint32{"nvidia0": 0, "nvidia1": 1, "nvidiactl": 255, "davinci0": 3, "davinci_manager": 4} {
		err := unix.Mknod(filepath.Join(root, "dev", name), unix.S_IFCHR|0o600, int(unix.Mkdev(195, minor)))
		if errors.Is(err, unix.EPERM) {
			t.Skip("device nodes can be made by root only")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for bus, minor := range map[string]string{"0000:17:00.0": "0", "0000:65:00.0": "1", "0000:03:00.0": "0"} {
		dir := filepath.Join(root, "proc/driver/nvidia/gpus", bus)
		information := "Model: \t\t a card\nDevice Minor: \t " + minor + "\nGPU Excluded:\t No\n"
		if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "information"), []byte(information), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	err := errors.Join(
		os.WriteFile(filepath.Join(libs, "libcuda.so.550.54.15"), nil, 0o600),
		os.Symlink("libcuda.so.550.54.15", filepath.Join(libs, "libcuda.so.1")),
		os.WriteFile(filepath.Join(root, "usr/bin/nvidia-smi"), nil, 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
	n.config = func() (config.GPU, error) {
		cfg := config.Default().GPU
		cfg.HostRoot, cfg.CDIDir = root, dir
		return cfg, nil
	}
	return n, root, dir
}

// cdiCommand runs a cdi command on a node.
func cdiCommand(t *testing.T, n node, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := newCDI(n)
	var out, errs bytes.Buffer
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err = cmd.ExecuteContext(t.Context())
	return out.String(), errs.String(), err
}

func TestCDICommandsMakeListAndCheckTheSpecsOfANode(t *testing.T) {
	for _, name := range []string{"nvidia", "mixed"} {
		t.Run(name, func(t *testing.T) {
			n, _, dir := onRoot(t, recorded(t, name))
			for _, step := range []struct{ golden, args string }{
				{"generate.golden", "generate"},
				{"generate-again.golden", "generate"},
				{"specs.golden", "list --dir " + dir},
				{"specs.json.golden", "list --json --dir " + dir},
				{"check.golden", "check --dir " + dir},
			} {
				out, stderr, err := cdiCommand(t, n, strings.Fields(step.args)...)
				if err != nil || stderr != "" {
					t.Fatalf("%s: %v, %s", step.args, err, stderr)
				}
				golden(t, filepath.Join("testdata", name, step.golden), strings.ReplaceAll(out, dir, "DIR"))
			}
		})
	}
}

func TestADryRunPrintsWhatWouldBeWritten(t *testing.T) {
	n, _, dir := onRoot(t, recorded(t, "nvidia"))
	printed, leftOut, err := cdiCommand(t, n, "generate", "--dry-run")
	if err != nil || !strings.Contains(leftOut, "left out: nvidia: /dev/nvidia-uvm: no such file or directory") {
		t.Errorf("%v, beside the specs %q", err, leftOut)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("written all the same: %v, %v", entries, err)
	}
	other := t.TempDir()
	if _, _, err := cdiCommand(t, n, "generate", "--dir", other); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(filepath.Join(other, "heteroflow-nvidia.json"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(written), printed); diff != "" {
		t.Errorf("-written +printed:\n%s", diff)
	}
}

func TestTheSpecOfCardsThatAreGoneIsRemoved(t *testing.T) {
	n, _, dir := onRoot(t, recorded(t, "nvidia"))
	if _, _, err := cdiCommand(t, n, "generate"); err != nil {
		t.Fatal(err)
	}
	n.machine = recorded(t, "none").machine
	out, _, err := cdiCommand(t, n, "generate")
	want := "written: " + dir + "/heteroflow-virtual.json, virtual.heteroflow.io/gpu with 3 names\n" +
		"removed: " + dir + "/heteroflow-nvidia.json\n"
	if out != want || err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestACheckNamesEachProblemAndFails(t *testing.T) {
	n, root, dir := onRoot(t, recorded(t, "nvidia"))
	if _, _, err := cdiCommand(t, n, "generate"); err != nil {
		t.Fatal(err)
	}
	node := filepath.Join(root, "dev/nvidia1")
	err := errors.Join(
		os.Remove(filepath.Join(root, "usr/bin/nvidia-smi")), os.Remove(node),
		unix.Mknod(node, unix.S_IFCHR|0o600, int(unix.Mkdev(195, 7))),
		os.WriteFile(filepath.Join(dir, "copy.yaml"),
			[]byte("cdiVersion: 0.5.0\nkind: nvidia.heteroflow.io/gpu\ndevices: [{name: all, containerEdits: {env: [A=b]}}]\n"), 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
	out, _, err := cdiCommand(t, n, "check", "--dir", dir)
	if err == nil || err.Error() != "the CDI specs have 3 problems" {
		t.Errorf("got %v", err)
	}
	golden(t, filepath.Join("testdata", "nvidia", "check-problems.golden"), strings.ReplaceAll(out, dir, "DIR"))

	out, _, err = cdiCommand(t, n, "check", "--dir", dir, "--json")
	if err == nil {
		t.Error("no error with --json")
	}
	var problems []check.Problem
	if err := json.Unmarshal([]byte(out), &problems); err != nil || len(problems) != 3 {
		t.Errorf("%v, %s", err, out)
	}
}

func TestADirectoryWithoutSpecsIsNoProblem(t *testing.T) {
	n, _, dir := onRoot(t, recorded(t, "nvidia"))
	for args, want := range map[string]string{
		"check":       "no spec of the agent's in " + dir + "\n",
		"check --dir": "no spec of the agent's in " + filepath.Join(dir, "absent") + "\n",
		"list --dir":  "no device\n",
	} {
		words := strings.Fields(args)
		if len(words) > 1 {
			words = append(words, filepath.Join(dir, "absent"))
		}
		out, _, err := cdiCommand(t, n, words...)
		if err != nil || out != want {
			t.Errorf("%s: %v, %q", args, err, out)
		}
	}
	out, _, err := cdiCommand(t, n, "check", "--json", "--dir", dir)
	if err != nil || out != "[]\n" {
		t.Errorf("%v, %q", err, out)
	}
}

func TestAFileThatIsNoSpecIsListedAsSuch(t *testing.T) {
	n, _, dir := onRoot(t, recorded(t, "nvidia"))
	if err := os.WriteFile(filepath.Join(dir, "a.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _, err := cdiCommand(t, n, "list", "--dir", dir)
	if err != nil || !strings.HasPrefix(out, "no device\nunusable: "+dir+"/a.json: ") {
		t.Errorf("%v, %q", err, out)
	}
}
