package executor_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/agent/executor"
	"github.com/heteroflow/node-agent/agent/journal"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/runtimefake"
)

// gaps are the times between requests.
func gaps(asks []asked) []time.Duration {
	var all []time.Duration
	for i := 1; i < len(asks); i++ {
		all = append(all, asks[i].At.Sub(asks[i-1].At))
	}
	return all
}

func TestAResultIsTriedSixTimesWithGrowingPausesAndThenWithEachReconciliation(t *testing.T) {
	troubles := map[string]trouble{
		"status 500":         {status: 500},
		"status 503":         {status: 503},
		"status 408":         {status: 408},
		"status 429":         {status: 429},
		"web pages":          {status: 200, html: true},
		"web pages of a 404": {status: 404, html: true},
		"no answer":          {},
	}
	for name, tr := range troubles {
		t.Run(name, func(t *testing.T) {
			onNode(t, func(n *node) {
				tr.which, tr.times = reports, -1
				lift := n.plane.trouble(tr)
				n.daemon.AddImage(image, runtimefake.Program{Code: 3, Output: "hello\n"})
				n.plane.add("1", image)
				n.until(5*time.Minute, "given up for now", func() bool { return n.logged("result not delivered") })
				tries := n.plane.asks(reports)
				if len(tries) != 6 {
					t.Errorf("%d tries", len(tries))
				}
				for i, gap := range gaps(tries) {
					want := min(time.Second<<i, 10*time.Second)
					if gap < want*9/10 || gap > want*11/10+time.Second {
						t.Errorf("pause %d is %v, want about %v", i+1, gap, want)
					}
				}
				time.Sleep(10 * time.Minute)
				more := len(n.plane.asks(reports)) - len(tries)
				if more < 8 || more > 12 {
					t.Errorf("%d tries in the next ten minutes, want one with each reconciliation", more)
				}
				if n.state("1") != runtime.StateExited || n.agent.executor.Undelivered() != 1 {
					t.Errorf("the container is %q, %d results owed", n.state("1"), n.agent.executor.Undelivered())
				}
				lift()
				n.ends(2*time.Minute, "1", protocol.StatusFailed)
				n.ranOnce(3)
				if u := n.plane.updates("1", over...)[0]; u.LogTail != "hello\n" || n.agent.executor.Undelivered() != 0 {
					t.Errorf("log tail %q, %d results owed", u.LogTail, n.agent.executor.Undelivered())
				}
			})
		})
	}
}

func TestTheControlPlaneSaysHowLongToWait(t *testing.T) {
	cases := map[string]struct {
		after string
		least time.Duration
		tries int // before the first pause of the reconciliation
	}{
		"twenty seconds are waited":          {"20", 20 * time.Second, 3},
		"an hour is more than the budget":    {"3600", 0, 1},
		"nonsense is not waited for":         {"soon", 0, 6},
		"a time that has passed is not, too": {"Thu, 31 Dec 1998 23:59:59 GMT", 0, 6},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			onNode(t, func(n *node) {
				n.plane.trouble(trouble{which: reports, times: -1, status: 429, after: tc.after})
				n.daemon.AddImage(image, runtimefake.Program{})
				n.plane.add("1", image)
				n.until(5*time.Minute, "given up for now", func() bool { return n.logged("result not delivered") })
				tries := n.plane.asks(reports)
				if len(tries) != tc.tries {
					t.Errorf("%d tries, want %d", len(tries), tc.tries)
				}
				for _, gap := range gaps(tries) {
					if gap < tc.least {
						t.Errorf("a pause of %v", gap)
					}
				}
				if took := tries[len(tries)-1].At.Sub(tries[0].At); took > n.policy.Budget {
					t.Errorf("tried for %v", took)
				}
			})
		})
	}
}

func TestTheTriesEndWithTheirBudgetAlsoWhenNobodyAnswers(t *testing.T) {
	onNode(t, func(n *node) {
		lift := n.plane.trouble(trouble{which: reports, times: -1, hangs: true})
		n.daemon.AddImage(image, runtimefake.Program{Code: 3})
		n.plane.add("1", image)
		n.until(5*time.Minute, "given up for now", func() bool { return n.logged("result not delivered") })
		begun := n.plane.asks(reports)[0].At
		given := n.logs.FilterMessageSnippet("result not delivered").All()[0].Time
		if took := given.Sub(begun); took < n.policy.Budget-10*time.Second || took > n.policy.Budget {
			t.Errorf("tried for %v, want about %v", took, n.policy.Budget)
		}
		lift()
		n.ends(3*time.Minute, "1", protocol.StatusFailed)
		n.ranOnce(3)
	})
}

func TestARefusedResultIsNotRepeatedBlindly(t *testing.T) {
	for _, status := range []int{400, 401, 403, 422} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			onNode(t, func(n *node) {
				lift := n.plane.trouble(trouble{which: reports, times: -1, status: status})
				n.daemon.AddImage(image, runtimefake.Program{})
				n.plane.add("1", image)
				n.until(5*time.Minute, "given up for now", func() bool { return n.logged("result not delivered") })
				time.Sleep(30 * time.Second)
				// A second one may follow a hint that came with the first.
				if tries := n.plane.asks(reports); len(tries) > 2 || n.state("1") != runtime.StateExited {
					t.Errorf("%d tries, the container is %q", len(tries), n.state("1"))
				}
				lift()
				n.ends(2*time.Minute, "1", protocol.StatusCompleted)
			})
		})
	}
}

func TestAResultWhoseAnswerWasLostIsReportedOnce(t *testing.T) {
	onNode(t, func(n *node) {
		n.plane.trouble(trouble{which: reports, times: 1, applied: true})
		n.daemon.AddImage(image, runtimefake.Program{Code: 3})
		n.plane.add("1", image)
		n.ends(time.Minute, "1", protocol.StatusFailed)
		n.ranOnce(3)
	})
}

func TestALostCompareAndSetIsSettledByWhatIsStored(t *testing.T) {
	cases := map[string]struct {
		stored func(*protocol.Task)
		want   protocol.TaskStatus // reported; empty: nothing
		kept   bool                // the container
	}{
		"the task is over":               {func(t *protocol.Task) { t.Status = protocol.StatusCancelled }, "", false},
		"it is completed by somebody":    {func(t *protocol.Task) { t.Status = protocol.StatusCompleted }, "", false},
		"it is another node's":           {func(t *protocol.Task) { t.NodeID = "node-2" }, "", false},
		"it was assigned here once more": {func(t *protocol.Task) { t.Generation, t.NodeID = 2, "node-2" }, "", false},
		"it is to stop":                  {func(t *protocol.Task) { t.Status = protocol.StatusStopping }, protocol.StatusStopped, false},
		"it is to sleep":                 {func(t *protocol.Task) { t.Status = protocol.StatusSleeping }, protocol.StatusAsleep, true},
		"it is to be awake":              {func(t *protocol.Task) { t.Status = protocol.StatusWaking }, protocol.StatusFailed, false},
		"it is asleep":                   {func(t *protocol.Task) { t.Status = protocol.StatusAsleep }, "", true},
		"it waits for a node":            {func(t *protocol.Task) { t.Status = protocol.StatusPending }, "", true},
		"its status is from the future":  {func(t *protocol.Task) { t.Status = "future" }, "", true},
	}
	for name, tc := range cases {
		for _, bare := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, told in the answer: %v", name, !bare), func(t *testing.T) {
				onNode(t, func(n *node) {
					n.plane.answers(bare, nil)
					n.daemon.AddImage(image, runtimefake.Program{Runs: time.Minute, Code: 3})
					n.plane.add("1", image)
					n.runs("1")
					// Nobody tells before the result is on its way.
					lift := n.plane.trouble(trouble{which: func(a asked) bool { return a.Method == "GET" }, times: -1, status: 500})
					n.plane.set("1", tc.stored)
					n.until(2*time.Minute, "a report", func() bool { return len(n.plane.asks(reports)) > 0 })
					if bare {
						n.until(2*time.Minute, "given up for now", func() bool { return n.logged("could not report") })
					}
					lift()
					time.Sleep(5 * time.Minute)
					var got protocol.TaskStatus
					for _, u := range n.plane.updates("1")[1:] { // after the claim
						got = u.Status
					}
					if got != tc.want {
						t.Errorf("reported %q, want %q", got, tc.want)
					}
					if kept := n.state("1") != ""; kept != tc.kept {
						t.Errorf("container kept: %v, want %v", kept, tc.kept)
					}
				})
			})
		}
	}
}

func TestATaskThatEndedWhileItWasToldToStopIsStopped(t *testing.T) {
	running(t, runtimefake.Program{Runs: 20 * time.Second}, func(n *node) {
		lift := n.plane.trouble(trouble{which: func(a asked) bool { return a.Method == "GET" }, times: -1, status: 500})
		n.plane.setStatus("1", protocol.StatusStopping)
		n.ends(time.Minute, "1", protocol.StatusStopped)
		lift()
		want := ending{protocol.StatusStopped, protocol.ReasonStopped, 0, false}
		if diff := cmp.Diff(want, endingOf(t, n.plane.updates("1", over...))); diff != "" {
			t.Error(diff)
		}
	})
}

func TestResultsOutliveAgents(t *testing.T) {
	cases := map[string]func(n *node){
		"with their container":    func(*node) {},
		"without their container": func(n *node) { n.daemon.Vanish("task-1") },
	}
	for name, meanwhile := range cases {
		t.Run(name, func(t *testing.T) {
			onNode(t, func(n *node) {
				lift := n.plane.trouble(trouble{which: reports, times: -1, status: 500})
				n.daemon.AddImage(image, runtimefake.Program{Code: 3})
				n.plane.add("1", image)
				n.until(5*time.Minute, "owed", func() bool { return n.logged("result not delivered") })
				n.stop()
				meanwhile(n)
				lift()
				n.start()
				n.ends(time.Minute, "1", protocol.StatusFailed)
				n.ranOnce(3)
			})
		})
	}
}

// What is owed beyond what the journal holds is read off the containers.
func TestMoreResultsThanTheJournalHoldsSurviveTheirAgent(t *testing.T) {
	const beyond = 10
	onNode(t, func(n *node) {
		n.policy.Attempts, n.workers = 1, 64
		n.restart()
		lift := n.plane.trouble(trouble{which: reports, times: -1, status: 503})
		n.daemon.AddImage(image, runtimefake.Program{Code: 3})
		ids := make([]string, journal.DefaultMax+beyond)
		for i := range ids {
			ids[i] = fmt.Sprint("t", i)
			n.plane.add(ids[i], image)
		}
		n.until(2*time.Hour, "all owed, and what is not stored told", func() bool {
			return n.agent.executor.Undelivered() == journal.DefaultMax && n.logs.FilterMessageSnippet("result could not be stored").Len() == beyond
		})
		n.kill()
		lift()
		n.start()
		for _, id := range ids {
			n.ends(time.Hour, id, protocol.StatusFailed)
			if u := n.plane.updates(id, over...); len(u) != 1 || *u[0].ExitCode != 3 {
				t.Errorf("%s: reported %+v", id, u)
			}
		}
	})
}

func TestWhatIsOwedWaitsForTheRuntimeOnlyIfItHasOutputToSendAlong(t *testing.T) {
	cases := map[string]struct {
		prepare func(n *node)
		waits   bool
	}{
		"a task that has run":     {func(n *node) { n.daemon.AddImage(image, runtimefake.Program{Code: 3, Output: "hello\n"}) }, true},
		"a task without an image": {func(*node) {}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			onNode(t, func(n *node) {
				tc.prepare(n)
				lift := n.plane.trouble(trouble{which: reports, times: -1, status: 500})
				n.plane.add("1", image)
				n.until(5*time.Minute, "owed", func() bool { return n.logged("result not delivered") })
				n.daemon.Stop()
				time.Sleep(10 * time.Second) // it is noticed
				lift()
				time.Sleep(5 * time.Minute)
				if reported := n.plane.status("1") == protocol.StatusFailed; reported == tc.waits {
					t.Errorf("reported while the runtime is away: %v", reported)
				}
				n.daemon.Resume()
				n.ends(3*time.Minute, "1", protocol.StatusFailed)
				if all := n.plane.updates("1", over...); len(all) != 1 || tc.waits && all[0].LogTail != "hello\n" {
					t.Errorf("reported %+v", all)
				}
			})
		})
	}
}

func TestAResultOfAnEarlierRunIsNotReportedForAContainerThatRunsAgain(t *testing.T) {
	running(t, runtimefake.Program{Forever: true}, func(n *node) {
		n.stop()
		n.leaveResult(executor.Result{TaskID: "1", Generation: 1, ContainerID: n.daemon.Containers()[0].ID, Reason: protocol.ReasonExited, ExitCode: new(143)})
		n.start()
		time.Sleep(10 * time.Minute)
		if tries := n.plane.asks(reports); len(tries) != 0 || n.state("1") != runtime.StateRunning {
			t.Errorf("reported: %+v, it is %s", tries, n.state("1"))
		}
	})
}

// leaveResult puts a result into the journal, as a disk does that took it and then refused
// to let it go.
func (n *node) leaveResult(r executor.Result) {
	n.t.Helper()
	j, err := journal.Open(n.dir, journal.Options{})
	if err != nil {
		n.t.Fatal(err)
	}
	results, err := journal.NewCollection[executor.Result](j, journal.Results, journal.Limits[executor.Result]{})
	if err != nil {
		n.t.Fatal(err)
	}
	if err := errors.Join(results.Put(r.TaskID, r), j.Close()); err != nil {
		n.t.Fatal(err)
	}
}
