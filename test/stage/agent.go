// Package stage sets up on one machine what a task needs to run end to end: a control
// plane, a registry with the workload's image, and an agent as a process of its own that
// can be stopped, killed and started again. End-to-end tests and the demo play on it.
//
// The processes and servers it starts are stopped by whoever started them; it leaves
// containers to the agent, and RemoveContainers takes away what a failed play left.
package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/heteroflow/node-agent/runtime/containerd"
)

// Agent is one agent's configuration and, while it runs, its process.
type Agent struct {
	Binary string // path of heteroflow-agent
	Dir    string // its state directory, key file and log lie here
	Server string // base URL of the control plane
	NodeID string
	Set    []string // more settings, KEY=VALUE
	Env    []string // more environment

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has been reaped
	err  error
}

// KeyFile is where the agent reads the system key.
func (a *Agent) KeyFile() string { return filepath.Join(a.Dir, "agent.key") }

// StateDir is the agent's state directory.
func (a *Agent) StateDir() string { return filepath.Join(a.Dir, "state") }

// LogFile is where the agent's log goes; starts append to it.
func (a *Agent) LogFile() string { return filepath.Join(a.Dir, "agent.log") }

// WriteKey puts the system key where the agent reads it.
func (a *Agent) WriteKey(key string) error {
	return os.WriteFile(a.KeyFile(), []byte(key+"\n"), 0o600)
}

// Start starts the process.
func (a *Agent) Start(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cmd != nil {
		return errors.New("the agent runs already")
	}
	log, err := os.OpenFile(a.LogFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	args := []string{"run"}
	for _, kv := range append([]string{
		"server.url=" + a.Server, "server.key_file=" + a.KeyFile(), "node.id=" + a.NodeID, "state_dir=" + a.StateDir(),
	}, a.Set...) {
		args = append(args, "--set", kv)
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), a.Binary, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, a.Env...)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start agent: %w", err)
	}
	a.cmd, a.done = cmd, make(chan struct{})
	go func(done chan struct{}) {
		err := cmd.Wait()
		a.mu.Lock()
		a.err = err
		a.mu.Unlock()
		close(done)
	}(a.done)
	return nil
}

// PID is the process, 0 when there is none.
func (a *Agent) PID() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cmd == nil {
		return 0
	}
	return a.cmd.Process.Pid
}

// Stop asks the process to stop and waits for that. Its error is that of the process.
func (a *Agent) Stop() error { return a.end(syscall.SIGTERM) }

// Kill kills the process without warning and waits until it is gone.
func (a *Agent) Kill() {
	_ = a.end(syscall.SIGKILL) // "signal: killed" is what was asked for
}

// stopLimit is longer than the agent's own shutdown_timeout.
const stopLimit = 30 * time.Second

func (a *Agent) end(sig syscall.Signal) error {
	a.mu.Lock()
	cmd, done := a.cmd, a.done
	a.mu.Unlock()
	if cmd == nil {
		return nil
	}
	if err := cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-done:
	case <-time.After(stopLimit):
		return fmt.Errorf("the agent did not end within %v of %v", stopLimit, sig)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cmd = nil
	return a.err
}

// Log is all the agent has logged so far.
func (a *Agent) Log() string {
	data, err := os.ReadFile(a.LogFile())
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// BuildAgent builds the agent's static binary into dir, and the log shim beside it, as they
// are installed. It needs the go command and a working directory inside this module. Tags
// are build tags.
func BuildAgent(ctx context.Context, dir string, tags ...string) (string, error) {
	agent := filepath.Join(dir, "heteroflow-agent")
	return agent, errors.Join(build(ctx, agent, tags...), BuildLogShim(ctx, dir))
}

// BuildLogShim builds the log shim alone into dir.
func BuildLogShim(ctx context.Context, dir string) error {
	return build(ctx, filepath.Join(dir, containerd.LogShim))
}

// build builds the command that has the file's name.
func build(ctx context.Context, file string, tags ...string) error {
	command := "github.com/heteroflow/node-agent/cmd/" + filepath.Base(file)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-tags", strings.Join(tags, ","), "-o", file, command)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", command, err, out.Bytes())
	}
	return nil
}
