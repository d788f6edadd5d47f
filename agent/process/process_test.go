package process_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/heteroflow/node-agent/agent/process"
)

const id = "4f0c5d9e8b7a4f0c5d9e8b7a4f0c5d9e8b7a4f0c5d9e8b7a4f0c5d9e8b7a0001"

// table is a /proc in which process 7 has the cgroups and the program's name.
func table(t *testing.T, cgroups, name string) process.Table {
	t.Helper()
	p := process.Table{Root: t.TempDir()}
	become(t, p, name, 4711)
	write(t, p, "cgroup", cgroups)
	return p
}

func write(t *testing.T, p process.Table, file, text string) {
	t.Helper()
	path := filepath.Join(p.Root, "7", file)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// become makes process 7 one that was started then.
func become(t *testing.T, p process.Table, name string, ticks int) {
	t.Helper()
	write(t, p, "stat", fmt.Sprintf("7 (%s) S%s %d 99 99\n", name, strings.Repeat(" 1", 18), ticks))
}

func TestAProcessIsAContainersIfItsCgroupSaysSo(t *testing.T) {
	cases := map[string]struct {
		cgroups string
		want    bool
	}{
		"Docker's, version 1":         {"9:name=systemd:/docker/" + id + "\n8:pids:/docker/" + id + "\n", true},
		"Docker's, by systemd":        {"0::/system.slice/docker-" + id + ".scope\n", true},
		"below it":                    {"0::/docker/" + id + "/init\n", true},
		"containerd's":                {"0::/heteroflow/" + id + "\n", true},
		"seen from another namespace": {"0::/../../docker/" + id + "\n", true},
		"another container's":         {"0::/docker/" + strings.Repeat("0", 64) + "\n", false},
		"one with a longer id":        {"0::/heteroflow/" + id + "2\n", false},
		"the host's":                  {"0::/init.scope\n", false},
		"none":                        {"", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := table(t, tc.cgroups, "train")
			got, ok := p.Of(id, 7)
			if ok != tc.want || ok && got != (process.Process{PID: 7, Ticks: 4711}) {
				t.Errorf("got %+v, %v", got, ok)
			}
		})
	}
}

func TestAProcessIsGoneWhenItsPidIsNobodysOrAnothers(t *testing.T) {
	cases := map[string]struct {
		change func(t *testing.T, p process.Table)
		gone   bool
	}{
		"it lives": {func(*testing.T, process.Table) {}, false},
		"it has another name by now, with parentheses": {func(t *testing.T, p process.Table) { become(t, p, "a) S 1 (b", 4711) }, false},
		"its pid is nobody's":                          {func(t *testing.T, p process.Table) { remove(t, p) }, true},
		"its pid is another's":                         {func(t *testing.T, p process.Table) { become(t, p, "train", 9999) }, true},
		"its line cannot be understood":                {func(t *testing.T, p process.Table) { write(t, p, "stat", "7 (train) S 1") }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := table(t, "0::/docker/"+id, "train")
			seen, ok := p.Of(id, 7)
			if !ok {
				t.Fatal("not found")
			}
			tc.change(t, p)
			if got := p.Gone(seen); got != tc.gone {
				t.Errorf("gone: %v, want %v", got, tc.gone)
			}
		})
	}
}

func remove(t *testing.T, p process.Table) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(p.Root, "7")); err != nil {
		t.Fatal(err)
	}
}

func TestARealProcessIsThereUntilItWasWaitedFor(t *testing.T) {
	child := exec.CommandContext(t.Context(), "sleep", "600")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	cgroups, err := os.ReadFile("/proc/" + strconv.Itoa(child.Process.Pid) + "/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	_, path, _ := strings.Cut(strings.TrimSpace(string(cgroups)), "/")
	part, _, _ := strings.Cut(path, "/")
	part, _, _ = strings.Cut(part, "\n") // of the root's there is none: the empty name is it
	proc := process.Table{Root: "/proc"}
	seen, ok := proc.Of(part, child.Process.Pid)
	if !ok || seen.Ticks == 0 || proc.Gone(seen) {
		t.Errorf("got %+v, %v", seen, ok)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it was killed
	if !proc.Gone(seen) {
		t.Error("it is not gone")
	}
}

func FuzzStat(f *testing.F) {
	f.Add("7 (train) S" + strings.Repeat(" 1", 18) + " 4711 1\n")
	f.Add("7 ) (")
	f.Fuzz(func(t *testing.T, stat string) {
		p := process.Table{Root: t.TempDir()}
		write(t, p, "stat", stat)
		write(t, p, "cgroup", "0::/docker/"+id)
		if seen, ok := p.Of(id, 7); ok && p.Gone(seen) {
			t.Errorf("%+v is gone at once", seen)
		}
	})
}
