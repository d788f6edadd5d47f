// Package client is the typed HTTP client of the control-plane protocol: the only way
// the agent speaks to the outside. It turns every answer into a value or into one of
// the error classes of errors.go, and shows the system key to nobody but the server.
//
// It retries nothing by itself: whether a call may be repeated is its caller's to know.
// It starts no goroutines beyond those of net/http.
package client

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/agent/config"
	"github.com/heteroflow/node-agent/protocol"
)

// maxBody bounds an answer: 200 tasks with generous environments fit.
const maxBody = 16 << 20

// Options make a Client.
type Options struct {
	BaseURL    string
	NodeID     string
	ReadKey    func() (config.Secret, error) // called for the first request and after each 401
	Timeout    time.Duration                 // of one call, heartbeat and wake aside
	TLS        TLSFiles
	Version    string // of the agent, for User-Agent
	Commit     string
	Log        *zap.Logger
	HTTPClient *http.Client // for tests; nil: a transport made for one server
}

// Client speaks to one control plane as one node. It is safe for concurrent use.
type Client struct {
	base      string
	nodeID    string
	timeout   time.Duration
	userAgent string
	http      *http.Client
	key       keyring
	localAddr atomic.Pointer[netip.Addr]
	failures  atomic.Int32 // calls in a row that got no answer at all
}

// New makes a client. It fails on TLS files that cannot be used; the key
// is read when it is first needed.
func New(opts Options) (*Client, error) {
	c := &Client{
		base:      strings.TrimRight(opts.BaseURL, "/"),
		nodeID:    opts.NodeID,
		timeout:   opts.Timeout,
		userAgent: fmt.Sprintf("heteroflow-agent/%s (%s; linux/%s)", opts.Version, opts.Commit, runtime.GOARCH),
		http:      opts.HTTPClient,
		key:       keyring{read: opts.ReadKey, log: opts.Log},
	}
	if c.http == nil {
		transport, err := newTransport(opts.TLS)
		if err != nil {
			return nil, err
		}
		c.http = &http.Client{Transport: transport}
	}
	c.http.CheckRedirect = sameOriginOnly
	return c, nil
}

// NodeID is the node the client speaks for.
func (c *Client) NodeID() string { return c.nodeID }

// Unauthorized reports whether the server refused the key in the last call.
func (c *Client) Unauthorized() bool { return c.key.refused.Load() }

// LocalAddr is this machine's address on the connection last used, hence that of the
// interface which routes to the control plane. It is invalid before the first call.
func (c *Client) LocalAddr() netip.Addr {
	if a := c.localAddr.Load(); a != nil {
		return *a
	}
	return netip.Addr{}
}

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

type call struct {
	op      string // verb phrase for errors: "claim task 7"
	method  string
	path    string
	query   url.Values
	body    any
	gzip    bool
	timeout time.Duration
}

// do makes one request and decodes a 2xx answer into out.
func (c *Client) do(ctx context.Context, call call, out any) error {
	ctx, cancel := context.WithTimeout(ctx, call.timeout)
	defer cancel()
	req, err := c.request(ctx, call)
	if err != nil {
		return fmt.Errorf("%s: %w", call.op, err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		c.noteNoAnswer()
		return &Error{Op: call.op, class: ErrRetryable, Message: "no answer from the control plane", cause: unwrapURLError(err)}
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err != nil {
		c.noteNoAnswer()
		return &Error{Op: call.op, Status: resp.StatusCode, class: ErrRetryable, Message: "the answer broke off", cause: err}
	}
	c.failures.Store(0)
	if err := decode(resp, data, call.op, out); err != nil {
		c.key.note(err)
		return err
	}
	c.key.note(nil)
	return nil
}

func (c *Client) request(ctx context.Context, call call) (*http.Request, error) {
	key, err := c.key.get()
	if err != nil {
		return nil, err
	}
	body, encoding, err := encode(call)
	if err != nil {
		return nil, err
	}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: c.noteConn})
	target := c.base + call.path // paths of the protocol are escaped already
	if len(call.query) > 0 {
		target += "?" + call.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, call.method, target, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set(protocol.HeaderAPIKey, string(key))
	req.Header.Set("User-Agent", c.userAgent)
	req.Header.Set("Accept", "application/json")
	if call.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if encoding != "" {
		req.Header.Set("Content-Encoding", encoding)
	}
	return req, nil
}

func encode(call call) (body io.Reader, encoding string, err error) {
	if call.body == nil {
		return nil, "", nil
	}
	data, err := json.Marshal(call.body)
	if err != nil {
		return nil, "", fmt.Errorf("encode the request: %w", err)
	}
	if !call.gzip {
		return bytes.NewReader(data), "", nil
	}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if err != nil {
		return nil, "", fmt.Errorf("compress the request: %w", err)
	}
	if _, err := w.Write(data); err != nil {
		return nil, "", fmt.Errorf("compress the request: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, "", fmt.Errorf("compress the request: %w", err)
	}
	return &packed, "gzip", nil
}

// decode turns an answer into out or into an *Error. A body that is not the protocol's
// JSON did not come from the control plane, whatever its status says: a proxy's 404
// page must never read as "the task was deleted".
func decode(resp *http.Response, data []byte, op string, out any) error {
	garbled := func(what string, cause error) error {
		return &Error{Op: op, Status: resp.StatusCode, class: ErrRetryable, Message: what, RetryAfter: retryAfter(resp), cause: cause}
	}
	if len(data) > maxBody {
		return garbled(fmt.Sprintf("the answer is larger than %d bytes", maxBody), nil)
	}
	if media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); strings.Contains(media, "html") {
		return garbled("the answer is a web page: is there a proxy in between?", nil)
	}
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		if err := json.Unmarshal(data, out); err != nil {
			return garbled("the answer is not the JSON expected", err)
		}
		return nil
	}
	var body protocol.ErrorBody
	if err := json.Unmarshal(data, &body); err != nil || body.Error.Code == "" {
		return garbled("an error without the control plane's error body", err)
	}
	return &Error{
		Op: op, Status: resp.StatusCode, Code: body.Error.Code, Message: body.Error.Message,
		Task: body.Task, RetryAfter: retryAfter(resp), class: classOf(resp.StatusCode),
	}
}

func (c *Client) noteConn(info httptrace.GotConnInfo) {
	if addr, err := netip.ParseAddrPort(info.Conn.LocalAddr().String()); err == nil {
		ip := addr.Addr().Unmap()
		c.localAddr.Store(&ip)
	}
}

// noteNoAnswer drops pooled connections after two calls without an answer: behind a
// load balancer a connection can be dead without either end being told.
func (c *Client) noteNoAnswer() {
	if c.failures.Add(1) >= 2 {
		c.http.CloseIdleConnections()
	}
}
