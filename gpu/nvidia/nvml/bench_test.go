package nvml

import (
	"bytes"
	"os"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/heteroflow/node-agent/gpu/nvidia"
	"github.com/heteroflow/node-agent/gpu/tool"
	"github.com/heteroflow/node-agent/test/fakenvml"
)

// BenchmarkCollectOf8Cards is a heartbeat's round through the helper. The
// processor time is the agent's and the helper's together; the simulated library
// reads a file in each round, the real one asks the driver.
func BenchmarkCollectOf8Cards(b *testing.B) {
	lib := fakenvml.Build(b)
	lib.Set("cards 8")
	c := client(b, lib)
	d := nvidia.New(tool.NewReplay(), c)
	if rep, err := d.Collect(b.Context()); err != nil || len(rep.Devices) != 8 {
		b.Fatal(len(rep.Devices), err)
	}
	before := processorTime(b, c)
	for b.Loop() {
		if rep, err := d.Collect(b.Context()); err != nil || len(rep.Devices) != 8 {
			b.Fatal(len(rep.Devices), err)
		}
	}
	b.ReportMetric((processorTime(b, c)-before).Seconds()*1000/float64(b.N), "cpu-ms/op")
}

// processorTime is what this process and the helper have used.
func processorTime(b *testing.B, c *Client) time.Duration {
	b.Helper()
	var self unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &self); err != nil {
		b.Fatal(err)
	}
	total := time.Duration(self.Utime.Nano() + self.Stime.Nano())
	tasks := "/proc/" + strconv.Itoa(c.session.proc.PID()) + "/task"
	threads, err := os.ReadDir(tasks)
	if err != nil {
		b.Fatal(err)
	}
	for _, thread := range threads {
		raw, err := os.ReadFile(tasks + "/" + thread.Name() + "/schedstat")
		if err != nil {
			b.Fatal(err)
		}
		ran, err := strconv.ParseInt(string(bytes.Fields(raw)[0]), 10, 64) // nanoseconds on a processor
		if err != nil {
			b.Fatal(err)
		}
		total += time.Duration(ran)
	}
	return total
}
