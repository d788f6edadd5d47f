package client_test

import (
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/agent/client"
	"github.com/heteroflow/node-agent/agent/config"
)

// balancer passes connections on to a server, and forgets those it has when it is told to:
// it goes on taking what comes on them, passes nothing on and says nothing.
type balancer struct {
	net.Listener

	to      string
	epoch   atomic.Int64
	copying sync.WaitGroup
}

func (b *balancer) serve() {
	for {
		in, err := b.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", b.to)
		if err != nil {
			in.Close()
			continue
		}
		epoch := b.epoch.Load()
		b.copying.Go(func() { b.pass(out, in, epoch) })
		b.copying.Go(func() { b.pass(in, out, epoch) })
	}
}

// pass ends when either side is closed.
func (b *balancer) pass(to, from net.Conn, epoch int64) {
	defer to.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err == nil && b.epoch.Load() == epoch {
			_, err = to.Write(buffer[:n])
		}
		if err != nil {
			return
		}
	}
}

func TestAConnectionThatABalancerForgotIsReplaced(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("the request came by %s", r.Proto)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"7","status":"running"}`)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{Listener: listener, to: server.Listener.Addr().String()}
	b.copying.Go(b.serve)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(client.Options{
		BaseURL: "https://" + listener.Addr().String(), NodeID: "n1", Timeout: time.Second, Log: zap.NewNop(),
		ReadKey: func() (config.Secret, error) { return marker, nil }, TLS: client.TLSFiles{CA: ca},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer b.copying.Wait()
	defer listener.Close()
	defer c.Close()
	ask := func() error { _, err := c.Task(t.Context(), "7"); return err }
	for deadline := time.Now().Add(time.Minute); ask() != nil; {
		if time.Now().After(deadline) {
			t.Fatalf("no answer from the start: %v", ask())
		}
	}
	b.epoch.Add(1)
	for deadline := time.Now().Add(time.Minute); ask() != nil; {
		if time.Now().After(deadline) {
			t.Fatal("the forgotten connection is used for a minute")
		}
	}
}
