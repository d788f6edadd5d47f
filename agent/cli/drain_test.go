package cli

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/heteroflow/node-agent/agent/identity"
	"github.com/heteroflow/node-agent/agent/journal"
	"github.com/heteroflow/node-agent/agent/status"
	"github.com/heteroflow/node-agent/protocol"
)

func openState(t *testing.T, dir string, opts journal.Options) *journal.Journal {
	t.Helper()
	j, err := journal.Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

func TestDrainLeavesAMarkThatUndrainTakesAway(t *testing.T) {
	dir := t.TempDir()
	j := openState(t, dir, journal.Options{MachineID: identity.System().MachineID()})
	t.Setenv("SUDO_USER", "alice")
	marked := func() string {
		data, err := j.ReadOperator("drain.json", 4096)
		if err != nil {
			return ""
		}
		return string(data)
	}
	steps := []struct {
		args []string
		says string
		mark string
	}{
		{[]string{"undrain"}, "was not drained", ""},
		{[]string{"drain", "--reason", "new fans"}, "starts drained", "new fans"},
		{[]string{"drain"}, "claims nothing new", "alice"},
		{[]string{"undrain"}, "claims tasks again", ""},
	}
	for _, step := range steps {
		exit, out, errs := run(t, append(step.args, "--set", "state_dir="+dir)...)
		if exit != 0 || !strings.Contains(out, step.says) {
			t.Fatalf("%v: exit code %d, %s%s", step.args, exit, out, errs)
		}
		if mark := marked(); !strings.Contains(mark, step.mark) || (mark == "") != (step.mark == "") {
			t.Errorf("%v: the mark is %q", step.args, mark)
		}
	}
}

func TestUndrainSaysThatTheControlPlaneStillDrains(t *testing.T) {
	dir := t.TempDir()
	openState(t, dir, journal.Options{})
	s := status.Status{WrittenAt: time.Now(), PID: os.Getpid()}
	s.Heartbeat.DrainedBy = []protocol.Drain{{By: protocol.DrainByServer}}
	if err := status.Write(dir, s); err != nil {
		t.Fatal(err)
	}
	if exit, out, errs := run(t, "undrain", "--set", "state_dir="+dir); exit != 0 || !strings.Contains(out, "control plane still wants it drained") {
		t.Errorf("exit code %d, %s%s", exit, out, errs)
	}
	if exit, out, errs := run(t, "drain", "--set", "state_dir="+dir); exit != 0 || strings.Contains(out, "seems to run") {
		t.Errorf("exit code %d, %s%s", exit, out, errs)
	}
}

func TestDrainSaysWhatIsWrong(t *testing.T) {
	used := t.TempDir()
	openState(t, used, journal.Options{})
	cases := map[string]struct {
		args []string
		exit int
		says string
	}{
		"no state directory":         {[]string{"drain", "--set", "state_dir=" + used + "/none"}, exitFailure, "no agent has run with this state directory"},
		"undrain without one":        {[]string{"undrain", "--set", "state_dir=" + used + "/none"}, exitFailure, "is not there"},
		"somebody else's directory":  {[]string{"drain", "--set", "state_dir=" + t.TempDir()}, exitFailure, "agent.pid"},
		"a reason of two lines":      {[]string{"drain", "--reason", "a\nb", "--set", "state_dir=" + used}, exitUsage, "one line"},
		"an argument nobody expects": {[]string{"drain", "now", "--set", "state_dir=" + used}, exitFailure, "unknown command"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			exit, _, errs := run(t, tc.args...)
			if exit != tc.exit || !strings.Contains(errs, tc.says) {
				t.Errorf("exit code %d, %s", exit, errs)
			}
		})
	}
}
