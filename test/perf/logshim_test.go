package perf

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/heteroflow/node-agent/runtime/containerd"
	"github.com/heteroflow/node-agent/runtime/containerd/logshim"
	"github.com/heteroflow/node-agent/runtime/containerd/record"
)

// BenchmarkLogShim starts each log shim there is in turn, as containerd's shim does for each
// task, which waits for its first byte before it creates the task, and ends it. The metrics
// are medians: the wait, the CPU time of its whole life, and the memory that is its own, not
// shared with other processes of the binary.
func BenchmarkLogShim(b *testing.B) {
	agent := agentBinary(b)
	shims := []struct{ name, binary string }{{containerd.LogShim, logShim(agent)}, {agentAlone, agent}}
	before := conditions()
	lives := map[string][]logShimLife{}
	for round := 0; b.Loop(); round++ {
		for i := range shims {
			s := shims[(round+i)%len(shims)]
			life, err := runLogShim(b, s.binary)
			if err != nil {
				b.Fatal(err)
			}
			lives[s.name] = append(lives[s.name], life)
		}
	}
	rows := [][]string{{"log shim", "until its first byte, ms", "CPU, ms", "own memory, MiB"}, {"---", "---", "---", "---"}}
	for _, s := range shims {
		var waits, cpu []time.Duration
		var memory []int
		for _, life := range lives[s.name] {
			waits, cpu, memory = append(waits, life.wait), append(cpu, life.cpu), append(memory, life.kilobytes)
		}
		slices.Sort(memory)
		own := float64(memory[len(memory)/2]) / 1024
		b.ReportMetric(milliseconds(median(waits)), s.name+"-ready-ms")
		b.ReportMetric(milliseconds(median(cpu)), s.name+"-cpu-ms")
		b.ReportMetric(own, s.name+"-own-MiB")
		rows = append(rows, []string{s.name, spread(waits), spread(cpu), fmt.Sprintf("%.1f", own)})
	}
	b.ReportMetric(0, "ns/op")
	writeTable(b.Output(), rows)
	fmt.Fprintf(b.Output(), "from %s\nto %s\n", before, conditions())
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

	dir := record.Dir(b.TempDir())
	if err := dir.Begin(record.Run{ID: "perf", LogMaxBytes: 1 << 20, LogMaxFiles: 2}); err != nil {
		return life, errors.Join(err, task.Close(), shim.Close())
	}
	cmd := exec.CommandContext(b.Context(), binary, logshim.Command, string(dir))
	cmd.Env = []string{"CONTAINER_ID=perf"}
	cmd.ExtraFiles = []*os.File{output, output, shim}
	began := time.Now()
	err = errors.Join(cmd.Start(), shim.Close())
	if err != nil {
		return life, errors.Join(err, task.Close())
	}
	_, readErr := ready.Read(make([]byte, 1))
	life.wait = time.Since(began)
	// When it has written the task's output it is as it will be while the task runs.
	_, writeErr := task.WriteString("output\n")
	err = awaitOutput(b.Context(), dir.Logs())
	if err == nil {
		life.kilobytes, err = ownMemory(cmd.Process.Pid)
	}
	// Closing the pipe is the task's end, and so the log shim's.
	err = errors.Join(readErr, writeErr, err, task.Close(), cmd.Wait())
	life.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return life, err
}

func awaitOutput(ctx context.Context, file string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for {
		if info, err := os.Stat(file); err == nil && info.Size() > 0 {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for output in %s: %w", file, ctx.Err())
		}
	}
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
