package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// Process is one daemon.
type Process struct {
	name string
	args []string
	log  string // file
	ping func(context.Context) error

	cmd  *exec.Cmd // nil: none runs
	done chan struct{}
}

// answerLimit is how long a daemon may take to answer on a busy machine.
const answerLimit = 2 * time.Minute

// Start starts the daemon, for the first time or after a kill, and waits for its answer.
func (p *Process) Start(ctx context.Context) error {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.CommandContext(context.WithoutCancel(ctx), p.args[0], p.args[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	p.cmd, p.done = cmd, make(chan struct{})
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // whoever ended it knows how
	}()
	return p.await(ctx)
}

func (p *Process) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := p.ping(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.done:
			p.cmd = nil
			return fmt.Errorf("%s ended before it answered; its log ends with:\n%s", p.name, p.lastWords())
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w; its log ends with:\n%s", p.name, err, p.lastWords())
		}
	}
}

func (p *Process) lastWords() []byte {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return []byte(err.Error())
	}
	return data[max(0, len(data)-4000):]
}

// Kill ends the daemon as a crash does; what it runs goes on.
func (p *Process) Kill() error { return p.end(syscall.SIGKILL) }

// Hang stops the daemon from doing anything, without ending it, until Resume.
func (p *Process) Hang() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume lets a daemon that hangs go on.
func (p *Process) Resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// stopLimit is how long a daemon may take to stop.
const stopLimit = time.Minute

func (p *Process) end(s syscall.Signal) error {
	if p.cmd == nil {
		return nil
	}
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("end %s: %w", p.name, err)
	}
	select {
	case <-p.done:
	case <-time.After(stopLimit):
		return fmt.Errorf("%s did not end within %v of %v", p.name, stopLimit, s)
	}
	p.cmd = nil
	return nil
}

func (p *Process) stop() error {
	if p.cmd == nil {
		return nil
	}
	return errors.Join(p.Resume(), p.end(syscall.SIGTERM))
}

func look(programs ...string) error {
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			return err
		}
	}
	return nil
}

func logFile(dir, name string) string { return filepath.Join(dir, name+".log") }
