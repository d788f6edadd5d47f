package executor_test

import (
	"sync"
	"testing"
	"time"

	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime/runtimefake"
)

func TestAClaimThatSomebodyElseWonStartsNothing(t *testing.T) {
	cases := map[string]func(*protocol.Task){
		"it was withdrawn":             func(t *protocol.Task) { t.Status = protocol.StatusCancelled },
		"it was given to another node": func(t *protocol.Task) { t.NodeID = "node-2" },
		"it was assigned anew":         func(t *protocol.Task) { t.Generation, t.NodeID = 2, "node-2" },
	}
	for name, change := range cases {
		for _, bare := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				onNode(t, func(n *node) {
					n.daemon.AddImage(image, runtimefake.Program{Forever: true})
					n.plane.answers(bare, nil)
					var once sync.Once
					n.atMoments(func() { // the first of which is the claim
						if n.plane.status("1") == protocol.StatusScheduled {
							once.Do(func() { n.plane.set("1", change) })
						}
					})
					n.plane.add("1", image)
					time.Sleep(10 * time.Minute)
					if made, claimed := n.daemon.Made(), len(n.plane.updates("1")); made != 0 || claimed != 0 {
						t.Errorf("%d containers, %d claims", made, claimed)
					}
					if n.agent.executor.Owns("1") || len(n.plane.asks(claims)) != 1 {
						t.Errorf("owned: %v, %d claims", n.agent.executor.Owns("1"), len(n.plane.asks(claims)))
					}
				})
			})
		}
	}
}

func TestAClaimWhoseAnswerIsLostIsTakenUpOnce(t *testing.T) {
	cases := map[string]struct {
		which   trouble
		restart bool
	}{
		"by the same agent":  {trouble{times: 1, applied: true}, false},
		"by the next agent":  {trouble{times: 1, applied: true}, true},
		"when it never came": {trouble{times: 1}, false},
		"when a proxy spoke": {trouble{times: 1, status: 502, html: true}, false},
		"when it was a 500":  {trouble{times: 1, status: 500}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			onNode(t, func(n *node) {
				n.daemon.AddImage(image, runtimefake.Program{Runs: time.Minute, Code: 3})
				tc.which.which = claims
				n.plane.trouble(tc.which)
				n.plane.add("1", image)
				n.until(time.Minute, "claimed", func() bool { return len(n.plane.asks(claims)) > 0 })
				if tc.restart {
					time.Sleep(time.Second)
					n.restart()
				}
				n.ends(5*time.Minute, "1", protocol.StatusFailed)
				n.ranOnce(3)
			})
		})
	}
}

func TestAClaimThatAProxySentTwiceIsThisNodes(t *testing.T) {
	for name, bare := range map[string]bool{"told in the answer": false, "asked for": true} {
		t.Run(name, func(t *testing.T) {
			onNode(t, func(n *node) {
				n.daemon.AddImage(image, runtimefake.Program{Runs: time.Minute, Code: 3})
				n.plane.answers(bare, claims)
				n.plane.add("1", image)
				n.ends(3*time.Minute, "1", protocol.StatusFailed)
				n.ranOnce(3)
			})
		})
	}
}

func TestAClaimRefusedForItsKeyIsForgotten(t *testing.T) {
	onNode(t, func(n *node) {
		n.daemon.AddImage(image, runtimefake.Program{})
		n.plane.trouble(trouble{which: claims, times: 3, status: 403})
		n.plane.add("1", image)
		n.ends(5*time.Minute, "1", protocol.StatusCompleted)
		if n := len(n.plane.asks(claims)); n != 4 {
			t.Errorf("%d claims", n)
		}
	})
}
