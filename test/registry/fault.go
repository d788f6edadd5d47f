package registry

import (
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// fault changes how matching requests are answered.
type fault struct {
	match Match
	front bool // before authentication, as a proxy in the way would act
	wrap  func(next http.Handler) http.Handler
}

func (r *Registry) add(f fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, f)
}

// matching returns the faults for a request, those before authentication
// apart. The caller holds r.mu.
func (r *Registry) matching(req *http.Request) (front, back []fault) {
	for _, f := range r.faults {
		switch {
		case !f.match(req):
		case f.front:
			front = append(front, f)
		default:
			back = append(back, f)
		}
	}
	return front, back
}

// Heal takes all faults away. A request that a stall holds stays held.
func (r *Registry) Heal() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = nil
}

// Throttle answers the first n matching, authenticated requests with 429 and
// the given Retry-After, rounded down to seconds.
func (r *Registry) Throttle(match Match, n int, retryAfter time.Duration) {
	r.add(fault{match: match, wrap: firstRequests(n, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", strconv.Itoa(int(retryAfter/time.Second)))
		writeError(w, http.StatusTooManyRequests, "TOOMANYREQUESTS", "rate limit exceeded")
	})})
}

// AnswerHTML answers the first n matching requests with a web page and status
// 200, before any authentication, as a captive portal or a proxy does.
func (r *Registry) AnswerHTML(match Match, n int) {
	r.add(fault{match: match, front: true, wrap: firstRequests(n, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, "<!doctype html><title>Sign in</title><p>Please sign in.\n") // a client that went away is not our concern
	})})
}

// AnswerType serves every matching request with another Content-Type.
func (r *Registry) AnswerType(match Match, contentType string) {
	r.add(fault{match: match, wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			next.ServeHTTP(&typeWriter{w, contentType}, req)
		})
	}})
}

// ExpireAt answers the nth matching, authenticated request, counted from 1,
// with 401 and makes all tokens worthless: credentials that ran out in the
// middle of a pull.
func (r *Registry) ExpireAt(match Match, n int64) {
	var seen atomic.Int64
	r.add(fault{match: match, wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if seen.Add(1) != n {
				next.ServeHTTP(w, req)
				return
			}
			r.access.expire()
			r.access.challenge(w, req)
		})
	}})
}

// Slow paces the body of each matching answer to bytesPerSecond, which is at
// least 1.
func (r *Registry) Slow(match Match, bytesPerSecond int) {
	pause := func(req *http.Request, n int) {
		select {
		case <-req.Context().Done():
		case <-time.After(time.Duration(n) * time.Second / time.Duration(bytesPerSecond)):
		}
	}
	piece := max(1, bytesPerSecond/20)
	r.add(fault{match: match, wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			next.ServeHTTP(&pieceWriter{w, piece, func(n int) { pause(req, n) }}, req)
		})
	}})
}

// Stall is a stop in the middle of answers.
type Stall struct {
	reached     chan struct{}
	released    chan struct{}
	reachOnce   sync.Once
	releaseOnce sync.Once
}

// Reached is closed once an answer stands still.
func (s *Stall) Reached() <-chan struct{} { return s.reached }

// Release lets the held answers, and all that follow, go on.
func (s *Stall) Release() { s.releaseOnce.Do(func() { close(s.released) }) }

// Stall stops each matching answer after its first bytes, at least 1, until it is
// released, its client goes away or the registry is closed. Shorter answers, as
// an image's config may be, pass.
func (r *Registry) Stall(match Match, after int) *Stall {
	s := &Stall{reached: make(chan struct{}), released: make(chan struct{})}
	r.add(fault{match: match, wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			sent := 0
			next.ServeHTTP(&pieceWriter{w, after, func(n int) {
				if sent += n; sent == after {
					s.hold(req)
				}
			}}, req)
		})
	}})
	return s
}

func (s *Stall) hold(req *http.Request) {
	s.reachOnce.Do(func() { close(s.reached) })
	select {
	case <-req.Context().Done():
	case <-s.released:
	}
}

// firstRequests answers the first n requests itself and passes the others on.
func firstRequests(n int, answer http.HandlerFunc) func(http.Handler) http.Handler {
	var seen atomic.Int64
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if seen.Add(1) <= int64(n) {
				answer(w, req)
				return
			}
			next.ServeHTTP(w, req)
		})
	}
}
