// Package agent wires the node agent together and owns its life: what is made in which
// order, which loops turn, and how they stop.
//
// The parts live in the packages below this one; none of them knows this package.
package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/agent/cards"
	"github.com/heteroflow/node-agent/agent/client"
	"github.com/heteroflow/node-agent/agent/config"
	"github.com/heteroflow/node-agent/agent/connector"
	"github.com/heteroflow/node-agent/agent/drain"
	"github.com/heteroflow/node-agent/agent/executor"
	"github.com/heteroflow/node-agent/agent/heartbeat"
	"github.com/heteroflow/node-agent/agent/identity"
	"github.com/heteroflow/node-agent/agent/inventory/gpus"
	"github.com/heteroflow/node-agent/agent/inventory/host"
	"github.com/heteroflow/node-agent/agent/journal"
	"github.com/heteroflow/node-agent/agent/logging"
	"github.com/heteroflow/node-agent/agent/reconcile"
	"github.com/heteroflow/node-agent/agent/wake"
	"github.com/heteroflow/node-agent/protocol"
)

// Version is the triple that names a build.
type Version struct {
	Version   string // release; dev in a bare build
	Commit    string // ends in -dirty when the tree was
	BuildTime string
}

// Agent is one start of the agent.
type Agent struct {
	cfg     config.Config
	log     *zap.Logger
	journal *journal.Journal
	who     identity.Identity

	client    *client.Client
	connector *connector.Connector
	executor  *executor.Executor
	reconcile *reconcile.Reconciler
	waker     *wake.Waker
	heart     *heartbeat.Heart
	host      *host.Host
	machine   gpus.Machine
	gpus      *gpus.Inventory
	contact   time.Time // when a heartbeat was last acknowledged, with a monotonic reading; zero: never
	statusErr error     // why the status file is not as the last heartbeat was; nil: it is
	cards     *cards.Cards
	drain     *drain.Switch
}

// New makes an agent from a valid configuration. It takes the lock of the state directory
// and reads the machine; it starts nothing and asks nobody.
func New(ctx context.Context, cfg config.Config, version Version, log *zap.Logger) (_ *Agent, err error) {
	a := &Agent{cfg: cfg, log: log}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	machine := identity.System()
	if a.journal, err = journal.Open(cfg.StateDir, journal.Options{MachineID: machine.MachineID(), Log: log}); err != nil {
		return nil, err
	}
	if a.who, err = identity.Load(a.journal, cfg.Node.ID, machine); err != nil {
		return nil, err
	}
	a.log = log.With(logging.NodeID(a.who.NodeID))
	if a.client, err = client.New(client.Options{
		BaseURL: cfg.Server.URL, NodeID: a.who.NodeID, Timeout: cfg.Server.Timeout,
		ReadKey: func() (config.Secret, error) { return config.ReadKey(cfg.KeyFile()) },
		TLS:     client.TLSFiles{CA: cfg.Server.CAFile, Cert: cfg.Server.ClientCertFile, Key: cfg.Server.ClientKeyFile},
		Version: version.Version, Commit: version.Commit, Log: a.log,
	}); err != nil {
		return nil, err
	}
	a.machine = gpus.NewMachine(cfg.GPU.HostRoot, version.Version, a.log)
	if a.gpus, err = gpus.New(gpus.Options{
		Machine: a.machine, Period: cfg.GPU.Period, InventoryPeriod: cfg.GPU.InventoryPeriod,
		Virtual: cfg.GPU.Virtual, Journal: a.journal, Log: a.log,
	}); err != nil {
		return nil, err
	}
	a.host = host.New(ctx)
	if err := a.wireTasks(); err != nil {
		return nil, err
	}
	a.heart = heartbeat.New(heartbeat.Options{
		Plane: a.client, Period: cfg.Heartbeat.Period, Timeout: cfg.Heartbeat.Timeout, Log: a.log,
		Template: protocol.Heartbeat{
			NodeID: a.who.NodeID, BootID: a.who.BootID, InstanceID: a.who.InstanceID,
			AgentVersion: version.Version, AgentCommit: version.Commit, AgentBuildTime: version.BuildTime,
		},
		Sources: []heartbeat.Source{a.reportHost, a.reportRuntime, a.reportGPUs, a.reportWork},
		OnReply: a.heard, OnBeat: a.leaveStatus,
	})
	return a, nil
}

// Run turns the agent's loops until ctx ends, then stops in order: nothing new is claimed
// or sent, supervision lets go of the containers, which stay, and a last heartbeat says
// offline. The stop is bounded by shutdown_timeout; after that Run returns an error with
// whatever still hangs left behind.
func (a *Agent) Run(ctx context.Context) error {
	a.log.Info("agent started", zap.String("server", a.cfg.Server.URL), zap.String("instance_id", a.who.InstanceID))
	loops, stopLoops := context.WithCancel(context.WithoutCancel(ctx))
	defer stopLoops()
	beating, stopBeating := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBeating()

	var heart, others sync.WaitGroup
	heart.Go(func() { a.heart.Run(beating) })
	for _, run := range []func(context.Context){a.connector.Run, a.reconcile.Run, a.executor.Run, a.waker.Run, a.gpus.Run, a.tellOfGPUs, a.cards.Run} {
		others.Go(func() { run(loops) })
	}
	<-ctx.Done()

	a.log.Info("stopping; task containers stay as they are", zap.Error(context.Cause(ctx)))
	deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.cfg.ShutdownTimeout)
	defer cancel()
	a.executor.StopClaiming()
	stopBeating()
	if err := wait(deadline, &heart, "the heartbeat loop"); err != nil {
		return err
	}
	stopLoops()
	errLoops := wait(deadline, &others, "the task loops")
	if err := a.heart.Farewell(deadline); err != nil {
		a.log.Warn("the control plane was not told that this node goes offline", zap.Error(err))
	}
	a.log.Info("agent stopped")
	return errLoops
}

// wait waits for a group until ctx ends.
func wait(ctx context.Context, group *sync.WaitGroup, what string) error {
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop: %s did not end within shutdown_timeout", what)
	}
}

// Close gives up what New took. Call it after Run.
func (a *Agent) Close() error {
	var errs []error
	if a.connector != nil {
		errs = append(errs, a.connector.Close())
	}
	if a.client != nil {
		a.client.Close()
	}
	if a.journal != nil {
		errs = append(errs, a.journal.Close())
	}
	return errors.Join(errs...)
}

// heard takes what the control plane answers to a heartbeat.
func (a *Agent) heard(reply protocol.HeartbeatReply) {
	a.waker.Offer(reply.Features)
	a.drain.Server(reply.Drain)
}

// tellOfGPUs beats once more when the cards have been looked at: the first heartbeat does
// not wait for that.
func (a *Agent) tellOfGPUs(ctx context.Context) {
	select {
	case <-a.gpus.Ready():
		a.heart.Kick()
	case <-ctx.Done():
	}
}

// poll starts the polls of the channels in which something waits.
func (a *Agent) poll(waiting protocol.WakeReply) {
	if waiting.Tasks > 0 {
		a.executor.PollTasks()
	}
	if waiting.Intents > 0 {
		a.executor.PollIntents()
	}
}

func (a *Agent) runtimeUsable() bool {
	_, err := a.connector.Usable()
	return err == nil
}
