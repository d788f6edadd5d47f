package devserver

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/devserver/operator"
	"github.com/heteroflow/node-agent/protocol"
)

func TestOfManyClaimsExactlyOneWins(t *testing.T) {
	p := start(t)
	for round := range 3 {
		id := fmt.Sprintf("t%d", round)
		p.create(id, "n")
		var won, lost atomic.Int64
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				r := p.put(id, protocol.TaskUpdate{NodeID: "n", FromStatus: protocol.StatusScheduled, Status: protocol.StatusRunning, Generation: new(int64(1))})
				switch r.status {
				case http.StatusOK:
					won.Add(1)
				case http.StatusConflict:
					lost.Add(1)
				default:
					t.Errorf("status %d: %s", r.status, r.body)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 || lost.Load() != 15 {
			t.Errorf("%d won and %d lost", won.Load(), lost.Load())
		}
	}
}

func TestEveryStepOfAnAgentIsTakenOrRefusedByTheTable(t *testing.T) {
	p := start(t, func(c *Config) { c.Production = false })
	words := append(protocol.TaskStatuses(), "paused")
	for i, from := range words {
		for j, to := range words {
			id := fmt.Sprintf("t-%d-%d", i, j)
			task := protocol.Task{ID: id, NodeID: "n", Image: "x", Status: from, Generation: 1}
			must(p.CreateTaskUnchecked(t.Context(), task))(t)
			r := p.put(id, protocol.TaskUpdate{NodeID: "n", FromStatus: from, Status: to})
			want := http.StatusUnprocessableEntity
			if protocol.AgentCanTransition(from, to) {
				want = http.StatusOK
			}
			if r.status != want {
				t.Errorf("%s to %s: got %d, want %d: %s", from, to, r.status, want, r.body)
			}
			stored := must(p.Task(t.Context(), id))(t)
			if expect := map[bool]protocol.TaskStatus{true: to, false: from}[want == http.StatusOK]; stored.Status != expect {
				t.Errorf("%s to %s: stored is %s", from, to, stored.Status)
			}
		}
	}
}

func TestEveryActionOfAnOperatorFollowsTheTable(t *testing.T) {
	p := start(t, func(c *Config) { c.Production = false })
	want := map[operator.Action]map[protocol.TaskStatus]protocol.TaskStatus{
		operator.ActionStop: {
			"pending": "cancelled", "scheduled": "cancelled", "running": "stopping", "sleeping": "stopping", "asleep": "stopping", "waking": "stopping",
		},
		operator.ActionSleep: {"running": "sleeping"},
		operator.ActionWake:  {"asleep": "waking"},
		operator.ActionCancel: {
			"pending": "cancelled", "scheduled": "cancelled", "running": "cancelled", "stopping": "cancelled",
			"sleeping": "cancelled", "asleep": "cancelled", "waking": "cancelled",
		},
	}
	for action, steps := range want {
		for _, from := range append(protocol.TaskStatuses(), "paused") {
			id := fmt.Sprintf("%s-%s", action, from)
			must(p.CreateTaskUnchecked(t.Context(), protocol.Task{ID: id, NodeID: "n", Image: "x", Status: from}))(t)
			got, err := p.Act(t.Context(), id, action)
			if to, ok := steps[from]; ok != (err == nil) || ok && got.Status != to {
				t.Errorf("%s of a %s task: got %q, %v, want %q", action, from, got.Status, err, to)
			}
		}
	}
}

func TestALostCompareAndSetChangesNothingAndTellsWhatIsStored(t *testing.T) {
	p := start(t)
	p.create("t1", "n")
	for name, u := range map[string]protocol.TaskUpdate{
		"another node":       {NodeID: "other", FromStatus: "scheduled", Status: "running"},
		"another status":     {NodeID: "n", FromStatus: "running", Status: "completed"},
		"another generation": {NodeID: "n", FromStatus: "scheduled", Status: "running", Generation: new(int64(2))},
	} {
		t.Run(name, func(t *testing.T) {
			body := refused(t, p.put("t1", u), http.StatusConflict, protocol.CodeConflict)
			if body.Task == nil || body.Task.ID != "t1" || body.Task.Status != protocol.StatusScheduled || body.Task.NodeID != "n" {
				t.Errorf("got task %+v", body.Task)
			}
		})
	}
	refused(t, p.put("none", protocol.TaskUpdate{NodeID: "n", FromStatus: "scheduled", Status: "running"}), http.StatusNotFound, protocol.CodeNotFound)
	if stored := must(p.Task(t.Context(), "t1"))(t); stored.Status != protocol.StatusScheduled || len(must(p.History(t.Context(), "t1"))(t)) != 1 {
		t.Errorf("stored is %v", stored)
	}
}

func TestARepeatedTerminalReportKeepsTheFirst(t *testing.T) {
	p := start(t)
	p.create("t1", "n")
	p.move("t1", "n", "scheduled", "running")
	first := protocol.TaskUpdate{NodeID: "n", FromStatus: "running", Status: "completed", ExitCode: new(0), Reason: protocol.ReasonExited}
	second := protocol.TaskUpdate{NodeID: "n", FromStatus: "running", Status: "failed", ExitCode: new(1), Reason: protocol.ReasonContainerLost}
	decode[protocol.Task](t, p.put("t1", first), http.StatusOK)
	body := refused(t, p.put("t1", second), http.StatusConflict, protocol.CodeConflict)
	stored := must(p.Task(t.Context(), "t1"))(t)
	if body.Task.Status != "completed" || *stored.Outcome.ExitCode != 0 || stored.Outcome.Reason != protocol.ReasonExited {
		t.Errorf("stored is %+v", stored.Outcome)
	}
}

func TestWhatANodeReportsIsKeptOverItsUpdates(t *testing.T) {
	p := start(t)
	p.create("t1", "n")
	started := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	decode[protocol.Task](t, p.put("t1", protocol.TaskUpdate{NodeID: "n", FromStatus: "scheduled", Status: "running", ContainerID: "c1", StartedAt: &started}), http.StatusOK)
	decision := protocol.CheckpointResume{NodeID: "n", CheckpointPath: "/ck", Found: true, ResumeFrom: "/ck/7", Step: new(int64(7))}
	if r := p.do(http.MethodPost, protocol.CheckpointResumePath("t1"), decision); r.status != http.StatusNoContent {
		t.Fatalf("%d %s", r.status, r.body)
	}
	decode[protocol.Task](t, p.put("t1", protocol.TaskUpdate{
		NodeID: "n", FromStatus: "running", Status: "failed", ExitCode: new(137), Reason: protocol.ReasonOOMKilled, OOMKilled: new(true),
		ErrorMessage: "out of memory", LogTail: strings.Repeat("x", protocol.MaxLogTailBytes) + "end\xff",
	}), http.StatusOK)
	got := must(p.Task(t.Context(), "t1"))(t).Outcome
	if len(got.LogTail) > protocol.MaxLogTailBytes || !strings.HasSuffix(got.LogTail, "end\ufffd") {
		t.Errorf("log tail of %d bytes ends in %q", len(got.LogTail), got.LogTail[max(0, len(got.LogTail)-8):])
	}
	got.LogTail = ""
	want := operator.Outcome{
		ContainerID: "c1", StartedAt: &started, ExitCode: new(137), Reason: protocol.ReasonOOMKilled, OOMKilled: new(true),
		ErrorMessage: "out of memory", CheckpointResume: &decision,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
	stranger := decision
	stranger.NodeID = "other"
	refused(t, p.do(http.MethodPost, protocol.CheckpointResumePath("t1"), stranger), http.StatusConflict, protocol.CodeConflict)
}

func TestAssigningAgainRaisesTheGenerationAndShutsTheOldNodeOut(t *testing.T) {
	p := start(t)
	task := must(p.CreateTask(t.Context(), protocol.Task{ID: "t1", Image: "busybox"}))(t)
	if task.Status != protocol.StatusPending || task.Generation != 0 {
		t.Fatalf("created as %v", task)
	}
	for i, node := range []string{"n1", "n2"} {
		task = must(p.Assign(t.Context(), "t1", node))(t)
		if task.Status != protocol.StatusScheduled || task.NodeID != node || task.Generation != int64(i+1) {
			t.Fatalf("assigned as %v", task)
		}
	}
	p.move("t1", "n2", "scheduled", "running")
	task = must(p.Assign(t.Context(), "t1", "n1"))(t) // n2 was lost
	if task.Status != protocol.StatusScheduled || task.Outcome.ContainerID != "" {
		t.Fatalf("assigned as %v", task)
	}
	refused(t, p.put("t1", protocol.TaskUpdate{NodeID: "n2", FromStatus: "running", Status: "failed"}), http.StatusConflict, protocol.CodeConflict)
	// A node that had it before is told by the generation.
	refused(t, p.put("t1", protocol.TaskUpdate{NodeID: "n1", FromStatus: "scheduled", Status: "running", Generation: new(int64(1))}), http.StatusConflict, protocol.CodeConflict)
	p.move("t1", "n1", "scheduled", "running")

	var timeline []string
	for _, e := range must(p.History(t.Context(), "t1"))(t) {
		timeline = append(timeline, fmt.Sprintf("%s %s>%s %s/%d", e.Kind, e.From, e.To, e.NodeID, e.Generation))
	}
	want := []string{
		"created >pending /0", "operator pending>scheduled n1/1", "operator scheduled>scheduled n2/2",
		"node scheduled>running n2/2", "operator running>scheduled n1/3", "node scheduled>running n1/3",
	}
	if diff := cmp.Diff(want, timeline); diff != "" {
		t.Errorf("timeline (-want +got):\n%s", diff)
	}
}

func TestTasksAreListedOldestFirstAndBounded(t *testing.T) {
	p := start(t)
	for i := range 25 {
		p.create(fmt.Sprintf("t%02d", 24-i), "n")
	}
	var ids []string
	for _, task := range decode[protocol.TaskList](t, p.do(http.MethodGet, "/api/v1/tasks?node_id=n&status=scheduled", nil), http.StatusOK).Tasks {
		ids = append(ids, task.ID)
	}
	if len(ids) != 20 || ids[0] != "t24" || !slices.IsSortedFunc(ids, func(a, b string) int { return strings.Compare(b, a) }) {
		t.Errorf("got %v", ids)
	}
	if all := must(p.Tasks(t.Context(), "", protocol.StatusScheduled))(t); len(all) != 25 {
		t.Errorf("the operator sees %d", len(all))
	}
}

func TestABadTaskIsRefusedWithAllItsProblems(t *testing.T) {
	p := start(t)
	_, err := p.CreateTask(t.Context(), protocol.Task{ID: "a/b", MemoryBytes: -1})
	for _, field := range []string{"id:", "image:", "memory_bytes:"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s is not told: %v", field, err)
		}
	}
	p.create("t1", "n")
	if _, err := p.CreateTask(t.Context(), protocol.Task{ID: "t1", Image: "x"}); err == nil {
		t.Error("an id was taken twice")
	}
	if _, err := p.CreateTaskUnchecked(t.Context(), protocol.Task{ID: "t2"}); err == nil {
		t.Error("a production server took an unchecked task")
	}
}

func TestADeletedTaskIsGone(t *testing.T) {
	p := start(t)
	p.create("t1", "n")
	if err := p.DeleteTask(t.Context(), "t1"); err != nil {
		t.Fatal(err)
	}
	refused(t, p.do(http.MethodGet, protocol.TaskPath("t1"), nil), http.StatusNotFound, protocol.CodeNotFound)
	if err := p.DeleteTask(t.Context(), "t1"); err == nil {
		t.Error("deleted twice")
	}
}
