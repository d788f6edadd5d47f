package devserver

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/heteroflow/node-agent/devserver/operator"
	"github.com/heteroflow/node-agent/devserver/store"
	"github.com/heteroflow/node-agent/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	systemKey     = "system-key-of-the-tests"
	operatorToken = "operator-token-of-the-tests"
)

// plane is a control plane on a loopback port, with both kinds of client.
type plane struct {
	*operator.Client
	t      *testing.T
	server *Server
	url    string
	http   *http.Client
	key    string
}

func start(t *testing.T, configure ...func(*Config)) *plane {
	t.Helper()
	config := Config{
		Database: filepath.Join(t.TempDir(), "plane.db"), SystemKey: systemKey, OperatorToken: operatorToken, Production: true,
		Logger: zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel)),
	}
	for _, change := range configure {
		change(&config)
	}
	server, err := New(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, listener) }()
	url := "http://" + listener.Addr().String()
	p := &plane{
		Client: operator.NewClient(url, operatorToken), t: t, server: server, url: url, key: systemKey,
		http: &http.Client{Transport: &http.Transport{}, Timeout: 30 * time.Second},
	}
	t.Cleanup(func() {
		p.http.CloseIdleConnections()
		http.DefaultClient.CloseIdleConnections()
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
		if err := server.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return p
}

// result is an answer with its body read.
type result struct {
	status int
	header http.Header
	body   []byte
}

// do makes a request as an agent. body is sent as it is when it is a string
// or bytes, else as JSON.
func (p *plane) do(method, path string, body any, headers ...string) result {
	p.t.Helper()
	var payload []byte
	switch b := body.(type) {
	case nil:
	case []byte:
		payload = b
	case string:
		payload = []byte(b)
	default:
		var err error
		if payload, err = json.Marshal(body); err != nil {
			p.t.Fatal(err)
		}
	}
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, bytes.NewReader(payload))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set(protocol.HeaderAPIKey, p.key)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := p.http.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		p.t.Fatal(err)
	}
	return result{status: resp.StatusCode, header: resp.Header, body: data}
}

// decode reads an answer that must have the status.
func decode[T any](t *testing.T, r result, status int) T {
	t.Helper()
	if r.status != status {
		t.Fatalf("got status %d, want %d: %s", r.status, status, r.body)
	}
	var v T
	if err := json.Unmarshal(r.body, &v); err != nil {
		t.Fatalf("decode %s: %v", r.body, err)
	}
	return v
}

// refused checks that an answer is an error of the protocol's shape.
func refused(t *testing.T, r result, status int, code string) protocol.ErrorBody {
	t.Helper()
	body := decode[protocol.ErrorBody](t, r, status)
	if body.Error.Code != code || body.Error.Message == "" || r.header.Get("Content-Type") != "application/json" {
		t.Errorf("got code %q, want %q; message %q; type %q", body.Error.Code, code, body.Error.Message, r.header.Get("Content-Type"))
	}
	return body
}

// must returns the value of a call that may not fail.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func (p *plane) create(id, node string) operator.Task {
	p.t.Helper()
	return must(p.CreateTask(p.t.Context(), protocol.Task{ID: id, NodeID: node, Image: "busybox"}))(p.t)
}

func (p *plane) put(id string, u protocol.TaskUpdate) result {
	p.t.Helper()
	return p.do(http.MethodPut, protocol.TaskPath(id), u)
}

// move makes an agent's step that must succeed.
func (p *plane) move(id, node string, from, to protocol.TaskStatus) {
	p.t.Helper()
	decode[protocol.Task](p.t, p.put(id, protocol.TaskUpdate{NodeID: node, FromStatus: from, Status: to}), http.StatusOK)
}

// serveOnce handles one request without a connection.
func serveOnce(b *testing.B, server *Server, method, path string, body []byte) int {
	b.Helper()
	r := httptest.NewRequestWithContext(b.Context(), method, path, bytes.NewReader(body))
	r.Header.Set(protocol.HeaderAPIKey, systemKey)
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	server.Handler().ServeHTTP(w, r)
	return w.Code
}

func nodeAt(said protocol.NodeState, received time.Time) store.Node {
	return store.Node{ReceivedAt: &received, Kept: store.Kept{State: said}}
}
