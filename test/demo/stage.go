package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/heteroflow/node-agent/agent/taskcontainer"
	"github.com/heteroflow/node-agent/devserver/operator"
	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/test/image"
	"github.com/heteroflow/node-agent/test/stage"
)

const nodeID = "demo-node"

// show is everything the demo starts.
type show struct {
	runtime, bin string

	begun    time.Time
	dir      string // of keys, state and logs
	data     string // what the training task mounts
	images   *stage.Images
	plane    *exec.Cmd
	operator *operator.Client
	agent    *stage.Agent
	daemon   *stage.Daemon
}

// set starts registry, control plane and agent.
func (s *show) set(ctx context.Context) (err error) {
	s.begun = time.Now()
	if s.dir, err = os.MkdirTemp("", "heteroflow-demo-"); err != nil {
		return err
	}
	if s.data, err = os.MkdirTemp("/srv", "heteroflow-demo-"); err != nil {
		return fmt.Errorf("make the training task's directory: %w", err)
	}
	s.say("stage", "a private registry with the workload's image, built from scratch")
	if s.images, err = stage.StartImages(ctx, image.Options{}); err != nil {
		return err
	}
	if err := s.startPlane(ctx); err != nil {
		return err
	}
	binary, err := filepath.Abs(filepath.Join(s.bin, "heteroflow-agent"))
	if err != nil {
		return err
	}
	agent := &stage.Agent{Binary: binary, Dir: s.dir, Server: s.planeURL(), NodeID: nodeID}
	if s.daemon, err = stage.OpenDaemon(stage.Place{Kind: runtime.Name(s.runtime)}, agent); err != nil {
		return err
	}
	agent.Set = append(s.daemon.Settings, "tasks.workers=3", "volumes.allow="+s.data, "gpu.cdi_dir="+filepath.Join(s.dir, "cdi"))
	if err := agent.WriteKey(stage.SystemKey); err != nil {
		return err
	}
	s.agent = agent
	s.say("stage", "the agent, on "+s.runtime)
	return s.agent.Start(ctx)
}

// planeAddr is where the demo's control plane listens; a free port is found for it.
func (s *show) startPlane(ctx context.Context) error {
	probe, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	addr := probe.Addr().String()
	if err := probe.Close(); err != nil {
		return err
	}
	s.say("stage", "a control plane on http://"+addr)
	log, err := os.Create(filepath.Join(s.dir, "plane.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	s.plane = exec.CommandContext(context.WithoutCancel(ctx), filepath.Join(s.bin, "heteroflow-devserver"),
		"serve", "--production", "--listen", addr, "--database", filepath.Join(s.dir, "plane.db"))
	s.plane.Env = []string{"DEVSERVER_SYSTEM_KEY=" + stage.SystemKey, "DEVSERVER_OPERATOR_TOKEN=" + stage.OperatorToken}
	s.plane.Stdout, s.plane.Stderr = log, log
	if err := s.plane.Start(); err != nil {
		s.plane = nil
		return fmt.Errorf("start the control plane: %w", err)
	}
	s.operator = operator.NewClient("http://"+addr, stage.OperatorToken)
	return until(ctx, "the control plane answers", func(ctx context.Context) (bool, error) {
		_, err := s.operator.Nodes(ctx)
		return err == nil, nil
	})
}

func (s *show) planeURL() string { return "http://" + s.plane.Args[4] }

// clear stops everything and removes what was made, also when ctx has ended.
func (s *show) clear(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	var errs []error
	if s.agent != nil {
		errs = append(errs, s.agent.Stop())
	}
	if s.plane != nil {
		errs = append(errs, s.plane.Process.Signal(syscall.SIGTERM), s.plane.Wait())
	}
	if s.daemon != nil {
		errs = append(errs,
			s.daemon.RemoveContainers(ctx, taskcontainer.OwnLabels(nodeID)), s.daemon.Forget(ctx, s.images.Workload), s.daemon.Close())
	}
	if s.images != nil {
		errs = append(errs, s.images.Close())
	}
	for _, dir := range []string{s.dir, s.data} {
		if dir != "" {
			errs = append(errs, os.RemoveAll(dir))
		}
	}
	return errors.Join(errs...)
}

// until asks ten times a second until the answer is yes, or ctx ends.
func until(ctx context.Context, what string, ask func(context.Context) (bool, error)) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := ask(ctx)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("waiting until %s: %w", what, context.Cause(ctx))
		case err != nil:
			return fmt.Errorf("waiting until %s: %w", what, err)
		case ok:
			return nil
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}
