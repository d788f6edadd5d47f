package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/heteroflow/node-agent/devserver/operator"
	"github.com/heteroflow/node-agent/protocol"
)

// part is one task of the show and how it is to end.
type part struct {
	task     protocol.Task
	status   protocol.TaskStatus
	reason   protocol.Reason
	exitCode int
	output   string // what its log tail must hold

	seen   int // events of its timeline already printed
	health protocol.HealthState
	done   bool
}

func (s *show) parts() []*part {
	auth := s.images.Auth()
	return []*part{
		{
			task: protocol.Task{
				ID: "demo-train", Type: protocol.TaskTraining, NodeID: nodeID, Image: s.images.Workload, RegistryAuth: auth,
				Args:    []string{"train", "--steps", "5", "--step-time", "400ms"},
				Volumes: []protocol.Volume{{HostPath: s.data, ContainerPath: "/checkpoint"}},
				Network: protocol.NetworkNone, MemoryBytes: 64 << 20,
			},
			status: protocol.StatusCompleted, reason: protocol.ReasonExited, exitCode: 0, output: "step 5",
		},
		{
			task: protocol.Task{
				ID: "demo-serve", Type: protocol.TaskInference, NodeID: nodeID, Image: s.images.Workload, RegistryAuth: auth,
				Args:        []string{"serve", "--port", "8000"},
				HealthCheck: &protocol.HealthCheck{Type: protocol.HealthHTTP, Path: "/health", Port: 8000, IntervalSeconds: 1},
			},
			status: protocol.StatusStopped, reason: protocol.ReasonStopped, exitCode: 0,
		},
		{
			task: protocol.Task{
				ID: "demo-fail", Type: protocol.TaskBatch, NodeID: nodeID, Image: s.images.Workload, RegistryAuth: auth,
				Args: []string{"exit", "--message", "this one was meant to fail", "3"}, Network: protocol.NetworkNone,
			},
			status: protocol.StatusFailed, reason: protocol.ReasonExited, exitCode: 3, output: "meant to fail",
		},
	}
}

// act registers the node, submits the tasks and follows them to their ends.
func (s *show) act(ctx context.Context) error {
	if err := until(ctx, "the node has registered with a working runtime", s.registered); err != nil {
		return err
	}
	parts := s.parts()
	for _, p := range parts {
		s.say(p.task.ID, "submitted: "+strings.Join(p.task.Args, " "))
		if _, err := s.operator.CreateTask(ctx, p.task); err != nil {
			return fmt.Errorf("submit %s: %w", p.task.ID, err)
		}
	}
	if err := until(ctx, "every task has ended", func(ctx context.Context) (bool, error) { return s.follow(ctx, parts) }); err != nil {
		return err
	}
	return s.judge(ctx, parts)
}

func (s *show) registered(ctx context.Context) (bool, error) {
	hb, ok := s.heartbeat(ctx)
	if !ok || !hb.DockerAvailable {
		return false, nil
	}
	s.say(nodeID, fmt.Sprintf("registered by its first heartbeat: %s %s, %d cores", hb.Runtime.Name, hb.Runtime.Version, *hb.CPUCores))
	return true, nil
}

// heartbeat is the node's last heartbeat, if there has been one.
func (s *show) heartbeat(ctx context.Context) (protocol.Heartbeat, bool) {
	var hb protocol.Heartbeat
	node, err := s.operator.Node(ctx, nodeID)
	if err != nil || json.Unmarshal(node.Heartbeat, &hb) != nil {
		return hb, false
	}
	return hb, true
}

// follow prints what is new of each task and stops the service once it is healthy. It
// reports whether all have ended.
func (s *show) follow(ctx context.Context, parts []*part) (bool, error) {
	hb, _ := s.heartbeat(ctx)
	all := true
	for _, p := range parts {
		events, err := s.operator.History(ctx, p.task.ID)
		if err != nil {
			return false, err
		}
		for _, e := range events[p.seen:] {
			s.sayAt(e.At, p.task.ID, describe(e))
			p.done = e.To.Terminal()
		}
		p.seen = len(events)
		all = all && p.done
		if err := s.followHealth(ctx, p, hb.TaskHealth); err != nil {
			return false, err
		}
	}
	return all, nil
}

func (s *show) followHealth(ctx context.Context, p *part, health []protocol.TaskHealth) error {
	i := slices.IndexFunc(health, func(h protocol.TaskHealth) bool { return h.TaskID == p.task.ID })
	if i < 0 || health[i].State == p.health || p.done {
		return nil
	}
	p.health = health[i].State
	s.say(p.task.ID, "health: "+string(p.health))
	if p.health != protocol.HealthHealthy {
		return nil
	}
	s.say(p.task.ID, "it answers; the operator stops it")
	_, err := s.operator.Act(ctx, p.task.ID, operator.ActionStop)
	return err
}

func describe(e operator.Event) string {
	if e.From == "" {
		return string(e.To)
	}
	step := fmt.Sprintf("%s → %s", e.From, e.To)
	if e.Reason != "" {
		step += " (" + string(e.Reason) + ")"
	}
	return step
}

// judge compares how the tasks ended with how they should have.
func (s *show) judge(ctx context.Context, parts []*part) error {
	fmt.Printf("\n%-11s %-10s %-8s %9s  %s\n", "task", "status", "reason", "exit code", "last line of output")
	for _, p := range parts {
		got, err := s.operator.Task(ctx, p.task.ID)
		if err != nil {
			return err
		}
		o := got.Outcome
		lines := strings.Split(strings.TrimSpace(o.LogTail), "\n")
		if o.ExitCode == nil {
			return fmt.Errorf("%s has no exit code", p.task.ID)
		}
		fmt.Printf("%-11s %-10s %-8s %9d  %s\n", p.task.ID, got.Status, o.Reason, *o.ExitCode, lines[len(lines)-1])
		if got.Status != p.status || o.Reason != p.reason || *o.ExitCode != p.exitCode || !strings.Contains(o.LogTail, p.output) {
			return fmt.Errorf("%s: want %s, %s, exit code %d and %q in its output", p.task.ID, p.status, p.reason, p.exitCode, p.output)
		}
	}
	return s.cleared(ctx)
}

// cleared checks what is left before the stage is taken down: the training's checkpoints,
// and nothing else.
func (s *show) cleared(ctx context.Context) error {
	saved, err := filepath.Glob(filepath.Join(s.data, "step-*"))
	if err != nil {
		return err
	}
	if len(saved) == 0 {
		return errors.New("the training left no checkpoint in its volume")
	}
	return until(ctx, "the agent has removed every container and owes nothing", func(ctx context.Context) (bool, error) {
		hb, ok := s.heartbeat(ctx)
		if !ok || len(hb.LiveTaskIDs) > 0 || hb.UndeliveredResults == nil || *hb.UndeliveredResults > 0 {
			return false, nil
		}
		// A task leaves the journal once its container is gone.
		records, err := os.ReadDir(filepath.Join(s.agent.StateDir(), "tasks"))
		return len(records) == 0, err
	})
}
