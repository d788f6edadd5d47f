package devserver

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/devserver/operator"
	"github.com/heteroflow/node-agent/devserver/store"
	"github.com/heteroflow/node-agent/protocol"
)

// wakeCall is the held request of a node.
func (p *plane) wakeCall(node, cursor string, wait int) protocol.WakeReply {
	p.t.Helper()
	return decode[protocol.WakeReply](p.t, p.do(http.MethodGet, protocol.WakePath+"?"+protocol.WakeQuery(node, cursor, wait).Encode(), nil), http.StatusOK)
}

// held starts a held request and waits until the server holds it.
func (p *plane) held(node, cursor string) <-chan protocol.WakeReply {
	p.t.Helper()
	before := p.server.holds.Load()
	answered := make(chan protocol.WakeReply, 1)
	go func() { answered <- p.wakeCall(node, cursor, 25) }()
	p.until("the request is held", func() bool { return p.server.holds.Load() > before })
	return answered
}

func (p *plane) until(what string, ok func() bool) {
	p.t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			p.t.Fatalf("waited a minute: %s", what)
		}
	}
}

func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(time.Minute):
		t.Fatal("no answer within a minute")
		panic("unreachable")
	}
}

func TestAHeldRequestIsAnsweredWhenSomethingChanges(t *testing.T) {
	p := start(t)
	cursor := p.wakeCall("n", "", 25).Cursor
	ctx := t.Context()
	steps := []struct {
		name string
		do   func() error
		want protocol.WakeReply
	}{
		{"a task is scheduled", func() error { p.create("t1", "n"); return nil }, protocol.WakeReply{Tasks: 1}},
		{"a file request", func() error {
			_, err := p.CreateFileRequest(ctx, protocol.FileRequest{Request: protocol.Request{NodeID: "n"}, Action: "list", Path: "/"})
			return err
		}, protocol.WakeReply{Tasks: 1, Files: 1}},
		{"a slice request", func() error {
			_, err := p.CreateSliceRequest(ctx, protocol.SliceRequest{Request: protocol.Request{NodeID: "n"}})
			return err
		}, protocol.WakeReply{Tasks: 1, Files: 1, Slices: 1}},
		{"an image request", func() error {
			_, err := p.CreateImageRequest(ctx, protocol.ImageRequest{Request: protocol.Request{NodeID: "n"}})
			return err
		}, protocol.WakeReply{Tasks: 1, Files: 1, Slices: 1, Images: 1}},
	}
	for _, step := range steps {
		answered := p.held("n", cursor)
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		got := receive(t, answered)
		if got.Cursor == cursor {
			t.Errorf("%s: the cursor did not move", step.name)
		}
		cursor, got.Cursor = got.Cursor, ""
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}

func TestIntentsOnHeldTasksWakeTheirNode(t *testing.T) {
	p := start(t)
	ctx := t.Context()
	for _, id := range []string{"stop", "sleep", "cancel", "delete", "move"} {
		p.create(id, "n")
		p.move(id, "n", "scheduled", "running")
	}
	cursor := p.wakeCall("n", "", 0).Cursor
	step := func(name string, do func() error) {
		t.Helper()
		answered := p.held("n", cursor)
		if err := do(); err != nil {
			t.Fatal(err)
		}
		got := receive(t, answered)
		if got.Intents != 1 || got.Tasks != 0 {
			t.Errorf("%s: got %+v", name, got)
		}
		cursor = got.Cursor
	}
	act := func(id string, action operator.Action) func() error {
		return func() error { _, err := p.Act(ctx, id, action); return err }
	}
	step("stopping", act("stop", "stop"))
	step("sleeping", act("sleep", "sleep"))
	p.move("sleep", "n", "sleeping", "asleep")
	step("waking", act("sleep", "wake"))
	step("cancelled while running", act("cancel", "cancel"))
	step("deleted", func() error { return p.DeleteTask(ctx, "delete") })
	step("assigned away", func() error { _, err := p.Assign(ctx, "move", "other"); return err })

	if all := p.wakeCall("n", "", 0); all.Intents != 5 { // stop, waking, cancel, delete, move
		t.Errorf("a node that starts anew sees %d intents, want 5", all.Intents)
	}
	p.move("stop", "n", "stopping", "stopped")
	if all := p.wakeCall("n", "", 0); all.Intents != 4 {
		t.Errorf("an intent that was carried out is still told: %d, want 4", all.Intents)
	}
}

func TestANodesOwnStepsAndOtherNodesDoNotWakeIt(t *testing.T) {
	p := start(t)
	p.create("t1", "n")
	cursor := p.wakeCall("n", "", 0).Cursor
	answered := p.held("n", cursor)
	p.move("t1", "n", "scheduled", "running")
	p.move("t1", "n", "running", "completed")
	p.create("t2", "other")
	if change, err := p.server.store.Change(t.Context(), "n"); err != nil || change != 1 {
		t.Errorf("change number %d, %v, want 1", change, err)
	}
	p.create("t3", "n")
	if got := receive(t, answered); got.Tasks != 1 {
		t.Errorf("got %+v", got)
	}
}

func TestACursorOutlivesTheServer(t *testing.T) {
	database := t.TempDir() + "/plane.db"
	same := func(c *Config) { c.Database = database }
	var cursor string
	t.Run("before", func(t *testing.T) {
		p := start(t, same)
		p.create("t1", "n")
		cursor = p.wakeCall("n", "", 0).Cursor
	})
	t.Run("after", func(t *testing.T) {
		p := start(t, same)
		answered := p.held("n", cursor) // held, not answered at once
		p.create("t2", "n")
		if got := receive(t, answered); got.Tasks != 2 {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("with an empty database", func(t *testing.T) {
		p := start(t)
		if got := p.wakeCall("n", cursor, 25); got.Cursor != "0" {
			t.Errorf("got %+v", got)
		}
		for _, odd := range []string{"x", "-1", "99999999999999999999", "1;drop"} {
			if got := p.wakeCall("n", odd, 25); got.Cursor != "0" {
				t.Errorf("cursor %q: got %+v", odd, got)
			}
		}
	})
}

func TestAClientThatLeavesLeavesNothingBehind(t *testing.T) {
	p := start(t)
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan error, 8)
	for range 8 {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+protocol.WakePath+"?node_id=n&cursor=0&wait=25", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(protocol.HeaderAPIKey, systemKey)
		go func() {
			resp, err := p.http.Do(req)
			if err == nil {
				err = errors.Join(errors.New("answered"), resp.Body.Close())
			}
			gone <- err
		}()
	}
	p.until("all are held", func() bool { return p.server.holds.Load() == 8 })
	leave()
	for range 8 {
		if err := receive(t, gone); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	p.until("none is held", func() bool { return p.server.holds.Load() == 0 })
	p.server.waiters.mu.Lock()
	defer p.server.waiters.mu.Unlock()
	if len(p.server.waiters.nodes) != 0 {
		t.Errorf("%d nodes are remembered", len(p.server.waiters.nodes))
	}
}

func TestHeldRequestsAreBounded(t *testing.T) {
	p := start(t)
	p.server.holds.Store(maxHolds)
	refused(t, p.do(http.MethodGet, protocol.WakePath+"?node_id=n", nil), http.StatusTooManyRequests, protocol.CodeTooManyRequests)
	p.server.holds.Store(maxHolds - 1)
	p.wakeCall("n", "", 25)
	if got := p.server.holds.Load(); got != maxHolds-1 {
		t.Errorf("%d are counted, want %d", got, maxHolds-1)
	}
}

func TestClosingTheServerAnswersHeldRequests(t *testing.T) {
	p := start(t)
	answered := p.held("n", "0")
	p.server.release()
	if got := receive(t, answered); !got.Empty() || got.Cursor != "0" {
		t.Errorf("got %+v", got)
	}
}

func TestAHeldRequestEndsWhenItsTimeIsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{closing: make(chan struct{})}
		opened, err := store.Open(t.Context(), t.TempDir()+"/plane.db", s.waiters.wake)
		if err != nil {
			t.Fatal(err)
		}
		s.store = opened
		defer func() {
			if err := opened.Close(); err != nil {
				t.Error(err)
			}
		}()
		for _, wait := range []time.Duration{0, 25 * time.Second} {
			began := time.Now()
			if _, err := s.hold(t.Context(), "n", 0, wait); err != nil || time.Since(began) != wait {
				t.Errorf("held %s, %v, want %s", time.Since(began), err, wait)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := s.hold(ctx, "n", 0, time.Hour); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		began := time.Now()
		time.AfterFunc(3*time.Second, func() {
			if _, err := opened.CreateTask(t.Context(), protocol.Task{ID: "t", NodeID: "n", Status: protocol.StatusScheduled}); err != nil {
				t.Error(err)
			}
		})
		if _, err := s.hold(t.Context(), "n", 0, time.Hour); err != nil || time.Since(began) != 3*time.Second {
			t.Errorf("held %s, %v, want 3s", time.Since(began), err)
		}
	})
}
