package tool

import (
	"context"
	"sync"
)

// slots holds one slot for each program. Copies of a program take turns, so that
// of several callers at most one copy can get stuck in the kernel.
type slots struct {
	mu     sync.Mutex
	byPath map[string]*slot
}

// slot is held by the running copy, and by one that is abandoned until it dies.
type slot struct {
	token chan struct{} // full while the slot is free

	mu    sync.Mutex
	hung  *HungError    // the abandoned holder
	stuck chan struct{} // closed when the holder is abandoned
}

func (s *slots) of(path string) *slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byPath[path] == nil {
		free := &slot{token: make(chan struct{}, 1), stuck: make(chan struct{})}
		free.token <- struct{}{}
		s.byPath[path] = free
	}
	return s.byPath[path]
}

// hung lists the abandoned copies.
func (s *slots) hung() []HungError {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []HungError
	for _, one := range s.byPath {
		one.mu.Lock()
		if one.hung != nil {
			list = append(list, *one.hung)
		}
		one.mu.Unlock()
	}
	return list
}

// acquire waits for its turn. It returns the *HungError of the holder when that
// is, or becomes, abandoned.
func (s *slot) acquire(ctx context.Context) error {
	s.mu.Lock()
	stuck := s.stuck
	s.mu.Unlock()
	select {
	case <-s.token:
		return nil
	case <-stuck:
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.hung != nil {
			return s.hung
		}
		return context.DeadlineExceeded // it died this very moment: as if the turn had not come
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// abandon notes that the holder is stuck.
func (s *slot) abandon(h *HungError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hung = h
	close(s.stuck)
}

// release frees the slot, also of an abandoned holder that has died.
func (s *slot) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hung != nil {
		s.hung, s.stuck = nil, make(chan struct{})
	}
	s.token <- struct{}{}
}
