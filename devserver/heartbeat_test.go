package devserver

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/heteroflow/node-agent/devserver/operator"
	"github.com/heteroflow/node-agent/protocol"
)

// fullBeat is a complete heartbeat of a node with two cards.
func fullBeat(instance string) protocol.Heartbeat {
	beat := protocol.Heartbeat{
		NodeID: "n", BootID: "boot", InstanceID: instance, SentAt: time.Now(), State: protocol.NodeOnline,
		Protocol: protocol.Version, AgentVersion: "1.0.0", AgentCommit: "abc",
	}
	beat.GPUs = []protocol.Device{{Index: 0, UUID: "GPU-0", Type: protocol.DeviceNVIDIA}, {Index: 1, UUID: "GPU-1", Type: protocol.DeviceNVIDIA}}
	beat.GPUStats = []protocol.DeviceStats{{Index: 0, UUID: "GPU-0"}, {Index: 1, UUID: "GPU-1"}}
	beat.CachedModels = []protocol.Model{{Name: "m", Source: protocol.ModelFromCache}}
	beat.ModelsDigest = "d1"
	return beat
}

func (p *plane) beat(b any, headers ...string) protocol.HeartbeatReply {
	p.t.Helper()
	return decode[protocol.HeartbeatReply](p.t, p.do(http.MethodPost, protocol.HeartbeatPath, b, headers...), http.StatusOK)
}

func TestTheFirstHeartbeatRegistersTheNode(t *testing.T) {
	p := start(t)
	if nodes := must(p.Nodes(t.Context()))(t); len(nodes) != 0 {
		t.Fatalf("nodes before: %v", nodes)
	}
	// An agent of a later release: unknown fields and words are stored as they came.
	raw := `{"node_id":"n","instance_id":"i","state":"hibernating","exec_mode":"wasm","novelty":{"a":[1]},"gpus":[{"index":0,"type":"acme"}]}`
	reply := p.beat(raw)
	want := protocol.HeartbeatReply{NodeID: "n", ServerTime: reply.ServerTime, Features: protocol.Features{WakeMaxSeconds: 25, DeltaHeartbeat: true, Gzip: true}}
	if diff := cmp.Diff(want, reply); diff != "" || reply.ServerTime == nil {
		t.Errorf("reply (-want +got):\n%s", diff)
	}
	node := must(p.Node(t.Context(), "n"))(t)
	if node.State != operator.StateOnline || node.ReceivedAt == nil || time.Since(*node.ReceivedAt) > time.Minute || node.Conflict {
		t.Errorf("node %+v", node)
	}
	if string(node.Heartbeat) != raw {
		t.Errorf("stored as %s", node.Heartbeat)
	}
	if len(node.GPUs) != 1 || node.GPUs[0].Type != "acme" {
		t.Errorf("cards %+v", node.GPUs)
	}
}

func TestFeaturesAreOfferedAndRefusedTogether(t *testing.T) {
	zipped := gzipped(t, `{"node_id":"n","gpus":[]}`)
	for name, c := range map[string]struct {
		features Features
		want     protocol.Features
		body     string
	}{
		"all":      {Features{WakeMax: 7 * time.Second}, protocol.Features{WakeMaxSeconds: 7, DeltaHeartbeat: true, Gzip: true}, ""},
		"no wake":  {Features{NoWake: true}, protocol.Features{DeltaHeartbeat: true, Gzip: true}, ""},
		"no delta": {Features{NoDelta: true}, protocol.Features{WakeMaxSeconds: 25, Gzip: true}, ""},
		"no gzip":  {Features{NoGzip: true}, protocol.Features{WakeMaxSeconds: 25, DeltaHeartbeat: true}, ""},
		"old":      {Features{EmptyReply: true}, protocol.Features{}, "{}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, func(config *Config) { config.Features = c.features })
			r := p.do(http.MethodPost, protocol.HeartbeatPath, `{"node_id":"n","gpus":[]}`)
			if c.body != "" && string(r.body) != c.body {
				t.Errorf("got %q, want %q", r.body, c.body)
			}
			if diff := cmp.Diff(c.want, decode[protocol.HeartbeatReply](t, r, http.StatusOK).Features); diff != "" {
				t.Errorf("features (-want +got):\n%s", diff)
			}
			wake := p.do(http.MethodGet, protocol.WakePath+"?node_id=n&wait=0", nil)
			if offered := c.want.WakeMaxSeconds > 0; offered != (wake.status == http.StatusOK) {
				t.Errorf("wake answered %d %s", wake.status, wake.body)
			}
			beat := p.do(http.MethodPost, protocol.HeartbeatPath, zipped, "Content-Encoding", "gzip")
			if !c.want.Gzip {
				refused(t, beat, http.StatusUnsupportedMediaType, protocol.CodeUnsupportedEncoding)
			} else if beat.status != http.StatusOK {
				t.Errorf("gzip answered %d %s", beat.status, beat.body)
			}
		})
	}
	for _, odd := range []time.Duration{-time.Second, 1500 * time.Millisecond, time.Minute} {
		if _, err := New(t.Context(), Config{SystemKey: systemKey, Features: Features{WakeMax: odd}}); err == nil {
			t.Errorf("a longest wake of %s was taken", odd)
		}
	}
}

func gzipped(t *testing.T, text string) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestHostileHeartbeatsAreRefused(t *testing.T) {
	p := start(t)
	gzip := []string{"Content-Encoding", "gzip"}
	many := strings.Repeat(`{},`, maxCards) + `{}`
	for name, c := range map[string]struct {
		body    any
		headers []string
		status  int
	}{
		"no node id":               {`{}`, nil, 422},
		"null":                     {`null`, nil, 422},
		"a node id that climbs":    {`{"node_id":"../x"}`, nil, 422},
		"a long instance id":       {`{"node_id":"n","instance_id":"` + strings.Repeat("x", 129) + `"}`, nil, 422},
		"more cards than exist":    {`{"node_id":"n","gpus":[` + many + `]}`, nil, 422},
		"a text for a number":      {`{"node_id":"n","cpu_cores":"4"}`, nil, 422},
		"a huge number":            {`{"node_id":"n","memory_total_bytes":1e999}`, nil, 422},
		"deep nesting":             {`{"x":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`, nil, 422},
		"invalid UTF-8":            {"{\"node_id\":\"\xff\"}", nil, 422},
		"a large body":             {`{"node_id":"n","hostname":"` + strings.Repeat("x", maxHeartbeatBytes) + `"}`, nil, 413},
		"gzip that is none":        {`{"node_id":"n"}`, gzip, 400},
		"gzip that is cut":         {gzipped(t, strings.Repeat(`{"node_id":"n"}`, 100))[:40], gzip, 400},
		"a gzip bomb":              {gzipped(t, `{"node_id":"`+strings.Repeat("x", 2*maxHeartbeatBytes)+`"}`), gzip, 413},
		"an encoding nobody knows": {`{"node_id":"n"}`, []string{"Content-Encoding", "br"}, 415},
		"two encodings":            {gzipped(t, `{}`), []string{"Content-Encoding", "gzip, gzip"}, 415},
		"another content type":     {`<x/>`, []string{"Content-Type", "text/xml"}, 422},
	} {
		t.Run(name, func(t *testing.T) {
			r := p.do(http.MethodPost, protocol.HeartbeatPath, c.body, c.headers...)
			body := decode[protocol.ErrorBody](t, r, c.status)
			if body.Error.Code == "" || body.Error.Message == "" || len(r.body) > 4096 {
				t.Errorf("got %s", r.body)
			}
		})
	}
	stranger := p.do(http.MethodPost, protocol.HeartbeatPath, gzipped(t, `{"node_id":"n"}`), "Content-Encoding", "gzip", protocol.HeaderAPIKey, "wrong")
	refused(t, stranger, http.StatusUnauthorized, protocol.CodeUnauthorized)
	if nodes := must(p.Nodes(t.Context()))(t); len(nodes) != 0 {
		t.Errorf("%d nodes were registered", len(nodes))
	}
}

func TestWhatAHeartbeatLeavesOutIsKept(t *testing.T) {
	p := start(t)
	if p.beat(fullBeat("i1")).NeedFull {
		t.Error("a complete heartbeat is asked for again")
	}
	delta := fullBeat("i1")
	delta.GPUs, delta.CachedModels, delta.ModelsUnchanged = nil, nil, true
	if p.beat(delta).NeedFull {
		t.Error("a delta after a complete heartbeat is not taken")
	}
	node := must(p.Node(t.Context(), "n"))(t)
	if len(node.GPUs) != 2 || len(node.Models.Cached) != 1 || node.Models.Digest != "d1" {
		t.Errorf("kept %d cards and %+v", len(node.GPUs), node.Models)
	}
	for name, change := range map[string]func(*protocol.Heartbeat){
		"of another instance":       func(b *protocol.Heartbeat) { b.InstanceID = "i2" },
		"with another model digest": func(b *protocol.Heartbeat) { b.ModelsDigest = "d2" },
		"of a node nobody knows":    func(b *protocol.Heartbeat) { b.NodeID = "stranger" },
	} {
		odd := delta
		change(&odd)
		if !p.beat(odd).NeedFull {
			t.Errorf("a delta %s is taken", name)
		}
	}
	full := fullBeat("i2")
	full.GPUs, full.CachedModels, full.ModelsDigest = full.GPUs[:1], []protocol.Model{}, "d3"
	p.beat(full)
	if node := must(p.Node(t.Context(), "n"))(t); len(node.Models.Cached) != 0 || node.Models.Digest != "d3" {
		t.Errorf("kept %+v", node.Models)
	}
}

func TestWithoutDeltaEverythingIsAskedFor(t *testing.T) {
	p := start(t, func(c *Config) { c.Features.NoDelta = true })
	if p.beat(fullBeat("i")).NeedFull {
		t.Error("a complete heartbeat is asked for again")
	}
	noGPUs, noModels := fullBeat("i"), fullBeat("i")
	noGPUs.GPUs, noModels.ModelsUnchanged = nil, true
	if !p.beat(noGPUs).NeedFull || !p.beat(noModels).NeedFull {
		t.Error("a delta is taken")
	}
}

func TestDrainIsToldUntilItIsTakenBack(t *testing.T) {
	p := start(t)
	for _, drain := range []bool{true, false} { // before the node is known, and after
		if err := p.Drain(t.Context(), "n", drain); err != nil {
			t.Fatal(err)
		}
		if node := must(p.Node(t.Context(), "n"))(t); node.Drain != drain || drain && node.State != operator.StateUnknown {
			t.Errorf("node %+v", node)
		}
		if got := p.beat(fullBeat("i")).Drain; got != drain {
			t.Errorf("told drain %t, want %t", got, drain)
		}
	}
}

func TestTwoMachinesWithOneNodeIDAreSeen(t *testing.T) {
	p := start(t)
	conflict := func() bool { return must(p.Node(t.Context(), "n"))(t).Conflict }
	p.beat(fullBeat("i1"))
	p.beat(fullBeat("i1"))
	p.beat(fullBeat("i2"))
	if conflict() {
		t.Error("a restart counts as a conflict")
	}
	p.beat(fullBeat("i1"))
	p.beat(fullBeat("i2"))
	if !conflict() {
		t.Error("two instances side by side are not seen")
	}
}

func TestANodeIsOfflineWhenItSaysSoOrIsSilent(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		said protocol.NodeState
		age  time.Duration
		want operator.State
	}{
		"fresh":                    {protocol.NodeOnline, time.Second, operator.StateOnline},
		"three periods old":        {protocol.NodeOnline, 15 * time.Second, operator.StateOnline},
		"older":                    {protocol.NodeOnline, 15*time.Second + 1, operator.StateOffline},
		"said goodbye":             {protocol.NodeOffline, 0, operator.StateOffline},
		"draining":                 {protocol.NodeDraining, 0, operator.StateDraining},
		"in a state nobody knows":  {"hibernating", 0, operator.StateOnline},
		"draining, but silent now": {protocol.NodeDraining, time.Minute, operator.StateOffline},
	} {
		t.Run(name, func(t *testing.T) {
			n := nodeAt(c.said, now.Add(-c.age))
			if got := stateOf(n, now); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestAChangeOfTheAgentsVersionIsLogged(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	p := start(t, func(c *Config) { c.Logger = zap.New(core) })
	beat := fullBeat("i")
	p.beat(beat)
	p.beat(beat)
	beat.AgentVersion, beat.AgentCommit = "1.1.0", "def-dirty"
	p.beat(beat)
	changes := logs.FilterMessage("agent version changed").All()
	if len(changes) != 1 {
		t.Fatalf("%d changes were logged", len(changes))
	}
	want := map[string]any{"node_id": "n", "from_version": "1.0.0", "from_commit": "abc", "agent_version": "1.1.0", "agent_commit": "def-dirty"}
	if diff := cmp.Diff(want, changes[0].ContextMap()); diff != "" {
		t.Errorf("logged (-want +got):\n%s", diff)
	}
	if logs.FilterMessage("node registered").Len() != 1 {
		t.Error("the registration was not logged once")
	}
}

func TestALostCardLeavesTheAllocatableSet(t *testing.T) {
	p := start(t)
	failing := fullBeat("i")
	failing.GPUCollectFailures = []protocol.CollectFailure{{Index: new(1), UUID: "GPU-1", Code: "gpu_lost", Message: "fell off the bus"}}
	failing.GPUStats = failing.GPUStats[:1]
	allocatable := func() (list []bool) {
		for _, card := range must(p.Node(t.Context(), "n"))(t).GPUs {
			list = append(list, card.Allocatable)
		}
		return list
	}
	for range 2 {
		p.beat(failing)
	}
	if diff := cmp.Diff([]bool{true, true}, allocatable()); diff != "" {
		t.Errorf("after two (-want +got):\n%s", diff)
	}
	p.beat(failing)
	if diff := cmp.Diff([]bool{true, false}, allocatable()); diff != "" {
		t.Errorf("after three (-want +got):\n%s", diff)
	}
	for range 3 {
		p.beat(fullBeat("i"))
	}
	if diff := cmp.Diff([]bool{true, true}, allocatable()); diff != "" {
		t.Errorf("after three good ones (-want +got):\n%s", diff)
	}
}

func BenchmarkHeartbeat(b *testing.B) {
	server, err := New(b.Context(), Config{Database: b.TempDir() + "/plane.db", SystemKey: systemKey})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := server.Close(); err != nil {
			b.Error(err)
		}
	}()
	body, err := json.Marshal(fullBeat("i"))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if status := serveOnce(b, server, http.MethodPost, protocol.HeartbeatPath, body); status != http.StatusOK {
			b.Fatal(status)
		}
	}
}

func BenchmarkListTasks(b *testing.B) {
	server, err := New(b.Context(), Config{Database: b.TempDir() + "/plane.db", SystemKey: systemKey})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := server.Close(); err != nil {
			b.Error(err)
		}
	}()
	for range 20 {
		task := protocol.Task{ID: newID(), NodeID: "n", Status: protocol.StatusScheduled, Image: "busybox", Env: make([]string, 20)}
		if _, err := server.store.CreateTask(b.Context(), task); err != nil {
			b.Fatal(err)
		}
	}
	path := protocol.TasksPath + "?" + protocol.TasksQuery("n", 20, protocol.StatusScheduled).Encode()
	b.ReportAllocs()
	for b.Loop() {
		if status := serveOnce(b, server, http.MethodGet, path, nil); status != http.StatusOK {
			b.Fatal(status)
		}
	}
}
