package agent

import (
	"context"
	"fmt"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/agent/connector"
	"github.com/heteroflow/node-agent/agent/status"
	"github.com/heteroflow/node-agent/agent/taskcontainer"
	"github.com/heteroflow/node-agent/agent/wallclock"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
)

// The sources of a heartbeat. Each answers at once with what is known.

func (a *Agent) reportHost(ctx context.Context, hb *protocol.Heartbeat) {
	dirs := []string{a.cfg.StateDir}
	if root := a.connector.Status().Info.RootDir; root != "" {
		dirs = append(dirs, root)
	}
	hb.Host = a.host.Read(ctx, a.client.LocalAddr(), dirs)
}

func (a *Agent) reportRuntime(_ context.Context, hb *protocol.Heartbeat) {
	status := a.connector.Status()
	hb.DockerAvailable = status.Available
	hb.ExecMode = execMode(status)
	if status.Name == "" {
		return // not looked at yet
	}
	hb.Runtime = &protocol.RuntimeReport{
		Name: string(status.Name), Version: status.Info.Version, Available: status.Available, CDI: status.Info.CDI, Why: status.Why,
	}
	if status.Err != nil {
		hb.Runtime.Error = status.Err.Error()
		hb.ErrorMessage = fmt.Sprintf("container runtime %s does not answer: %v", status.Name, status.Err)
	}
	if status.Available {
		hb.LiveTaskIDs = live(status.Containers)
	}
}

func execMode(status connector.Status) protocol.ExecMode {
	switch {
	case !status.Available:
		return protocol.ExecBareMetal
	case status.Name == runtime.Containerd:
		return protocol.ExecContainerd
	default:
		return protocol.ExecDocker
	}
}

// live are the tasks whose container was seen running; empty, not nil, when none was.
func live(containers []runtime.Container) []string {
	ids := []string{}
	for _, c := range containers {
		if c.State == runtime.StateRunning {
			ids = append(ids, c.Labels[taskcontainer.LabelTaskID])
		}
	}
	return ids
}

func (a *Agent) reportGPUs(_ context.Context, hb *protocol.Heartbeat) {
	hb.GPUReport = a.gpus.Report()
}

func (a *Agent) reportWork(_ context.Context, hb *protocol.Heartbeat) {
	if hb.DrainedBy = a.drain.Look(); len(hb.DrainedBy) > 0 {
		hb.State = protocol.NodeDraining
	}
	hb.TaskHealth = a.executor.Health()
	hb.Pulls = a.executor.Puller.Running()
	hb.UndeliveredResults = new(a.executor.Undelivered())
	if hb.ErrorMessage == "" {
		hb.ErrorMessage = a.trouble()
	}
}

// trouble is what the operator has to see to, the most pressing alone; empty: nothing.
func (a *Agent) trouble() string {
	if unsaved := a.journal.Unsaved(); unsaved > 0 {
		return fmt.Sprintf("%d records cannot be written to the state directory: they would not survive a restart", unsaved)
	}
	if a.statusErr != nil {
		return fmt.Sprintf("the state directory cannot be written: %v", a.statusErr)
	}
	if trouble := a.executor.Trouble(); trouble != "" {
		return trouble
	}
	if aside := a.journal.Foreign(); aside != "" {
		return "the state directory was another machine's (a cloned disk?), and its state was set aside at this agent's start: " + aside
	}
	if aside := a.journal.Quarantined(); len(aside) > 0 {
		return fmt.Sprintf("%d files of the state directory could not be read and were set aside at this agent's start; the first is %s: %s",
			len(aside), aside[0].Path, aside[0].Reason)
	}
	return ""
}

// leaveStatus writes down for the status command what became of a heartbeat.
func (a *Agent) leaveStatus(hb protocol.Heartbeat, err error) {
	now := status.Status{
		WrittenAt: wallclock.Now().UTC(), PID: os.Getpid(), Server: a.cfg.Server.URL,
		Period: a.cfg.Heartbeat.Period, Unauthorized: a.client.Unauthorized(), Heartbeat: hb,
	}
	if err != nil {
		now.Error = err.Error()
	} else {
		a.contact = time.Now()
	}
	if !a.contact.IsZero() {
		now.LastContact = new(now.WrittenAt.Add(-time.Since(a.contact))) // also if the clock was set since
	}
	before := a.statusErr
	a.statusErr = status.Write(a.cfg.StateDir, now)
	if a.statusErr != nil && before == nil {
		a.log.Warn("the status command cannot tell how this agent is", zap.Error(a.statusErr))
	}
}
