package executor_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime/runtimefake"
)

// lists are the requests for several tasks.
func lists(a asked) bool { return a.Method == http.MethodGet && a.Path == protocol.TasksPath }

// Each is told once, as by the wake channel, and what it was told to do goes wrong.
func TestWhatAFailedRoundWasToFindIsFoundSoonThoughItIsNotToldOfAgain(t *testing.T) {
	once := func(which func(asked) bool) func(*node) {
		return func(n *node) { n.plane.trouble(trouble{which: which, times: 1, status: http.StatusServiceUnavailable}) }
	}
	cases := map[string]struct {
		trouble func(n *node)
		over    func(n *node)
	}{
		"the list fails":        {once(lists), nil},
		"what follows it fails": {once(func(a asked) bool { return a.Method == http.MethodPut }), nil},
		"the runtime was away":  {func(n *node) { n.daemon.Stop(); time.Sleep(15 * time.Second) }, func(n *node) { time.Sleep(time.Second); n.daemon.Resume() }},
		"nothing is in its way": {func(*node) {}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for kind, round := range map[string]struct{ want, kick func(n *node) }{
				"a new task": {
					func(n *node) { n.plane.add("2", image) },
					func(n *node) { n.agent.executor.PollTasks() },
				},
				"a stop": {
					func(n *node) { n.plane.setStatus("1", protocol.StatusStopping) },
					func(n *node) { n.agent.executor.PollIntents() },
				},
			} {
				t.Run(kind, func(t *testing.T) {
					running(t, runtimefake.Program{Forever: true}, func(n *node) {
						n.relaxed.Store(true)
						time.Sleep(10 * time.Second) // the next round of each loop is a minute away
						tc.trouble(n)
						round.want(n)
						round.kick(n)
						if tc.over != nil {
							tc.over(n)
						}
						n.until(20*time.Second, "it is done", func() bool {
							return n.plane.status("1") == protocol.StatusStopped || n.plane.status("2") == protocol.StatusRunning
						})
					})
				})
			}
		})
	}
}
