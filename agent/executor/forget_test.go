package executor_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/heteroflow/node-agent/agent/executor"
	"github.com/heteroflow/node-agent/agent/journal"
	"github.com/heteroflow/node-agent/protocol"
)

func TestARecordIsKeptUntilItsTaskIsKnownToBeOver(t *testing.T) {
	for name, c := range map[string]struct {
		plane func(p *plane)
		kept  bool
	}{
		"of a task that is over": {func(p *plane) {
			p.add("1", image, func(t *protocol.Task) { t.Status = protocol.StatusCompleted })
		}, false},
		"of a task that was deleted":       {func(*plane) {}, false},
		"of a task that is another node's": {func(p *plane) { p.add("1", image, func(t *protocol.Task) { t.NodeID = "node-2" }) }, false},
		"of a task that sleeps": {func(p *plane) {
			p.add("1", image, func(t *protocol.Task) { t.Status = protocol.StatusAsleep })
		}, true},
		"of a task in a status that is not known": {func(p *plane) {
			p.add("1", image, func(t *protocol.Task) { t.Status = "frozen" })
		}, true},
		"while the control plane does not say": {func(p *plane) { p.trouble(trouble{which: reads("1"), times: -1, status: 500}) }, true},
		"while a proxy answers":                {func(p *plane) { p.trouble(trouble{which: reads("1"), times: -1, status: 404, html: true}) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			onNode(t, func(n *node) {
				n.stop()
				n.leaveRecord("1", executor.Record{Generation: 1, Started: true})
				c.plane(n.plane)
				n.start()
				time.Sleep(5 * time.Minute)
				_, err := os.Stat(filepath.Join(n.dir, string(journal.Tasks), "1.json"))
				if kept := err == nil; kept != c.kept {
					t.Errorf("kept: %v, want %v", kept, c.kept)
				}
			})
		})
	}
}

// leaveRecord leaves what an agent does that dies before it drops the record.
func (n *node) leaveRecord(id string, r executor.Record) {
	n.t.Helper()
	j, err := journal.Open(n.dir, journal.Options{})
	if err != nil {
		n.t.Fatal(err)
	}
	records, err := journal.NewCollection[executor.Record](j, journal.Tasks, journal.Limits[executor.Record]{})
	if err == nil {
		err = records.Put(id, r)
	}
	if err != nil {
		n.t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		n.t.Fatal(err)
	}
}
