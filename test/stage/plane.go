package stage

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/devserver"
	"github.com/heteroflow/node-agent/devserver/faults"
	"github.com/heteroflow/node-agent/devserver/operator"
	"github.com/heteroflow/node-agent/protocol"
)

// The keys of a staged control plane. They carry a mark that must turn up nowhere in what
// the agent writes.
const (
	SystemKey     = "system-key-MARK-0123456789"
	OperatorToken = "operator-token-MARK-0123456789"
)

// Plane is the reference control plane in this process, on a loopback address, with
// faults to order.
type Plane struct {
	URL      string
	Operator *operator.Client
	Faults   *faults.Injector

	dir      string
	features devserver.Features
	addr     string
	server   *devserver.Server
	http     *http.Server
	served   sync.WaitGroup
}

// StartPlane starts a control plane whose database lies in dir.
func StartPlane(ctx context.Context, dir string, features devserver.Features) (*Plane, error) {
	p := &Plane{dir: dir, features: features, addr: "127.0.0.1:0", Faults: faults.New()}
	if err := p.Start(ctx, SystemKey); err != nil {
		return nil, err
	}
	return p, nil
}

// Start starts the control plane, again on its former address and database, with the
// given system key.
func (p *Plane) Start(ctx context.Context, key protocol.Secret) error {
	server, err := devserver.New(ctx, devserver.Config{
		Database: filepath.Join(p.dir, "plane.db"), SystemKey: key, OperatorToken: OperatorToken,
		Features: p.features, Logger: zap.NewNop(),
	})
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", p.addr)
	if err != nil {
		return errors.Join(err, server.Close())
	}
	p.addr = listener.Addr().String()
	p.URL = "http://" + p.addr
	p.Operator = operator.NewClient(p.URL, OperatorToken)
	p.server = server
	p.http = &http.Server{Handler: p.Faults.Wrap(server.Handler()), ReadHeaderTimeout: 10 * time.Second}
	p.served.Go(func() { _ = p.http.Serve(listener) }) // it ends with Stop, and an earlier end fails what is played
	return nil
}

// Stop stops the control plane, cutting every connection. It can be started again.
func (p *Plane) Stop() error {
	p.Faults.Release()
	err := errors.Join(p.http.Close(), p.server.Close())
	p.served.Wait()
	return err
}
