package runtimefake

import (
	"time"

	"github.com/heteroflow/node-agent/runtime"
)

// Program is what the containers of an image do. The zero value ends at once with code 0.
type Program struct {
	Runs        time.Duration // until it ends by itself
	Forever     bool          // it does not
	Code        int           // its exit code
	OOMKilled   bool          // the kernel killed a process of it for memory
	CodeLost    bool          // the runtime loses its exit code
	IgnoresTerm bool          // only SIGKILL ends it
	Unkillable  bool          // nothing does: its process is in uninterruptible sleep
	StartError  string        // it cannot be executed, for this reason
	Output      string        // what it prints, at once
	PID         int           // its process, which must exist if anybody looks into it; 0: an invented one
}

// container is a container and the program in it; its fields are guarded by Daemon.mu.
type container struct {
	id      string
	spec    runtime.Spec
	labels  map[string]string
	program Program
	created time.Time
	gone    chan struct{} // closed when it is removed

	running    bool
	pid        int
	started    time.Time
	exit       *runtime.Exit
	ended      chan struct{} // closed when the run ends; nil before the first
	timer      *time.Timer
	startError string
	output     string
	forced     runtime.State
}

// run starts the program.
func (d *Daemon) run(c *container) {
	c.running, c.pid, c.started, c.exit = true, 1000+len(d.starts), d.now(), nil
	if c.program.PID != 0 {
		c.pid = c.program.PID
	}
	c.ended = make(chan struct{})
	c.output += c.program.Output
	d.starts = append(d.starts, Start{ID: c.id, Name: c.spec.Name, Labels: c.labels, At: c.started})
	if c.program.Forever || c.program.Unkillable {
		return
	}
	run := c.ended
	c.timer = time.AfterFunc(c.program.Runs, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if c.ended == run {
			c.end(d.ownExit(c))
		}
	})
}

// ownExit is how the program ends by itself.
func (d *Daemon) ownExit(c *container) runtime.Exit {
	exit := d.exitOf(c.program.Code, c.program.OOMKilled)
	if c.program.CodeLost {
		exit.Code = nil
	}
	return exit
}

func (d *Daemon) exitOf(code int, oom bool) runtime.Exit {
	return runtime.Exit{Code: &code, OOMKilled: oom, FinishedAt: d.now()}
}

// end ends the run, if there is one.
func (c *container) end(exit runtime.Exit) {
	if !c.running {
		return
	}
	if c.timer != nil {
		c.timer.Stop()
	}
	c.running, c.pid, c.exit = false, 0, &exit
	close(c.ended)
}

func (c *container) state() runtime.State {
	switch {
	case c.forced != "":
		return c.forced
	case c.running:
		return runtime.StateRunning
	case c.started.IsZero():
		return runtime.StateCreated
	default:
		return runtime.StateExited
	}
}

func (c *container) describe() runtime.Container {
	described := c.summary()
	described.StartedAt, described.PID, described.StartError = c.started, c.pid, c.startError
	if state := described.State; state == runtime.StateExited || state == runtime.StateDead {
		described.Exit = c.exit
	}
	return described
}

// summary is what List tells of the container.
func (c *container) summary() runtime.Container {
	return runtime.Container{
		ID: c.id, Name: c.spec.Name, Image: normal(c.spec.Image), Labels: c.labels,
		State: c.state(), CreatedAt: c.created,
	}
}
