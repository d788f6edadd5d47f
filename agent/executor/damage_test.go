package executor_test

import (
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime/runtimefake"
)

// damage does something to each record of the journal and returns how many there were.
func (n *node) damage(do func(path string, data []byte) error) (records int) {
	n.t.Helper()
	err := filepath.WalkDir(n.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".json") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		records++
		return do(path, data)
	})
	if err != nil {
		n.t.Fatal(err)
	}
	return records
}

// write is what a disk makes of a record.
func write(change func(data []byte) []byte) func(string, []byte) error {
	return func(path string, data []byte) error { return os.WriteFile(path, change(data), 0o600) }
}

// What the journal lost is read off the containers and their labels.
func TestDamagedRecordsCostNoTaskAndNoResult(t *testing.T) {
	kept := func(data []byte, part float64) []byte { return data[:int(float64(len(data))*part)] }
	damages := map[string]struct {
		do    func(path string, data []byte) error
		aside bool // they are kept as evidence
	}{
		"empty":            {write(func([]byte) []byte { return nil }), true},
		"cut at a third":   {write(func(data []byte) []byte { return kept(data, 0.3) }), true},
		"cut at the end":   {write(func(data []byte) []byte { return kept(data, 0.99) }), true},
		"a block of zeros": {write(func(data []byte) []byte { return make([]byte, len(data)) }), true},
		"noise": {write(func(data []byte) []byte {
			noise := rand.New(rand.NewPCG(1, uint64(len(data)))) // the same in each run
			for i := range data {
				data[i] = byte(noise.Uint32())
			}
			return data
		}), true},
		"gone": {func(path string, _ []byte) error { return os.Remove(path) }, false},
	}
	moments := map[string]func(n *node){
		"while the task runs": func(*node) {},
		"while its result is owed": func(n *node) {
			lift := n.plane.trouble(trouble{which: reports, times: -1, status: 503})
			n.until(20*time.Minute, "owed", func() bool { return n.agent.executor.Undelivered() == 1 })
			lift()
		},
	}
	for damage, d := range damages {
		for moment, reach := range moments {
			t.Run(damage+" "+moment, func(t *testing.T) {
				running(t, runtimefake.Program{Runs: 10 * time.Minute, Code: 3}, func(n *node) {
					reach(n)
					n.kill()
					records := n.damage(d.do)
					n.start()
					if aside := len(n.agent.journal.Quarantined()); records == 0 || d.aside && aside != records || !d.aside && aside != 0 {
						t.Errorf("%d records, %d set aside", records, aside)
					}
					n.ends(20*time.Minute, "1", protocol.StatusFailed)
					n.ranOnce(3)
				})
			})
		}
	}
}
