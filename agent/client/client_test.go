package client_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/heteroflow/node-agent/agent/client"
	"github.com/heteroflow/node-agent/agent/config"
	"github.com/heteroflow/node-agent/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const marker = "key-mark-0123456789"

func connect(t *testing.T, handler http.HandlerFunc) *client.Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return newClient(t, server.URL, func() (config.Secret, error) { return marker, nil }, zap.NewNop())
}

func newClient(t *testing.T, url string, key func() (config.Secret, error), log *zap.Logger) *client.Client {
	t.Helper()
	c, err := client.New(client.Options{BaseURL: url, NodeID: "n1", ReadKey: key, Timeout: time.Minute, Version: "v1", Commit: "abc", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestEachAnswerHasOneClass(t *testing.T) {
	protocolError := `{"error":{"code":"some_code","message":"some message"}}`
	cases := map[string]struct {
		status      int
		contentType string
		body        string
		want        error
	}{
		"401":                            {401, "application/json", protocolError, client.ErrUnauthorized},
		"403":                            {403, "application/json", protocolError, client.ErrForbidden},
		"404":                            {404, "application/json", protocolError, client.ErrNotFound},
		"409":                            {409, "application/json", protocolError, client.ErrConflict},
		"408":                            {408, "application/json", protocolError, client.ErrRetryable},
		"429":                            {429, "application/json", protocolError, client.ErrRetryable},
		"500":                            {500, "application/json", protocolError, client.ErrRetryable},
		"422":                            {422, "application/json", protocolError, client.ErrRefused},
		"a proxy's 404 page":             {404, "text/html", "<html>not found</html>", client.ErrRetryable},
		"a 404 in plain text":            {404, "text/plain", "404 page not found", client.ErrRetryable},
		"a 404 with other JSON":          {404, "application/json", `{"detail":"no route"}`, client.ErrRetryable},
		"a 409 of a proxy":               {409, "text/html", "<html>", client.ErrRetryable},
		"a 200 with a login page":        {200, "text/html; charset=utf-8", "<html>sign in</html>", client.ErrRetryable},
		"a 200 with garbage":             {200, "application/json", `{"id":`, client.ErrRetryable},
		"a 200 about another task":       {200, "application/json", `{"id":"8","status":"running"}`, client.ErrRetryable},
		"a 200 without a status":         {200, "application/json", `{"id":"7"}`, client.ErrRetryable},
		"a 200 with null":                {200, "application/json", `null`, client.ErrRetryable},
		"a 502 page":                     {502, "text/html", "<html>bad gateway</html>", client.ErrRetryable},
		"a redirect to another host":     {302, "application/json", "", client.ErrRetryable},
		"an error with an empty message": {404, "application/json", `{"error":{"code":"not_found"}}`, client.ErrNotFound},
	}
	classes := []error{client.ErrUnauthorized, client.ErrForbidden, client.ErrNotFound, client.ErrConflict, client.ErrRefused, client.ErrRetryable}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := connect(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", tc.contentType)
				w.Header().Set("Location", "http://127.0.0.2:1/elsewhere")
				w.WriteHeader(tc.status)
				_, _ = io.WriteString(w, tc.body)
			})
			_, err := c.Task(t.Context(), "7")
			for _, class := range classes {
				if got, want := errors.Is(err, class), errors.Is(tc.want, class); got != want {
					t.Errorf("%v: is %v: %v, want %v", err, class, got, want)
				}
			}
			if strings.Contains(fmt.Sprintf("%v %+v", err, err), marker) {
				t.Error("the error shows the key")
			}
		})
	}
}

func TestNoAnswerIsRetryable(t *testing.T) {
	cases := map[string]http.HandlerFunc{
		"a connection cut before the answer": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"a connection cut within the body": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"id":"7"`)
		},
		"an answer larger than the bound": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.Copy(w, io.LimitReader(zeros{}, 17<<20))
		},
	}
	for name, handler := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := connect(t, handler).Task(t.Context(), "7"); !errors.Is(err, client.ErrRetryable) {
				t.Fatalf("got %v", err)
			}
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestAConflictCarriesTheTaskAsItIs(t *testing.T) {
	c := connect(t, func(w http.ResponseWriter, r *http.Request) {
		var update protocol.TaskUpdate
		if err := json.NewDecoder(r.Body).Decode(&update); err != nil || update.NodeID != "n1" {
			t.Errorf("update %+v, %v", update, err)
		}
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"error":{"code":"conflict","message":"m"},"task":{"id":"7","status":"failed","node_id":"n2"}}`)
	})
	_, err := c.UpdateTask(t.Context(), "7", protocol.TaskUpdate{FromStatus: protocol.StatusRunning, Status: protocol.StatusCompleted})
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Task == nil || e.Task.Status != protocol.StatusFailed || e.Task.NodeID != "n2" {
		t.Fatalf("got %+v", err)
	}
}

func TestTheKeyGoesToTheServerAndNowhereElse(t *testing.T) {
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	c := connect(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(protocol.HeaderAPIKey) != marker || strings.Contains(r.URL.String(), marker) {
			t.Errorf("header %q, url %s", r.Header.Get(protocol.HeaderAPIKey), r.URL)
		}
		if want := "heteroflow-agent/v1 (abc; linux/"; !strings.HasPrefix(r.UserAgent(), want) {
			t.Errorf("user agent %q", r.UserAgent())
		}
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	})
	if _, err := c.Heartbeat(t.Context(), protocol.Heartbeat{}, false, time.Minute); !errors.Is(err, client.ErrRetryable) {
		t.Fatalf("got %v", err)
	}
	if elsewhere.Load() != 0 {
		t.Fatal("a redirect to another host was followed")
	}
}

func TestARefusedKeyIsReadAgainAndLoggedOnce(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(protocol.HeaderAPIKey) != "the right key" {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"error":{"code":"unauthorized","message":"wrong key"}}`)
			return
		}
		_, _ = io.WriteString(w, `{"tasks":[]}`)
	}))
	defer server.Close()
	key := config.Secret("the wrong key")
	c := newClient(t, server.URL, func() (config.Secret, error) { return key, nil }, zap.New(core))

	for range 3 {
		if _, err := c.Tasks(t.Context(), 20, protocol.StatusScheduled); !errors.Is(err, client.ErrUnauthorized) {
			t.Fatalf("got %v", err)
		}
	}
	if !c.Unauthorized() || logs.Len() != 1 || logs.All()[0].Level != zap.ErrorLevel {
		t.Fatalf("unauthorized %v, log %v", c.Unauthorized(), logs.All())
	}
	key = "the right key"
	if _, err := c.Tasks(t.Context(), 20, protocol.StatusScheduled); err != nil {
		t.Fatal(err)
	}
	if c.Unauthorized() || logs.Len() != 2 || logs.All()[1].Level != zap.InfoLevel {
		t.Fatalf("unauthorized %v, log %v", c.Unauthorized(), logs.All())
	}
}

func TestAHeartbeatIsCompressedWhenAskedFor(t *testing.T) {
	c := connect(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Content-Encoding") != "gzip" {
			t.Error("not compressed")
		}
		body, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		var hb protocol.Heartbeat
		if err := json.NewDecoder(body).Decode(&hb); err != nil || hb.Sequence != 5 {
			t.Errorf("%+v, %v", hb, err)
		}
		_, _ = io.WriteString(w, `{}`)
	})
	if _, err := c.Heartbeat(t.Context(), protocol.Heartbeat{Sequence: 5}, true, time.Minute); err != nil {
		t.Fatal(err)
	}
	if !c.LocalAddr().IsLoopback() {
		t.Fatalf("local address %v", c.LocalAddr())
	}
}

func TestPause(t *testing.T) {
	unauthorized := fmt.Errorf("x: %w", client.ErrUnauthorized)
	throttled := &client.Error{RetryAfter: 20 * time.Second}
	const period = 5 * time.Second
	cases := map[string]struct {
		err      error
		failures int
		want     time.Duration
	}{
		"any other error keeps the period":          {errors.New("x"), 9, period},
		"the first refusal keeps the period":        {unauthorized, 1, period},
		"refusals double the pause":                 {unauthorized, 3, 4 * period},
		"up to a minute":                            {unauthorized, 1000, time.Minute},
		"Retry-After is honoured when it is longer": {throttled, 1, 20 * time.Second},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := client.Pause(tc.err, tc.failures, period); got != tc.want {
				t.Fatalf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestRetryAfterIsReadAsSecondsOrDateAndCapped(t *testing.T) {
	cases := map[string]struct {
		header    string
		low, high time.Duration
	}{
		"seconds":          {"7", 7 * time.Second, 7 * time.Second},
		"an hour":          {"3600", time.Minute, time.Minute},
		"a negative":       {"-5", 0, 0},
		"nonsense":         {"soon", 0, 0},
		"a date":           {time.Now().Add(50 * time.Second).UTC().Format(http.TimeFormat), 20 * time.Second, 50 * time.Second},
		"a date long gone": {"Mon, 01 Jan 2001 00:00:00 GMT", 0, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := connect(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", tc.header)
				w.WriteHeader(http.StatusTooManyRequests)
			})
			_, err := c.Task(t.Context(), "7")
			if got := client.RetryAfter(err); got < tc.low || got > tc.high {
				t.Fatalf("got %v, want %v to %v", got, tc.low, tc.high)
			}
		})
	}
}

func TestARetryAfterDateIsByTheClockOfTheServerThatSaysIt(t *testing.T) {
	for _, ahead := range []time.Duration{-2 * time.Hour, 2 * time.Hour} {
		c := connect(t, func(w http.ResponseWriter, _ *http.Request) {
			now := time.Now().Add(ahead).UTC()
			w.Header().Set("Date", now.Format(http.TimeFormat))
			w.Header().Set("Retry-After", now.Add(30*time.Second).Format(http.TimeFormat))
			w.WriteHeader(http.StatusTooManyRequests)
		})
		_, err := c.Task(t.Context(), "7")
		if got := client.RetryAfter(err); got != 30*time.Second {
			t.Errorf("with a clock that is %v ahead: %v", ahead, got)
		}
	}
}

func TestIdentifiersCannotEscapeTheirPath(t *testing.T) {
	c := connect(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.EscapedPath() != "/api/v1/tasks/..%2F..%2Foperator" {
			t.Errorf("path %s", r.URL.EscapedPath())
		}
	})
	_, _ = c.Task(t.Context(), "../../operator")
}

func BenchmarkDecodeTaskList(b *testing.B) {
	var tasks protocol.TaskList
	for i := range 20 {
		tasks.Tasks = append(tasks.Tasks, protocol.Task{
			ID: fmt.Sprint("task-", i), Status: protocol.StatusScheduled, Image: "registry.example/team/train:v1",
			Env: []string{"A=1", "B=2", "C=3"}, Args: []string{"--lr", "0.1"}, MemoryBytes: 64 << 30,
		})
	}
	body, err := json.Marshal(tasks)
	if err != nil {
		b.Fatal(err)
	}
	c, err := client.New(client.Options{
		NodeID: "n1", Timeout: time.Second, Log: zap.NewNop(),
		BaseURL:    "http://plane.example",
		ReadKey:    func() (config.Secret, error) { return marker, nil },
		HTTPClient: &http.Client{Transport: canned(body)},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if list, err := c.Tasks(b.Context(), 20, protocol.StatusScheduled); err != nil || len(list) != 20 {
			b.Fatal(len(list), err)
		}
	}
}

// canned answers every request with itself, without a network.
type canned []byte

func (c canned) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(c))}, nil
}
