// Package faults makes a control plane misbehave on purpose: an HTTP
// middleware for tests that spoils chosen requests as broken servers,
// proxies and networks do.
//
// An Injector owns its list of faults and nothing else. It runs no goroutine;
// a fault that holds a request ends when the client gives up or Release is
// called.
package faults

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Kind is what is done to a request.
type Kind int

// The kinds of fault.
const (
	Status       Kind = iota + 1 // answer Fault.Status with the protocol's error body
	HTMLPage                     // answer Fault.Status (0: 200) with a proxy's HTML page
	Garbage                      // answer 200 with JSON that is cut off
	SlowBody                     // send the real answer one byte each Fault.Delay
	Hang                         // accept, never answer
	HalfClose                    // promise the real answer's length, send half, close the connection
	Reset                        // close the connection before the request is handled
	DropResponse                 // handle the request, then close the connection: the write is applied, the reply lost
	Delay                        // wait Fault.Delay, then handle
)

// Fault is one rule. The zero Method and PathPrefix match everything.
type Fault struct {
	Kind       Kind
	Method     string                   // exact; empty: any
	PathPrefix string                   // empty: any
	Match      func(*http.Request) bool // further condition; nil: none. Must not read the body
	Count      int                      // how many requests it spoils; 0: all
	Skip       int                      // how many matching requests pass before the first
	Status     int                      // for Status and HTMLPage
	RetryAfter string                   // Retry-After header of Status; empty: none
	Delay      time.Duration            // for SlowBody and Delay
}

// Injector spoils requests by the first fault that matches and is not used up.
type Injector struct {
	mu       sync.Mutex
	faults   []*active
	released chan struct{}
}

type active struct {
	Fault
	seen int
	hits int
}

// New returns an injector without faults.
func New() *Injector { return &Injector{released: make(chan struct{})} }

// Handle identifies a fault that was added.
type Handle struct {
	injector *Injector
	fault    *active
}

// Add adds a fault. Earlier ones go first.
func (i *Injector) Add(f Fault) Handle {
	i.mu.Lock()
	defer i.mu.Unlock()
	a := &active{Fault: f}
	i.faults = append(i.faults, a)
	return Handle{i, a}
}

// Hits returns how many requests the fault has spoiled.
func (h Handle) Hits() int {
	h.injector.mu.Lock()
	defer h.injector.mu.Unlock()
	return h.fault.hits
}

// Remove takes the fault away. Requests that it holds stay held.
func (h Handle) Remove() {
	h.injector.mu.Lock()
	defer h.injector.mu.Unlock()
	h.injector.faults = slices.DeleteFunc(h.injector.faults, func(a *active) bool { return a == h.fault })
}

// Clear takes all faults away.
func (i *Injector) Clear() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.faults = nil
}

// Release ends every held request by closing its connection, and clears the
// faults. Held requests added afterwards need another Release.
func (i *Injector) Release() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.faults = nil
	close(i.released)
	i.released = make(chan struct{})
}

// take returns the fault for a request, if any, and the channel that ends a
// hold.
func (i *Injector) take(r *http.Request) (Fault, <-chan struct{}, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, a := range i.faults {
		if !a.matches(r) || a.Count > 0 && a.hits >= a.Count {
			continue
		}
		if a.seen++; a.seen <= a.Skip {
			continue
		}
		a.hits++
		return a.Fault, i.released, true
	}
	return Fault{}, nil, false
}

func (a *active) matches(r *http.Request) bool {
	return (a.Method == "" || a.Method == r.Method) &&
		strings.HasPrefix(r.URL.Path, a.PathPrefix) &&
		(a.Match == nil || a.Match(r))
}

// Wrap returns a handler that spoils requests on their way to next.
func (i *Injector) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fault, released, ok := i.take(r)
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		fault.apply(w, r, next, released)
	})
}

// abort closes the connection without a word to the log.
func abort() { panic(http.ErrAbortHandler) }

func (f Fault) apply(w http.ResponseWriter, r *http.Request, next http.Handler, released <-chan struct{}) {
	switch f.Kind {
	case Status:
		if f.RetryAfter != "" {
			w.Header().Set("Retry-After", f.RetryAfter)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(f.Status)
		_, _ = fmt.Fprintf(w, `{"error":{"code":"injected","message":"injected status %d"}}`, f.Status)
	case HTMLPage:
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(max(f.Status, http.StatusOK))
		_, _ = w.Write([]byte("<!DOCTYPE html><html><head><title>Gateway</title></head><body><h1>Please sign in</h1></body></html>"))
	case Garbage:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"tasks":[{"id":"cut`))
	case Hang:
		select {
		case <-r.Context().Done():
		case <-released:
		}
		abort()
	case Reset:
		abort()
	case Delay:
		if pause(r, f.Delay, released) {
			next.ServeHTTP(w, r)
			return
		}
		abort()
	case SlowBody, HalfClose, DropResponse:
		f.spoilAnswer(w, r, next, released)
	default:
		panic(fmt.Sprintf("faults: unknown kind %d", f.Kind))
	}
}

// spoilAnswer lets the request be handled and spoils the way back.
func (f Fault) spoilAnswer(w http.ResponseWriter, r *http.Request, next http.Handler, released <-chan struct{}) {
	recorder := httptest.NewRecorder()
	next.ServeHTTP(recorder, r)
	if f.Kind == DropResponse {
		abort()
	}
	body := recorder.Body.Bytes()
	maps.Copy(w.Header(), recorder.Header())
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(recorder.Code)
	if f.Kind == HalfClose {
		_, _ = w.Write(body[:len(body)/2])
		_ = http.NewResponseController(w).Flush() // what cannot be flushed is lost, as it should be
		abort()
	}
	for i := range body {
		if _, err := w.Write(body[i : i+1]); err != nil {
			return
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			return
		}
		if !pause(r, f.Delay, released) {
			abort()
		}
	}
}

// pause waits; it returns false when the request is to end.
func pause(r *http.Request, d time.Duration, released <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
	case <-released:
	}
	return false
}
