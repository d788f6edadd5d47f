// Package drain is whether this node claims new tasks: it does not while the control plane
// wants it drained, nor while an operator's mark lies in the state directory. Either is
// enough, and only its own giver takes it back.
//
// Commands set and clear the mark beside a running agent, without a socket. The agent looks
// for it each time it is about to claim, so that a mark holds from the moment it is there,
// and once a heartbeat to report it. What runs is none of this package's business. It
// starts no goroutine.
package drain

import (
	"cmp"
	"slices"
	"sync"

	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/protocol"
)

// Switch is the running agent's view. It is safe for concurrent use.
type Switch struct {
	marks  Marks
	log    *zap.Logger
	resume func()

	mu     sync.Mutex
	server bool
	told   []protocol.Drain // as it was logged last
	failed string           // why the mark could not be read, as it was logged last
}

// New makes a switch. resume is called when nobody wants the node drained any more.
func New(marks Marks, log *zap.Logger, resume func()) *Switch {
	return &Switch{marks: marks, log: log, resume: resume}
}

// Server takes what the control plane wants.
func (s *Switch) Server(on bool) {
	s.mu.Lock()
	s.server = on
	s.mu.Unlock()
	s.Look()
}

// On reports whether nothing new is to be claimed.
func (s *Switch) On() bool {
	by, _ := s.by() // the mark that cannot be read is among them, and Look logs why
	return len(by) > 0
}

// Look returns who wants the node drained, nobody when it is empty, and logs what changed
// since the last look.
func (s *Switch) Look() []protocol.Drain {
	by, err := s.by()
	s.mu.Lock()
	before := s.told
	s.told = by
	failed := ""
	if err != nil {
		failed = err.Error()
	}
	news := failed != "" && failed != s.failed
	s.failed = failed
	s.mu.Unlock()
	if news {
		s.log.Error("nothing new is claimed: an operator may have left a drain mark, which cannot be read", zap.Error(err))
	}
	for _, d := range by {
		if !slices.ContainsFunc(before, func(b protocol.Drain) bool { return same(b, d) }) {
			s.log.Info("draining: nothing new is claimed, what runs goes on",
				zap.String("by", string(d.By)), zap.String("user", d.User), zap.String("why", d.Reason))
		}
	}
	if len(before) > 0 && len(by) == 0 {
		s.log.Info("not draining any more")
		s.resume()
	}
	return by
}

func same(a, b protocol.Drain) bool {
	return cmp.Or(cmp.Compare(a.By, b.By), cmp.Compare(a.User, b.User), cmp.Compare(a.Reason, b.Reason)) == 0
}

func (s *Switch) by() ([]protocol.Drain, error) {
	var by []protocol.Drain
	s.mu.Lock()
	if s.server {
		by = append(by, protocol.Drain{By: protocol.DrainByServer})
	}
	s.mu.Unlock()
	mark, err := read(s.marks)
	if mark != nil {
		d := protocol.Drain{By: protocol.DrainByOperator, User: mark.User, Reason: mark.Reason}
		if !mark.At.IsZero() {
			d.Since = &mark.At
		}
		by = append(by, d)
	}
	return by, err
}
