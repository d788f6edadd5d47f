package docker_test

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// proxy stands between a Runtime and a daemon, real or made up, and does to single
// requests what a crash or a bad day does.
type proxy struct {
	host   string // for docker.Options
	daemon http.Handler

	mu     sync.Mutex
	faults []fault
	seen   []string // "METHOD /path" of each request, without the version
}

// fault is what happens to the next requests that match.
type fault struct {
	method, suffix string
	times          int
	happen         func(w http.ResponseWriter, r *http.Request, daemon http.Handler)
}

// startProxy serves on a unix socket until the test's end.
func startProxy(t *testing.T, daemon http.Handler) *proxy {
	t.Helper()
	path := filepath.Join(t.TempDir(), "docker.sock")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{host: "unix://" + path, daemon: daemon}
	held, release := context.WithCancel(context.WithoutCancel(t.Context()))
	server := &http.Server{
		Handler:     p,
		BaseContext: func(net.Listener) context.Context { return held },
		ErrorLog:    log.New(io.Discard, "", 0),
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) }) // ends with ErrServerClosed
	t.Cleanup(func() {
		release()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		serving.Wait()
	})
	return p
}

// realDaemon passes requests on to a daemon's unix socket.
func realDaemon(t *testing.T, host string) http.Handler {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "unix", strings.TrimPrefix(host, "unix://"))
	}}
	t.Cleanup(transport.CloseIdleConnections)
	reverse := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "docker"})
	reverse.Transport = transport
	reverse.FlushInterval = -1
	reverse.ErrorLog = log.New(io.Discard, "", 0)
	return reverse
}

func (p *proxy) add(f fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, f)
}

// requests counts those of a method whose path ends in suffix.
func (p *proxy) requests(method, suffix string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, seen := range p.seen {
		if strings.HasPrefix(seen, method+" ") && strings.HasSuffix(seen, suffix) {
			n++
		}
	}
	return n
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	handler := p.daemon
	p.mu.Lock()
	p.seen = append(p.seen, r.Method+" "+r.URL.Path)
	for i := range p.faults {
		f := &p.faults[i]
		if f.times > 0 && f.method == r.Method && strings.HasSuffix(r.URL.Path, f.suffix) {
			f.times--
			happen, daemon := f.happen, p.daemon
			handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { happen(w, r, daemon) })
			break
		}
	}
	p.mu.Unlock()
	handler.ServeHTTP(w, r)
}

// dropReply has the daemon do what was asked and closes the connection.
func dropReply(_ http.ResponseWriter, r *http.Request, daemon http.Handler) {
	daemon.ServeHTTP(&discard{header: http.Header{}}, r)
	panic(http.ErrAbortHandler)
}

// hang never answers and never asks the daemon.
func hang(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
	<-r.Context().Done()
	panic(http.ErrAbortHandler)
}

// breakOff answers with the first bytes of something and closes the connection.
func breakOff(start string) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, start)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// answer answers in the daemon's stead.
func answer(status int, body string) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// discard is where a lost answer goes.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(int)             {}
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
