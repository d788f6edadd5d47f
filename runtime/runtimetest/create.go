package runtimetest

import (
	"maps"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/heteroflow/node-agent/runtime"
)

// compareAddr lets cmp look at a container's address.
var compareAddr = cmpopts.EquateComparable(netip.Addr{})

func (s *suite) testCreate(t *testing.T) {
	t.Run("a container has what its spec says and has not run", s.createdAsSpecified)
	t.Run("a second create finds the first's container, whatever its state", s.createdOnce)
	t.Run("eight creates at once make one container", s.createdOnceInParallel)
	t.Run("another spec under the same name is a conflict and changes nothing", s.createConflicts)
	t.Run("an image that is not here is not found, and not pulled", func(t *testing.T) {
		spec := s.spec("exit", "0")
		spec.Image = s.registry.Ref("absent:v1")
		_, err := s.rt.Create(t.Context(), spec)
		wantClass(t, err, runtime.ErrNotFound)
	})
	t.Run("a name may have every allowed character and length", s.createNames)
	t.Run("one label may fill all the room for labels", s.createLargestLabel)
	t.Run("more labels than there is room for are refused", func(t *testing.T) {
		spec := s.spec("exit", "0")
		spec.Labels["large"] = strings.Repeat("x", 64<<10)
		_, err := s.rt.Create(t.Context(), spec)
		wantClass(t, err, runtime.ErrInvalid)
		if err == nil || !strings.Contains(err.Error(), "labels") {
			t.Errorf("the error does not name the labels: %v", err)
		}
	})
	t.Run("labels select what a list shows, in any state", s.listByLabels)
	t.Run("a list of labels that nobody has is empty", func(t *testing.T) {
		found, err := s.rt.List(t.Context(), map[string]string{testLabel: "nobody"})
		if err != nil || len(found) > 0 {
			t.Errorf("got %v, %v", found, err)
		}
	})
}

func (s *suite) createdAsSpecified(t *testing.T) {
	spec := s.spec("exit", "0")
	spec.Labels["odd"] = "ü \"quoted\"\nsecond line"
	spec.Labels["empty"] = ""
	c := s.create(t, spec)
	want := maps.Clone(spec.Labels)
	want[runtime.LabelSpecHash] = spec.Hash()
	if c.ID == "" || c.Name != spec.Name || c.Image != spec.Image || c.State != runtime.StateCreated {
		t.Errorf("got %+v", c)
	}
	if diff := cmp.Diff(want, c.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if c.PID != 0 || !c.StartedAt.IsZero() || c.Exit != nil || c.StartError != "" {
		t.Errorf("it seems to have run: %+v", c)
	}
	if age := time.Since(c.CreatedAt); age < -time.Minute || age > patience {
		t.Errorf("created %v ago", age)
	}
	again := s.inspect(t, spec.Name)
	again.Warnings = c.Warnings
	if diff := cmp.Diff(c, again, compareAddr); diff != "" {
		t.Errorf("inspected by name (-created +inspected):\n%s", diff)
	}
}

func (s *suite) createdOnce(t *testing.T) {
	spec := s.server()
	first := s.create(t, spec)
	sameAgain := func(state runtime.State) {
		t.Helper()
		c, err := s.rt.Create(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		if c.ID != first.ID || c.State != state {
			t.Errorf("got container %s (%s), want %s (%s)", c.ID, c.State, first.ID, state)
		}
	}
	sameAgain(runtime.StateCreated)
	if err := s.rt.Start(t.Context(), first.ID); err != nil {
		t.Fatal(err)
	}
	sameAgain(runtime.StateRunning)
	s.waitUntilServing(t, first.ID, 1)
	if err := s.rt.Stop(t.Context(), first.ID, patience); err != nil {
		t.Fatal(err)
	}
	sameAgain(runtime.StateExited)
}

func (s *suite) createdOnceInParallel(t *testing.T) {
	spec := s.spec("exit", "0")
	ids := make(chan string, 8)
	for range 8 {
		go func() {
			c, err := s.rt.Create(t.Context(), spec)
			if err != nil {
				t.Error(err)
			}
			ids <- c.ID
		}()
	}
	made := map[string]bool{}
	for range 8 {
		made[<-ids] = true
	}
	for id := range made {
		if id != "" {
			s.removeLater(t, id)
		}
	}
	if len(made) != 1 {
		t.Errorf("there are %d containers: %v", len(made), made)
	}
}

func (s *suite) createConflicts(t *testing.T) {
	spec := s.spec("sleep", "10m")
	first := s.start(t, spec)
	before := s.inspect(t, first.ID)
	other := spec
	other.Args = []string{"sleep", "11m"}
	_, err := s.rt.Create(t.Context(), other)
	wantClass(t, err, runtime.ErrConflict)
	if diff := cmp.Diff(before, s.inspect(t, first.ID), compareAddr); diff != "" {
		t.Errorf("the first has changed:\n%s", diff)
	}
}

func (s *suite) createNames(t *testing.T) {
	const all = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"
	for _, name := range []string{"0" + s.run, "Z" + s.run + "-", s.run + all, s.run + strings.Repeat("n", 128-len(s.run))} {
		spec := s.spec("exit", "0")
		spec.Name = name
		c, _ := s.finish(t, spec)
		if got := s.inspect(t, name); got.ID != c.ID || got.Name != name {
			t.Errorf("%s: got %s, %s, want %s", name, got.ID, got.Name, c.ID)
		}
	}
}

func (s *suite) createLargestLabel(t *testing.T) {
	spec := s.spec("exit", "0")
	used := len(testLabel) + len(s.run)
	spec.Labels["large"] = strings.Repeat("x", runtime.MaxLabelBytes-used-len("large"))
	s.finish(t, spec)
	found, err := s.rt.List(t.Context(), map[string]string{testLabel: s.run})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 || found[0].Labels["large"] != spec.Labels["large"] {
		t.Errorf("the label has not come back from a list of %d containers", len(found))
	}
}

func (s *suite) listByLabels(t *testing.T) {
	created, running := s.spec("exit", "0"), s.spec("sleep", "10m")
	created.Labels["kind"], running.Labels["kind"] = "a", "b"
	created.Labels["pair"], running.Labels["pair"] = "both", "both"
	want := map[string]runtime.State{
		s.create(t, created).ID: runtime.StateCreated,
		s.start(t, running).ID:  runtime.StateRunning,
	}
	byPair, err := s.rt.List(t.Context(), map[string]string{testLabel: s.run, "pair": "both"})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]runtime.State{}
	for _, c := range byPair {
		got[c.ID] = c.State
		if c.Name == "" || c.Image != s.image || c.Labels["pair"] != "both" || c.CreatedAt.IsZero() {
			t.Errorf("listed without its name, image, labels or time: %+v", c)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("states by id (-want +got):\n%s", diff)
	}
	one, err := s.rt.List(t.Context(), map[string]string{testLabel: s.run, "pair": "both", "kind": "b"})
	if err != nil || len(one) != 1 || one[0].Name != running.Name {
		t.Errorf("with both labels: got %v, %v", one, err)
	}
	all, err := s.rt.List(t.Context(), nil)
	if err != nil || len(all) < 2 {
		t.Errorf("without labels: got %d containers, %v", len(all), err)
	}
}
