// Package devserver is the reference control plane and the test bed of the
// agent: the server side of the protocol, complete, on one SQLite file.
//
// It owns the HTTP API of agents and operators, the held wake requests and
// the distribution of the agent's binaries and scripts. It schedules nothing:
// an operator, or a test through package operator, assigns tasks to nodes. It
// never connects to a node. Its goroutines are those of net/http and
// database/sql; Serve and Close wait for them.
package devserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/devserver/store"
	"github.com/heteroflow/node-agent/protocol"
)

// Config is what a Server needs to know.
type Config struct {
	Database      string          // path of the SQLite file; created with mode 0600
	SystemKey     protocol.Secret // the agents' key; required
	OperatorToken protocol.Secret // empty: the operator API answers 403
	Production    bool            // refuse weak keys instead of warning, and unchecked tasks
	DistDir       string          // binaries and scripts to distribute; empty: none
	Features      Features
	Logger        *zap.Logger // nil: silent
}

// Features switches the optional parts of the protocol off, to be the server
// that an agent must also get along with. The zero value has them all.
type Features struct {
	WakeMax    time.Duration // longest held request, whole seconds; 0: 25 s; at most 55 s
	NoWake     bool
	NoDelta    bool
	NoGzip     bool
	EmptyReply bool // answer heartbeats with {}, as an old server: no optional part at all
}

const (
	defaultWakeMax = 25 * time.Second
	longestWakeMax = 55 * time.Second // proxies commonly cut at 60 s
)

// offered returns the features as a heartbeat's answer tells them.
func (f Features) offered() (protocol.Features, error) {
	if f.WakeMax < 0 || f.WakeMax > longestWakeMax || f.WakeMax%time.Second != 0 {
		return protocol.Features{}, fmt.Errorf("longest wake %s: must be whole seconds, at most %s", f.WakeMax, longestWakeMax)
	}
	if f.EmptyReply {
		return protocol.Features{}, nil
	}
	offered := protocol.Features{DeltaHeartbeat: !f.NoDelta, Gzip: !f.NoGzip}
	if !f.NoWake {
		wait := f.WakeMax
		if wait == 0 {
			wait = defaultWakeMax
		}
		offered.WakeMaxSeconds = int(wait / time.Second)
	}
	return offered, nil
}

// Server is the control plane.
type Server struct {
	// configuration
	config   Config
	features protocol.Features
	keys     keys

	// dependencies
	log     *zap.Logger
	store   *store.Store
	handler http.Handler

	// state
	waiters   waiters
	holds     atomic.Int64
	sums      checksums
	closing   chan struct{} // closed when held requests are to be answered
	closeOnce sync.Once
}

// New opens the database and builds the API. A production server with a weak
// key is refused with every problem in one error; otherwise weak keys are
// warned of.
func New(ctx context.Context, config Config) (*Server, error) {
	offered, err := config.Features.offered()
	if err != nil {
		return nil, err
	}
	s := &Server{config: config, features: offered, log: config.Logger, closing: make(chan struct{})}
	if s.log == nil {
		s.log = zap.NewNop()
	}
	if s.keys, err = newKeys(config, s.log); err != nil {
		return nil, err
	}
	if s.store, err = store.Open(ctx, config.Database, s.waiters.wake); err != nil {
		return nil, err
	}
	s.handler = s.routes()
	return s, nil
}

// Handler returns the whole HTTP API, for a server of the caller's. Such a
// caller must call Close before it waits for its own server to end: held wake
// requests end then.
func (s *Server) Handler() http.Handler { return s.handler }

// Close answers held requests and closes the database.
func (s *Server) Close() error {
	s.release()
	return s.store.Close()
}

func (s *Server) release() { s.closeOnce.Do(func() { close(s.closing) }) }

const (
	headerTimeout   = 10 * time.Second // a client that trickles its headers
	readTimeout     = 30 * time.Second // a whole request; wake extends it
	writeTimeout    = 30 * time.Second // a whole answer; wake and downloads extend it
	idleTimeout     = 2 * time.Minute
	shutdownTimeout = 10 * time.Second
	maxHeaderBytes  = 64 << 10
)

// Serve serves HTTP on the listener until the context ends, then answers held
// requests, lets others finish and returns nil. It closes the listener.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          zap.NewStdLog(s.log.Named("http")),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	s.log.Info("control plane listens", zap.Stringer("address", listener.Addr()), zap.Bool("production", s.config.Production))
	select {
	case err := <-served:
		return fmt.Errorf("serve on %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	s.release()
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	err := server.Shutdown(stop)
	if err != nil {
		err = errors.Join(fmt.Errorf("finish open requests: %w", err), server.Close())
	}
	if end := <-served; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	return err
}
