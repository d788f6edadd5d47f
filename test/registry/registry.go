// Package registry is an image registry for tests and demonstrations, in this
// process, with the credentials and the bad days of real ones.
//
// It serves plain http on a loopback address, which Docker and containerd both
// accept without configuration, and keeps its images in memory. Every request
// is counted, those that a fault answered included. One goroutine serves and
// one runs for each connection; Close ends and waits for them all.
package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	store "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Options configure a registry; the zero value is open to all and has a free
// port.
type Options struct {
	Addr     string // loopback "host:port"; "127.0.0.1:0" if empty
	Username string // credentials asked for; no authentication if empty
	Password string
	Token    bool // hand out bearer tokens for the credentials, as large registries do
}

// Registry is a running registry. Its methods may be called at any time from
// any goroutine; faults act on requests that arrive after they were set.
type Registry struct {
	// configuration, never changes
	addr   string
	access access

	// dependencies, never change
	images http.Handler
	web    *http.Server
	cancel context.CancelFunc // ends requests that a fault holds
	served chan error

	// state
	requests    counter
	connections sync.WaitGroup // added to by the serving goroutine alone
	mu          sync.Mutex
	faults      []fault
}

// Start listens and serves until Close.
func Start(o Options) (*Registry, error) {
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	if o.Token && o.Username == "" {
		return nil, errors.New("start registry: tokens need a username and a password")
	}
	ctx, cancel := context.WithCancel(context.Background())
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", o.Addr)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("start registry: %w", err)
	}
	if tcp, ok := listener.Addr().(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		cancel()
		return nil, errors.Join(fmt.Errorf("start registry: %s is not a loopback address", o.Addr), listener.Close())
	}
	quiet := log.New(io.Discard, "", 0)
	r := &Registry{
		addr:   listener.Addr().String(),
		images: store.New(store.Logger(quiet)),
		cancel: cancel,
		served: make(chan error, 1),
	}
	r.access = access{username: o.Username, password: o.Password, bearer: o.Token, realm: "http://" + r.addr + tokenPath}
	r.web = &http.Server{
		Handler:           r,
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnState:         r.track,
		ErrorLog:          quiet,
	}
	go func() { r.served <- r.web.Serve(listener) }()
	return r, nil
}

// Addr is the "host:port" to use in image references.
func (r *Registry) Addr() string { return r.addr }

// Ref completes "repo:tag" or "repo@digest" to a reference into this registry.
func (r *Registry) Ref(image string) string { return r.addr + "/" + image }

// Close drops all connections, held requests included, and returns when no
// connection is being served any more.
func (r *Registry) Close() error {
	r.cancel()
	err := r.web.Close()
	if serveErr := <-r.served; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	r.connections.Wait()
	if err != nil {
		return fmt.Errorf("close registry %s: %w", r.addr, err)
	}
	return nil
}

func (r *Registry) track(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		r.connections.Add(1)
	case http.StateClosed:
		r.connections.Done()
	case http.StateActive, http.StateIdle, http.StateHijacked: // no handler hijacks
	}
}

// Push stores the image as "repo:tag" and returns the full reference. It does
// not go through the network, so that neither credentials nor faults nor the
// counts have a part in it.
func (r *Registry) Push(img v1.Image, image string) (string, error) {
	ref, err := name.ParseReference(r.Ref(image))
	if err != nil {
		return "", fmt.Errorf("push image: %w", err)
	}
	if err := remote.Write(ref, img, remote.WithTransport(direct{r.images})); err != nil {
		return "", fmt.Errorf("push image %s: %w", ref, err)
	}
	return ref.String(), nil
}

// direct is a transport that ends in a handler.
type direct struct{ handler http.Handler }

func (d direct) RoundTrip(req *http.Request) (*http.Response, error) {
	answer := httptest.NewRecorder()
	inbound := req.Clone(req.Context())
	if inbound.Body == nil {
		inbound.Body = http.NoBody
	}
	defer inbound.Body.Close()
	d.handler.ServeHTTP(answer, inbound)
	response := answer.Result()
	response.Request = req
	return response, nil
}

// ServeHTTP counts the request, applies the faults and the authentication, and
// serves it.
func (r *Registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.requests.count(req)
	if req.URL.Path == tokenPath && r.access.bearer {
		r.access.serveToken(w, req)
		return
	}
	r.mu.Lock()
	front, back := r.matching(req)
	r.mu.Unlock()
	handler := r.images
	for _, f := range back {
		handler = f.wrap(handler)
	}
	handler = r.access.require(handler)
	for _, f := range front {
		handler = f.wrap(handler)
	}
	handler.ServeHTTP(w, req)
}

// Match selects requests.
type Match func(*http.Request) bool

// Any matches each request for the registry's own paths.
func Any(req *http.Request) bool { return strings.HasPrefix(req.URL.Path, "/v2") }

// Manifests matches requests that read a manifest.
func Manifests(req *http.Request) bool {
	return isRead(req) && strings.Contains(req.URL.Path, "/manifests/")
}

// Blobs matches requests that read a blob: a layer or an image's config.
func Blobs(req *http.Request) bool {
	return isRead(req) && strings.Contains(req.URL.Path, "/blobs/")
}

func isRead(req *http.Request) bool {
	return req.Method == http.MethodGet || req.Method == http.MethodHead
}
