package status_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/agent/status"
	"github.com/heteroflow/node-agent/protocol"
)

func good() status.Status {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := status.Status{WrittenAt: at, PID: os.Getpid(), Period: 5 * time.Second, Server: "https://plane.example", LastContact: &at}
	s.Heartbeat.NodeID, s.Heartbeat.State = "n1", protocol.NodeOnline
	s.Heartbeat.Runtime = &protocol.RuntimeReport{Name: "containerd", Version: "1.7", Available: true, Why: "preferred, and it answers"}
	s.Heartbeat.LiveTaskIDs = []string{"7"}
	s.Heartbeat.DrainedBy = []protocol.Drain{
		{By: protocol.DrainByServer},
		{By: protocol.DrainByOperator, User: "alice", Reason: "new fans", Since: &at},
		{By: protocol.DrainByOperator, Reason: "its mark cannot be read"},
	}
	return s
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	dir := t.TempDir()
	if _, err := status.Read(dir); !errors.Is(err, status.ErrNeverRan) {
		t.Fatalf("before the first start: %v", err)
	}
	if err := status.Write(dir, good()); err != nil {
		t.Fatal(err)
	}
	got, err := status.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(good(), got); diff != "" {
		t.Fatal(diff)
	}
	if err := os.WriteFile(dir+"/"+status.FileName, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := status.Read(dir); err == nil {
		t.Fatal("half a file was read")
	}
}

func TestEachProblemIsNamed(t *testing.T) {
	cases := map[string]struct {
		spoil func(*status.Status)
		after time.Duration
		want  string
	}{
		"the agent is gone":   {func(s *status.Status) { s.PID = 1 << 30 }, 0, "does not run, or cannot write"},
		"it hangs":            {func(*status.Status) {}, 5 * time.Minute, "hangs, or cannot write"},
		"the clock set back":  {func(*status.Status) {}, -2 * time.Hour, "set back"},
		"the key is refused":  {func(s *status.Status) { s.Unauthorized, s.Error = true, "401" }, 0, "refuses the system key"},
		"no contact":          {func(s *status.Status) { s.Error = "connection refused" }, 0, "connection refused"},
		"the runtime is away": {func(s *status.Status) { s.Heartbeat.ErrorMessage = "containerd does not answer" }, 0, "containerd does not answer"},
		"a card failed": {func(s *status.Status) {
			s.Heartbeat.GPUCollectFailures = []protocol.CollectFailure{{UUID: "GPU-1", Message: "lost"}}
		}, 0, "card GPU-1: lost"},
		"a tool failed":           {func(s *status.Status) { s.Heartbeat.GPUCollectorError = "timeout" }, 0, "cards: timeout"},
		"results are undelivered": {func(s *status.Status) { s.Heartbeat.UndeliveredResults = new(2) }, 0, "2 results"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := good()
			tc.spoil(&s)
			got := s.Problems(s.WrittenAt.Add(tc.after))
			if len(got) != 1 || !strings.Contains(got[0], tc.want) {
				t.Fatalf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestTheTextSaysWhichRuntimeAndWhy(t *testing.T) {
	var b strings.Builder
	s := good()
	if err := s.WriteText(&b, s.WrittenAt.Add(2*time.Second)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"n1 (online)", "containerd 1.7 (preferred, and it answers)", "last reached 2s ago", "1 running",
		"draining       nothing new is claimed, by the control plane's wish\n",
		"draining       nothing new is claimed, by operator alice since 2026-01-02T03:04:05Z: new fans\n",
		"draining       nothing new is claimed, by operator: its mark cannot be read\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing:\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "PROBLEM") {
		t.Errorf("a problem where there is none:\n%s", b.String())
	}
}

func TestAClockThatWasSetDoesNotMakeTheLastContactOneToCome(t *testing.T) {
	for now, want := range map[time.Duration]string{
		time.Second: "last reached 1m1s ago", -2 * time.Hour: "last reached 1m0s ago",
	} {
		var b strings.Builder
		s := good()
		*s.LastContact = s.WrittenAt.Add(-time.Minute)
		if err := s.WriteText(&b, s.WrittenAt.Add(now)); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), want) {
			t.Errorf("%v after it was written there is no %q:\n%s", now, want, b.String())
		}
	}
}
