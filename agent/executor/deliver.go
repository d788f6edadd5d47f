package executor

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/agent/client"
	"github.com/heteroflow/node-agent/agent/logging"
	"github.com/heteroflow/node-agent/agent/loop"
	"github.com/heteroflow/node-agent/crashpoint"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
)

// outcome is what came of delivering a result.
type outcome int

const (
	undelivered outcome = iota // the control plane does not have it
	delivered                  // it has it, or will never want it
	slept                      // it took the end for falling asleep: the container is kept
)

// settle delivers the result, however long that takes, and returns whether the task goes
// on asleep. The result is stored before the first try. After the tries of the policy it
// is tried again whenever reconciliation nudges.
func (t *task) settle(ctx context.Context, r Result) (asleep bool, err error) {
	r.TaskID, r.Generation = t.id, t.generation
	t.enter(Reporting)
	t.storeResult(r)
	crashpoint.Reach("result: recorded")
	if t.owed == nil { // else what the container does now is not known
		t.release()
	}
	if ctx.Err() != nil {
		return false, errDetached // the next agent can send the output along
	}
	attempts := t.e.Report.Attempts
	for {
		switch t.deliver(ctx, r, attempts) {
		case delivered:
			t.forgetResult()
			return false, nil
		case slept:
			t.forgetResult()
			return true, nil
		case undelivered:
		}
		if ctx.Err() != nil {
			return false, errDetached
		}
		t.enter(Owing)
		select {
		case <-t.news: // it came while the tries were made: no reason for one more
		default:
		}
		t.log.Error("result not delivered, trying again with each reconciliation; its container, if there is one, is kept", logging.Reason(r.Reason))
		if err := t.awaitRetry(ctx, r); err != nil {
			return false, err
		}
		t.enter(Reporting)
		attempts = 1
	}
}

// awaitRetry waits until the result is to be tried again: not while the output that goes
// along with it cannot be read, for it goes with the container.
func (t *task) awaitRetry(ctx context.Context, r Result) error {
	for {
		select {
		case <-ctx.Done():
			return errDetached
		case <-t.news:
		}
		if !t.sendsOutput(r) || t.e.RuntimeUsable() {
			return nil
		}
	}
}

// forgetResult drops a delivered result. One that a full disk brings back after a restart
// is delivered again, and finds the task over.
func (t *task) forgetResult() {
	if err := t.e.results.Delete(t.id); err != nil {
		t.log.Warn("delivered result not dropped from the journal", zap.Error(err))
	}
	crashpoint.Reach("result: forgotten")
}

// deliver makes up to attempts tries within the policy's budget. Requests under way are
// finished within it even when ctx ends: an answer lost now would have to be found out later.
func (t *task) deliver(ctx context.Context, r Result, attempts int) outcome {
	tail := t.logTail(ctx, r)
	deadline := time.Now().Add(t.e.Report.Budget)
	requests, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancel()
	backoff := t.e.Report.InitialBackoff
	for attempt := 1; ; attempt++ {
		out, err := t.deliverOnce(requests, r, tail)
		if out != undelivered {
			return out
		}
		pause := max(loop.Jitter(backoff), client.RetryAfter(err))
		backoff = min(2*backoff, t.e.Report.MaxBackoff)
		if !errors.Is(err, client.ErrRetryable) || attempt >= attempts || time.Now().Add(pause).After(deadline) {
			t.log.Warn("could not report the result", logging.Attempt(attempt), zap.Error(err))
			return undelivered
		}
		t.log.Warn("could not report the result, trying again", logging.Attempt(attempt), zap.Duration("pause", pause), zap.Error(err))
		if t.pause(ctx, pause) != nil {
			return undelivered
		}
	}
}

// maxSteps bounds how often one delivery follows a status that changes under it.
const maxSteps = 4

// deliverOnce reports the result from whatever status is stored: a lost compare-and-set
// tells the status to report from instead.
func (t *task) deliverOnce(ctx context.Context, r Result, tail string) (outcome, error) {
	v := t.viewNow()
	for range maxSteps {
		if out := t.settled(v, r); out != undelivered {
			return out, nil
		}
		to, ok := r.report(v.status)
		if !ok {
			return undelivered, &unreportableError{v.status}
		}
		stored, err := t.e.Plane.UpdateTask(ctx, t.id, r.update(v.status, to, tail))
		switch {
		case err == nil && to == protocol.StatusAsleep:
			crashpoint.Reach("sleep: reported")
			t.learn(stored)
			return slept, nil
		case err == nil && to != protocol.StatusRunning:
			crashpoint.Reach("result: reported")
			t.log.Info("result delivered", logging.Status(to), logging.Reason(r.Reason), logging.ExitCode(r.ExitCode))
			return delivered, nil
		case err == nil:
			v = t.learn(stored)
		case errors.Is(err, client.ErrNotFound):
			v = view{over: overDeleted}
		case errors.Is(err, client.ErrConflict):
			if v, err = t.lookAgain(ctx, err); err != nil {
				return undelivered, err
			}
		default:
			return undelivered, err
		}
	}
	return undelivered, &unreportableError{v.status}
}

// settled tells whether the control plane's view leaves nothing to report.
func (t *task) settled(v view, r Result) outcome {
	switch {
	case v.over != "":
		t.log.Info("result settled: nobody waits for it", zap.String("over", v.over))
		return delivered
	case v.status == protocol.StatusAsleep, v.status == protocol.StatusWaking && t.sleeps(r):
		return slept
	default:
		return undelivered
	}
}

// lookAgain is the authoritative state after a lost compare-and-set.
func (t *task) lookAgain(ctx context.Context, conflict error) (view, error) {
	stored, err := t.e.afterConflict(ctx, t.id, conflict)
	if errors.Is(err, client.ErrNotFound) {
		return view{over: overDeleted}, nil
	}
	if err != nil {
		return view{}, err
	}
	return t.learn(stored), nil
}

// learn takes over what the control plane answered.
func (t *task) learn(stored protocol.Task) view {
	v := viewOf(stored, t.e.NodeID, t.generation)
	t.mu.Lock()
	t.view, t.want = v, v.wants(t.want)
	t.mu.Unlock()
	return v
}

// unreportableError: the task has a status from which an agent reports nothing.
type unreportableError struct{ status protocol.TaskStatus }

func (e *unreportableError) Error() string {
	return "the control plane has the task as " + string(e.status) + ", from which no result can be reported"
}

// sendsOutput tells whether output is to go along with the result.
func (t *task) sendsOutput(r Result) bool { return r.ContainerID != "" && t.e.LogTail > 0 }

// logTail is the end of the container's output. It is taken from the container each time:
// the journal holds no output.
func (t *task) logTail(ctx context.Context, r Result) string {
	if !t.sendsOutput(r) {
		return ""
	}
	rt, err := t.e.Runtime()
	if err != nil {
		t.log.Warn("no log tail", zap.Error(err))
		return ""
	}
	out, err := rt.Logs(ctx, r.ContainerID, runtime.LogOptions{TailBytes: t.e.LogTail})
	if err != nil {
		t.log.Warn("no log tail", logging.ContainerID(r.ContainerID), zap.Error(err))
		return ""
	}
	return tailOf(out, int(t.e.LogTail))
}

// tailOf makes valid UTF-8 of at most n bytes from the end of out. A byte that is none
// takes three when it is replaced.
func tailOf(out []byte, n int) string {
	s := strings.ToValidUTF8(string(out), "\uFFFD")
	if len(s) <= n {
		return s
	}
	s = s[len(s)-n:]
	for len(s) > 0 && !utf8.RuneStart(s[0]) {
		s = s[1:]
	}
	return s
}
