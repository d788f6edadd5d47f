package tool

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func recorded(argv string, exit int, stdout, stderr string) Recorded {
	return Recorded{Result: Result{
		Argv: strings.Fields(argv), ExitCode: exit, Stdout: []byte(stdout), Stderr: []byte(stderr),
		Duration: 1500 * time.Millisecond,
	}}
}

func TestARecordingReplaysWhatWasRun(t *testing.T) {
	hung := recorded("hung-smi", -1, "partial", "")
	hung.Error = "hung"
	late := recorded("late-smi", -1, "", "")
	late.Error = "timeout"
	asked := recorded("mps-control", 0, "28941\n", "")
	asked.Input = "get_server_list\n"
	machine := NewReplay(
		recorded("some-smi", 14, "rows\n", ""), recorded("some-smi -q -d A/B,C", 0, "", "no\n"), hung, late, asked)

	rec := NewRecorder(machine)
	commands := []Command{
		{Name: "some-smi"},
		{Name: "some-smi"},
		{Name: "some-smi", Args: []string{"-q", "-d", "A/B,C"}},
		{Name: "hung-smi"},
		{Name: "late-smi"},
		{Name: "mps-control", Input: "get_server_list\n"},
		{Name: "some-smi", Args: []string{"--unknown"}},
		{Name: "absent-smi"},
	}
	type outcome struct {
		Result Result
		Err    string
	}
	run := func(r Runner) []outcome {
		var all []outcome
		for _, c := range commands {
			res, err := r.Run(t.Context(), c)
			o := outcome{Result: res}
			switch {
			case errors.Is(err, ErrNotInstalled):
				o.Err = "not installed"
			case errors.As(err, new(*TimeoutError)):
				o.Err = "timeout"
			case errors.As(err, new(*HungError)):
				o.Err = "hung"
			case err != nil:
				t.Fatal(err)
			}
			all = append(all, o)
		}
		return all
	}
	want := run(rec)
	dir := filepath.Join(t.TempDir(), "capture")
	if err := rec.Write(dir); err != nil {
		t.Fatal(err)
	}
	replay, err := OpenReplay(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, run(replay), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-machine +replay):\n%s", diff)
	}
	if err := rec.Write(dir); err == nil {
		t.Error("a second recording overwrites the first")
	}
}

func TestReplayNamesTheCommandsNobodyAskedFor(t *testing.T) {
	r := NewReplay(recorded("some-smi", 0, "a", ""), recorded("/usr/bin/some-smi -L", 0, "b", ""))
	if path, err := r.Find("some-smi"); err != nil || path != "some-smi" {
		t.Error(path, err)
	}
	if _, err := r.Find("other-smi"); !errors.Is(err, ErrNotInstalled) {
		t.Error(err)
	}
	if _, err := r.Run(t.Context(), Command{Name: "some-smi"}); err != nil {
		t.Fatal(err)
	}
	if rest := r.Unasked(); len(rest) != 1 || rest[0].Argv[1] != "-L" {
		t.Errorf("unasked: %+v", rest)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Run(ctx, Command{Name: "some-smi"}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestSerialsAndTheHostNameAreMaskedTheSameEverywhere(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	rec := NewRecorder(NewReplay(
		recorded("a-smi -q", 0, "| Serial Number : 2102312ABC45 | "+host+" |\n  Model : C500\n  SN: N/A\n", ""),
		recorded("b-smi -x", 0, "<serial>1322621012345</serial><serial>N/A</serial>", ""),
		recorded("c-smi --json", 0, `{"card0": {"Serial Number": "T6R23106", "Card SKU": "D123456"}}`, "2102312ABC45"),
		recorded("d-smi --query-gpu=index,serial,name --format=csv,noheader", 0, "0, 9988776655, H100\n1, [N/A], H100\n", ""),
		recorded("e-smi -m", 0, "0 0 0 KL200123456789 38\n", ""),
	))
	for _, c := range []Command{
		{Name: "a-smi", Args: []string{"-q"}},
		{Name: "b-smi", Args: []string{"-x"}},
		{Name: "c-smi", Args: []string{"--json"}},
		{Name: "d-smi", Args: []string{"--query-gpu=index,serial,name", "--format=csv,noheader"}},
		{Name: "e-smi", Args: []string{"-m"}},
	} {
		if _, err := rec.Run(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	rec.Mask("KL200123456789", "") // a detector knows the column
	dir := t.TempDir()
	if err := rec.Write(dir); err != nil {
		t.Fatal(err)
	}
	commands, err := ReadRecording(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all string
	for _, c := range commands {
		all += string(c.Stdout) + string(c.Stderr) + "\n"
	}
	for _, secret := range []string{"2102312ABC45", "1322621012345", "T6R23106", "9988776655", "KL200123456789"} {
		if strings.Contains(all, secret) {
			t.Errorf("%s is not masked", secret)
		}
	}
	if len(host) >= shortest && strings.Contains(all, host) {
		t.Error("the host name is not masked")
	}
	for _, kept := range []string{"Model : C500", "SN: N/A", "<serial>N/A</serial>", "D123456", "1, [N/A], H100"} {
		if !strings.Contains(all, kept) {
			t.Errorf("%q did not survive in\n%s", kept, all)
		}
	}
	first := strings.Fields(string(commands[0].Stdout))[4]
	if len(first) != len("2102312ABC45") || string(commands[2].Stderr) != first {
		t.Errorf("one serial became %q and %q", first, commands[2].Stderr)
	}
}

func TestARecordingFromAStrangerIsReadWithCare(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, yaml := range map[string]string{
		"no manifest":                "",
		"no YAML":                    "commands: [",
		"another version":            "version: 2\ncommands: []\n",
		"a command without argv":     "version: 1\ncommands: [{exit_code: 0}]\n",
		"an absolute output file":    "version: 1\ncommands: [{argv: [x], stdout: " + outside + "}]\n",
		"an output file outside":     "version: 1\ncommands: [{argv: [x], stdout: ../secret}]\n",
		"a link that leads outside":  "version: 1\ncommands: [{argv: [x], stdout: link}]\n",
		"an output file not there":   "version: 1\ncommands: [{argv: [x], stderr: nothing}]\n",
		"an output that is no file":  "version: 1\ncommands: [{argv: [x], stdout: .}]\n",
		"an exit code that is a map": "version: 1\ncommands: [{argv: [x], exit_code: {}}]\n",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
				t.Fatal(err)
			}
			if yaml != "" {
				if err := os.WriteFile(filepath.Join(dir, ManifestName), []byte(yaml), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := OpenReplay(dir); err == nil {
				t.Error("accepted")
			}
		})
	}
}

func FuzzReadRecording(f *testing.F) {
	f.Add([]byte("version: 1\ncommands: [{argv: [a, b], exit_code: 1, stdout: manifest.yaml, duration_ms: 3}]\n"))
	f.Add([]byte("version: 1\ncommands: [{argv: ['']}]\n"))
	f.Fuzz(func(t *testing.T, manifest []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, ManifestName), manifest, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := OpenReplay(dir)
		if err != nil {
			return
		}
		for _, c := range r.Unasked() {
			if _, err := r.Find(filepath.Base(c.Argv[0])); err != nil {
				t.Error(err)
			}
		}
	})
}
