package perf

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/heteroflow/node-agent/runtime/containerd/logshim"
)

// BenchmarkLogShim starts the log shim as containerd's shim does for each task, which
// waits for its first byte before it creates the task, and ends it. The metrics are
// medians: the wait, the CPU time of its whole life, and the memory that is its own, not
// shared with other processes of the binary.
func BenchmarkLogShim(b *testing.B) {
	binary := agentBinary(b)
	var waits, cpu []time.Duration
	var memory []int
	for b.Loop() {
		life, err := runLogShim(b, binary)
		if err != nil {
			b.Fatal(err)
		}
		waits, cpu, memory = append(waits, life.wait), append(cpu, life.cpu), append(memory, life.kilobytes)
	}
	slices.Sort(memory)
	b.ReportMetric(milliseconds(median(waits)), "ready-ms")
	b.ReportMetric(milliseconds(median(cpu)), "cpu-ms")
	b.ReportMetric(float64(memory[len(memory)/2])/1024, "own-MiB")
	b.ReportMetric(0, "ns/op")
	fmt.Fprintln(b.Output(), conditions())
}

type logShimLife struct {
	wait, cpu time.Duration
	kilobytes int
}

func runLogShim(b *testing.B, binary string) (life logShimLife, err error) {
	b.Helper()
	output, task, err := os.Pipe()
	if err != nil {
		return life, err
	}
	defer output.Close()
	ready, shim, err := os.Pipe()
	if err != nil {
		return life, errors.Join(err, task.Close())
	}
	defer ready.Close()

	cmd := exec.CommandContext(b.Context(), binary, logshim.Command, b.TempDir())
	cmd.Env = []string{"CONTAINER_ID=perf"}
	cmd.ExtraFiles = []*os.File{output, output, shim}
	began := time.Now()
	err = errors.Join(cmd.Start(), shim.Close())
	if err != nil {
		return life, errors.Join(err, task.Close())
	}
	_, readErr := ready.Read(make([]byte, 1))
	life.wait = time.Since(began)
	life.kilobytes, err = ownMemory(cmd.Process.Pid)
	// Closing the pipe is the task's end, and so the log shim's.
	err = errors.Join(readErr, err, task.Close(), cmd.Wait())
	life.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return life, err
}

func ownMemory(pid int) (kilobytes int, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if n, err := fmt.Sscanf(line, "RssAnon: %d kB", &kilobytes); n == 1 {
			return kilobytes, err
		}
	}
	return 0, fmt.Errorf("process %d: /proc has no RssAnon", pid)
}
