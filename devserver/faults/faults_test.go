package faults

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const realAnswer = `{"tasks":[]}`

// spoiled is a server behind an injector that counts what is handled.
func spoiled(t *testing.T, list ...Fault) (*Injector, string, *atomic.Int64) {
	t.Helper()
	injector := New()
	for _, f := range list {
		injector.Add(f)
	}
	var handled atomic.Int64
	server := httptest.NewServer(injector.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		handled.Add(1)
		w.Header().Set("X-Real", "yes")
		_, _ = io.WriteString(w, realAnswer)
	})))
	t.Cleanup(func() {
		injector.Release()
		http.DefaultClient.CloseIdleConnections()
		server.Close()
	})
	return injector, server.URL, &handled
}

func get(ctx context.Context, method, url string) (status int, body string, err error) {
	req, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data), errors.Join(err, resp.Body.Close())
}

func TestEachFaultSpoilsAsItSays(t *testing.T) {
	for name, c := range map[string]struct {
		fault   Fault
		status  int
		body    string
		broken  bool // the client sees an error
		handled int64
	}{
		"a status":             {Fault{Kind: Status, Status: 503}, 503, `"code":"injected"`, false, 0},
		"a page instead":       {Fault{Kind: HTMLPage}, 200, "<html>", false, 0},
		"a page with 502":      {Fault{Kind: HTMLPage, Status: 502}, 502, "<html>", false, 0},
		"garbage":              {Fault{Kind: Garbage}, 200, `"cut`, false, 0},
		"a slow body":          {Fault{Kind: SlowBody, Delay: time.Millisecond}, 200, realAnswer, false, 1},
		"half an answer":       {Fault{Kind: HalfClose}, 200, realAnswer[:len(realAnswer)/2], true, 1},
		"a reset":              {Fault{Kind: Reset}, 0, "", true, 0},
		"a lost answer":        {Fault{Kind: DropResponse}, 0, "", true, 1},
		"a delay":              {Fault{Kind: Delay, Delay: time.Millisecond}, 200, realAnswer, false, 1},
		"a fault of elsewhere": {Fault{Kind: Reset, PathPrefix: "/other"}, 200, realAnswer, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			_, url, handled := spoiled(t, c.fault)
			status, body, err := get(t.Context(), http.MethodPost, url+"/x")
			if status != c.status || !strings.Contains(body, c.body) || (err != nil) != c.broken || handled.Load() != c.handled {
				t.Errorf("got %d %q, %v, handled %d", status, body, err, handled.Load())
			}
		})
	}
}

func TestFaultsAreCountedSkippedAndChosenInOrder(t *testing.T) {
	injector, url, _ := spoiled(t,
		Fault{Kind: Status, Status: 500, Method: http.MethodPut, PathPrefix: "/tasks/", Skip: 1, Count: 2},
		Fault{Kind: Status, Status: 429, Match: func(r *http.Request) bool { return r.URL.Query().Has("slow") }},
	)
	var got []int
	for range 5 {
		status, _, err := get(t.Context(), http.MethodPut, url+"/tasks/1?slow")
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, status)
	}
	if want := []int{429, 500, 500, 429, 429}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if status, _, err := get(t.Context(), http.MethodGet, url+"/tasks/1"); err != nil || status != 200 {
		t.Errorf("another method: %d, %v", status, err)
	}
	injector.Clear()
	if status, _, err := get(t.Context(), http.MethodPut, url+"/tasks/1?slow"); err != nil || status != 200 {
		t.Errorf("after Clear: %d, %v", status, err)
	}
	handle := injector.Add(Fault{Kind: Status, Status: 418})
	if status, _, err := get(t.Context(), http.MethodGet, url); err != nil || status != 418 || handle.Hits() != 1 {
		t.Errorf("%d, %v, %d hits", status, err, handle.Hits())
	}
	handle.Remove()
	if status, _, err := get(t.Context(), http.MethodGet, url); err != nil || status != 200 {
		t.Errorf("after Remove: %d, %v", status, err)
	}
}

func TestAHungRequestEndsWithItsClientOrOnRelease(t *testing.T) {
	injector, url, handled := spoiled(t, Fault{Kind: Hang})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, _, err := get(ctx, http.MethodGet, url); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	injector.Clear()
	handle := injector.Add(Fault{Kind: Hang, Method: http.MethodPost})
	ended := make(chan error, 1)
	go func() { _, _, err := get(t.Context(), http.MethodPost, url); ended <- err }()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for handle.Hits() == 0 {
		<-tick.C
	}
	injector.Release()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("a hung request was answered")
		}
	case <-time.After(time.Minute):
		t.Error("a hung request outlives Release")
	}
	if handled.Load() != 0 {
		t.Error("a hung request was handled")
	}
}

func TestARetryAfterIsPassedOn(t *testing.T) {
	_, url, _ := spoiled(t, Fault{Kind: Status, Status: 429, RetryAfter: "7"})
	resp, err := http.Post(url, "application/json", bytes.NewReader(nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	if resp.Header.Get("Retry-After") != "7" {
		t.Errorf("got %v", resp.Header)
	}
}
