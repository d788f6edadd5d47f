package nvml

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/gpu/nvidia"
	"github.com/heteroflow/node-agent/gpu/nvidia/nvml/wire"
	"github.com/heteroflow/node-agent/gpu/pci"
	"github.com/heteroflow/node-agent/gpu/tool"
)

// Program is the helper's name.
const Program = "heteroflow-nvml"

// limits are how long things may take.
type limits struct {
	// open is for a question to a new helper, which opens NVML: without
	// persistence mode the driver then starts each card, a second or more each.
	open time.Duration
	// ask is for any other: milliseconds, unless the driver is in trouble.
	ask time.Duration
	// The pauses between two starts of a helper that does not work grow from the
	// first to the last.
	firstPause, lastPause time.Duration
}

var defaults = limits{open: 30 * time.Second, ask: 15 * time.Second, firstPause: 2 * time.Second, lastPause: 5 * time.Minute}

// maxKept are the Xids that are kept from a helper that was replaced.
const maxKept = 256

// Config is what a Client needs. The zero value is right on a host where the
// helper is installed beside the agent.
type Config struct {
	// Path is the helper; "" means beside the agent, else where tools are found.
	Path string
	// HostRoot is where the host's file system is mounted, for an agent in a
	// container; "" means "/". The helper runs as the agent does, beside it, and
	// loads the host's library.
	HostRoot string
	// Library is the libnvidia-ml.so.1 to load; "" means that the helper looks
	// for it.
	Library string
	Sysfs   string      // where sysfs is mounted; "" means /sys
	Version string      // of the agent, for messages
	Log     *zap.Logger // nil: none
}

// Client implements nvidia.Source. It is safe for concurrent use; questions
// queue.
type Client struct {
	cfg    Config
	limits limits
	exec   *tool.Exec
	log    *zap.Logger

	// turn holds a token while nobody asks; all below is whose who took it.
	turn     chan struct{}
	session  *session   // nil: none runs
	failures int        // of helpers, in a row
	next     time.Time  // before which none is started
	reason   error      // of the last failure
	kept     []wire.XID // told by a helper that was replaced
	told     string     // what was logged last about the helper
	watch    string     // what was logged last about Xids
}

// New returns a Client. It starts nothing yet.
func New(cfg Config) *Client {
	c := &Client{cfg: cfg, limits: defaults, exec: tool.NewExec(""), log: cfg.Log, turn: make(chan struct{}, 1)}
	if c.log == nil {
		c.log = zap.NewNop()
	}
	if c.cfg.Sysfs == "" {
		c.cfg.Sysfs = pci.DefaultSysfs
	}
	c.turn <- struct{}{}
	return c
}

// UnavailableError says that no helper answers, and why. It wraps
// tool.ErrNotInstalled: another source may know.
type UnavailableError struct{ Reason error }

func (e *UnavailableError) Error() string {
	return "NVIDIA helper does not answer: " + e.Reason.Error()
}

// Unwrap returns tool.ErrNotInstalled and the reason.
func (e *UnavailableError) Unwrap() []error { return []error{tool.ErrNotInstalled, e.Reason} }

// Inventory implements nvidia.Source.
func (c *Client) Inventory(ctx context.Context) (nvidia.Reading, error) { return c.cards(ctx, true) }

// Collect implements nvidia.Source.
func (c *Client) Collect(ctx context.Context) (nvidia.Reading, error) { return c.cards(ctx, false) }

// Close ends the helper, so that nothing of the agent holds the driver: before
// the agent's end, and before a change that a card refuses while it has clients.
// The next question starts another.
func (c *Client) Close() error {
	<-c.turn
	defer func() { c.turn <- struct{}{} }()
	return c.end()
}

// end ends the helper that runs, if one does.
func (c *Client) end() error {
	if c.session == nil {
		return nil
	}
	s := c.session
	c.session = nil
	if err := s.proc.Close(); err != nil {
		return fmt.Errorf("end NVIDIA helper: %w", err)
	}
	return nil
}

// ask asks one question, with a new helper when there is none, or when the one
// that runs knows that it has to be replaced. Errors: an *UnavailableError, the
// *wire.Error that is the answer, or the caller's end of ctx.
func (c *Client) ask(ctx context.Context, method string, params, result any) error {
	select {
	case <-c.turn:
		defer func() { c.turn <- struct{}{} }()
	case <-ctx.Done():
		return &UnavailableError{Reason: context.Cause(ctx)}
	}
	for again := false; ; again = true {
		err := c.askOnce(ctx, method, params, result)
		failure, answered := errors.AsType[*wire.Error](err)
		switch {
		case err == nil:
			c.failures = 0
			return nil
		case answered && failure.Code == wire.CodeStale && !again:
			c.log.Info("NVIDIA helper is replaced", zap.String("reason", failure.Message))
			c.kept = append(c.kept, failure.Xids[:min(len(failure.Xids), maxKept)]...)
			if err := c.end(); err != nil {
				return c.fail(err)
			}
		case answered && !disqualifies(failure):
			c.failures = 0
			return failure
		case errors.Is(ctx.Err(), context.Canceled):
			return errors.Join(context.Cause(ctx), c.end())
		default:
			return c.fail(err)
		}
	}
}

// disqualifies tells whether the helper's answer means that this helper cannot
// answer at all, and something else may.
func disqualifies(e *wire.Error) bool {
	switch e.Code {
	case wire.CodeRequest, wire.CodeProtocol, wire.CodeNoLibrary, wire.CodeStale:
		return true
	}
	return e.Code == wire.CodeNVML && (e.Return == wire.LibraryNotFound || e.Return == wire.FunctionNotFound)
}

func (c *Client) askOnce(ctx context.Context, method string, params, result any) error {
	bound := c.limits.ask
	if c.session == nil {
		bound = c.limits.open
	}
	ctx, cancel := context.WithTimeoutCause(ctx, share(ctx, bound), errLate)
	defer cancel()
	if err := c.start(ctx); err != nil {
		return err
	}
	if err := c.session.call(ctx, method, params, result); err != nil {
		return err
	}
	if cards, ok := result.(*wire.Cards); ok {
		cards.Xids, c.kept = append(c.kept, cards.Xids...), nil
		c.tellAnswers(cards)
	}
	return nil
}

var errLate = errors.New("no answer in time: the driver may hold it")

// share is the bound, or two thirds of the time that the caller has: the next
// source needs some of it.
func share(ctx context.Context, bound time.Duration) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		bound = min(bound, time.Until(deadline)*2/3)
	}
	return bound
}

// start starts a helper if none runs and the pause after a failure is over.
func (c *Client) start(ctx context.Context) error {
	if c.session != nil {
		return nil
	}
	if wait := time.Until(c.next); wait > 0 {
		return &pausedError{wait, c.reason}
	}
	args := []string{"-root", "/"}
	if c.cfg.HostRoot != "" {
		args[1] = c.cfg.HostRoot
	}
	if c.cfg.Library != "" {
		args = append(args, "-library", c.cfg.Library)
	}
	s, err := open(ctx, c.exec, tool.Command{Name: c.path(), Args: args, Deadline: c.limits.open}, c.cfg.Version)
	if err != nil {
		return err
	}
	c.session = s
	return nil
}

// pausedError says that a helper is not started yet after one that failed.
type pausedError struct {
	wait  time.Duration
	cause error
}

func (e *pausedError) Error() string {
	return fmt.Sprintf("the next start is in %s, after: %v", e.wait.Round(time.Second), e.cause)
}

func (e *pausedError) Unwrap() error { return e.cause }

// path is where the helper is, looked up each time: it may be installed later.
func (c *Client) path() string {
	if c.cfg.Path != "" {
		return c.cfg.Path
	}
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), Program)
		if _, err := c.exec.Find(beside); err == nil {
			return beside
		}
	}
	return Program
}

// fail notes that the helper came to nothing, ends what is left of it, and puts
// the next start off.
func (c *Client) fail(err error) error {
	if paused, ok := errors.AsType[*pausedError](err); ok {
		return &UnavailableError{Reason: paused}
	}
	if ended := c.end(); ended != nil {
		err = errors.Join(err, ended)
	}
	if !errors.Is(err, tool.ErrNotInstalled) { // to look for a file costs nothing
		c.next = time.Now().Add(c.limits.pause(c.failures))
		c.failures++
	}
	c.reason = err
	c.tell(err)
	return &UnavailableError{Reason: err}
}

// pause is how long to wait after so many failures before the last one.
func (l limits) pause(failures int) time.Duration {
	return min(l.firstPause<<min(failures, 16), l.lastPause)
}

// tell logs that the helper does not answer, once for each kind of reason.
func (c *Client) tell(err error) {
	kind, log := "broken", c.log.Warn
	if failure, ok := errors.AsType[*wire.Error](err); ok {
		kind = failure.Code
	} else if errors.Is(err, tool.ErrNotInstalled) {
		kind = "not_installed"
	}
	if kind == c.told {
		return
	}
	c.told = kind
	if kind == "not_installed" || kind == wire.CodeNoLibrary { // as on a node without such cards
		log = c.log.Info
	}
	log("NVIDIA helper does not answer; nvidia-smi is asked instead", zap.String("kind", kind), zap.Error(err))
}

// tellAnswers logs that the helper answers, and for which driver.
func (c *Client) tellAnswers(cards *wire.Cards) {
	if kind := "answers " + cards.Driver; kind != c.told {
		c.told = kind
		c.log.Info("NVIDIA helper answers", zap.String("driver_version", cards.Driver), zap.String("nvml_version", cards.NVML),
			zap.String("library", cards.Library))
	}
	switch w := cards.Watch; {
	case w.Error != "" && c.watch == "":
		c.log.Warn("NVIDIA's Xid errors are not seen at present", zap.String("reason", w.Error))
	case w.Error == "" && w.Watched > 0 && c.watch != "":
		c.log.Info("NVIDIA's Xid errors are seen again", zap.Int("cards", w.Watched))
	}
	if cards.Watch.Error != "" || cards.Watch.Watched > 0 {
		c.watch = cards.Watch.Error
	}
	if n := cards.Watch.Dropped; n > 0 {
		c.log.Warn("NVIDIA's Xid errors came too fast; older ones are lost", zap.Int("lost", n))
	}
}
