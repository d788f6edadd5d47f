package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// server answers as an OpenAI-compatible inference engine does to the agent's
// probes. It is healthy from readyAfter until unhealthyAfter (never, if that is
// 0) unless it was marked unhealthy over HTTP.
type server struct {
	model          string
	readyAfter     time.Duration
	unhealthyAfter time.Duration

	started time.Time
	marked  atomic.Bool
}

func serve(ctx context.Context, s streams, args []string) (int, error) {
	var srv server
	flags := newFlags("serve", s)
	host := flags.String("host", "", "`address` to listen on (default all)")
	port := flags.Int("port", 8000, "TCP `port`, 0 for any")
	flags.StringVar(&srv.model, "model", "test-model", "`name` in /v1/models")
	flags.DurationVar(&srv.readyAfter, "ready-after", 0, "answer 503 for this `time` first")
	flags.DurationVar(&srv.unhealthyAfter, "unhealthy-after", 0, "answer 503 after this `time` (0: never)")
	if err := parse(flags, args, 0, 0); err != nil {
		return exitUsage, err
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", net.JoinHostPort(*host, strconv.Itoa(*port)))
	if err != nil {
		return exitError, fmt.Errorf("serve %s: %w", srv.model, err)
	}
	fmt.Fprintf(s.out, "serving %s on %s\n", srv.model, listener.Addr())
	srv.started = time.Now()
	if err := serveUntil(ctx, listener, srv.handler()); err != nil {
		return exitError, fmt.Errorf("serve %s: %w", srv.model, err)
	}
	fmt.Fprintln(s.out, "stopped serving")
	return exitOK, nil
}

// serveUntil serves on listener until ctx ends and lets requests under way
// finish for at most 5 s.
func serveUntil(ctx context.Context, listener net.Listener, handler http.Handler) error {
	web := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- web.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err := web.Shutdown(grace)
	if serveErr := <-served; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	return err
}

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", s.health)
	mux.HandleFunc("GET /v1/models", s.models)
	mux.HandleFunc("POST /admin/unhealthy", func(w http.ResponseWriter, _ *http.Request) {
		s.marked.Store(true)
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("POST /admin/healthy", func(w http.ResponseWriter, _ *http.Request) {
		s.marked.Store(false)
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}

func (s *server) healthy() bool {
	age := time.Since(s.started)
	expired := s.unhealthyAfter > 0 && age >= s.unhealthyAfter
	return age >= s.readyAfter && !expired && !s.marked.Load()
}

func (s *server) health(w http.ResponseWriter, _ *http.Request) {
	if !s.healthy() {
		http.Error(w, "unhealthy", http.StatusServiceUnavailable)
	}
}

func (s *server) models(w http.ResponseWriter, _ *http.Request) {
	type model struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Created int64  `json:"created"`
		OwnedBy string `json:"owned_by"`
	}
	body, err := json.Marshal(struct {
		Object string  `json:"object"`
		Data   []model `json:"data"`
	}{"list", []model{{s.model, "model", s.started.Unix(), "heteroflow"}}})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // a client that went away is not our concern
}
