package devserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/protocol"
)

func TestARequestGoesFromItsOperatorToItsNodeAndBack(t *testing.T) {
	p := start(t)
	ctx := t.Context()
	expires := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	sent := protocol.SliceRequest{
		Request: protocol.Request{ID: "r1", NodeID: "n", ExpiresAt: &expires},
		Vendor:  protocol.SliceNVIDIAMIG, Action: protocol.SliceCreate, GPUIndex: 1, GPUUUID: "GPU-1", Profiles: []string{"1g.10gb", "1g.10gb"},
	}
	must(p.CreateSliceRequest(ctx, sent))(t)

	path := protocol.RequestsPath(protocol.ChannelSlices) + "?" + protocol.RequestsQuery("n", 5, protocol.RequestPending).Encode()
	list := decode[protocol.RequestList[protocol.SliceRequest]](t, p.do(http.MethodGet, path, nil), http.StatusOK)
	sent.Status = protocol.RequestPending
	if diff := cmp.Diff([]protocol.SliceRequest{sent}, list.Requests); diff != "" {
		t.Errorf("polled (-want +got):\n%s", diff)
	}
	claim := protocol.RequestUpdate{NodeID: "n", FromStatus: protocol.RequestPending, Status: protocol.RequestRunning}
	one := protocol.RequestPath(protocol.ChannelSlices, "r1")
	claimed := decode[protocol.SliceRequest](t, p.do(http.MethodPut, one, claim), http.StatusOK)
	if claimed.Status != protocol.RequestRunning || claimed.ID != "r1" || claimed.GPUUUID != "GPU-1" {
		t.Errorf("claimed %+v", claimed)
	}
	refused(t, p.do(http.MethodPut, one, claim), http.StatusConflict, protocol.CodeConflict)
	left := decode[protocol.RequestList[protocol.SliceRequest]](t, p.do(http.MethodGet, path, nil), http.StatusOK)
	if len(left.Requests) != 0 {
		t.Errorf("still pending: %v", left.Requests)
	}

	partial, err := json.Marshal(protocol.SliceResult{Created: []protocol.SliceInstance{{GIID: new(1), UUID: "MIG-1"}}})
	if err != nil {
		t.Fatal(err)
	}
	outcome := protocol.RequestUpdate{
		NodeID: "n", FromStatus: protocol.RequestRunning, Status: protocol.RequestFailed,
		Result: partial, Reason: protocol.RequestError, ErrorMessage: "second: insufficient resources",
	}
	decode[protocol.SliceRequest](t, p.do(http.MethodPut, one, outcome), http.StatusOK)
	state := must(p.Request(ctx, protocol.ChannelSlices, "r1"))(t)
	if state.Status != protocol.RequestFailed || string(state.Result) != string(partial) ||
		state.Reason != protocol.RequestError || state.ErrorMessage != outcome.ErrorMessage {
		t.Errorf("stored %+v", state)
	}
	refused(t, p.do(http.MethodPut, one, outcome), http.StatusConflict, protocol.CodeConflict)
}

func TestChannelsAndNodesAreKeptApart(t *testing.T) {
	p := start(t)
	ctx := t.Context()
	head := protocol.Request{ID: "same", NodeID: "n"}
	must(p.CreateFileRequest(ctx, protocol.FileRequest{Request: head, Action: protocol.FileStat, Path: "/x"}))(t)
	must(p.CreateImageRequest(ctx, protocol.ImageRequest{Request: head, Action: protocol.ImageCheck, Image: "x"}))(t)
	if _, err := p.CreateFileRequest(ctx, protocol.FileRequest{Request: head}); err == nil {
		t.Error("an id was taken twice in one channel")
	}
	claim := protocol.RequestUpdate{NodeID: "other", FromStatus: protocol.RequestPending, Status: protocol.RequestRunning}
	refused(t, p.do(http.MethodPut, protocol.RequestPath(protocol.ChannelFiles, "same"), claim), http.StatusConflict, protocol.CodeConflict)
	refused(t, p.do(http.MethodPut, protocol.RequestPath(protocol.ChannelSlices, "same"), claim), http.StatusNotFound, protocol.CodeNotFound)
	r := p.do(http.MethodGet, protocol.RequestsPath(protocol.ChannelFiles)+"?node_id=other&status=pending", nil)
	if list := decode[protocol.RequestList[protocol.FileRequest]](t, r, http.StatusOK); len(list.Requests) != 0 {
		t.Errorf("another node sees %v", list.Requests)
	}
	if got := must(p.Requests(ctx, protocol.ChannelImages, "", ""))(t); len(got) != 1 || got[0].Channel != protocol.ChannelImages {
		t.Errorf("the operator sees %+v", got)
	}
}

func TestEveryStepOfARequestIsTakenOrRefused(t *testing.T) {
	p := start(t)
	for i, from := range append(protocol.RequestStatuses(), "odd") {
		for j, to := range append(protocol.RequestStatuses(), "odd") {
			id := fmt.Sprintf("r-%d-%d", i, j)
			must(p.CreateImageRequest(t.Context(), protocol.ImageRequest{Request: protocol.Request{ID: id, NodeID: "n"}}))(t)
			path := protocol.RequestPath(protocol.ChannelImages, id)
			want := http.StatusUnprocessableEntity
			if protocol.CanTransitionRequest(from, to) {
				want = http.StatusOK
				if from == protocol.RequestRunning {
					p.do(http.MethodPut, path, protocol.RequestUpdate{NodeID: "n", FromStatus: protocol.RequestPending, Status: protocol.RequestRunning})
				}
			}
			if r := p.do(http.MethodPut, path, protocol.RequestUpdate{NodeID: "n", FromStatus: from, Status: to}); r.status != want {
				t.Errorf("%s to %s: got %d, want %d: %s", from, to, r.status, want, r.body)
			}
		}
	}
}

func TestAWithdrawnRequestCannotBeClaimedNorAClaimedOneWithdrawn(t *testing.T) {
	p := start(t)
	for round := range 5 {
		id := fmt.Sprintf("r%d", round)
		must(p.CreateFileRequest(t.Context(), protocol.FileRequest{Request: protocol.Request{ID: id, NodeID: "n"}}))(t)
		var won atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				claim := protocol.RequestUpdate{NodeID: "n", FromStatus: protocol.RequestPending, Status: protocol.RequestRunning}
				if p.do(http.MethodPut, protocol.RequestPath(protocol.ChannelFiles, id), claim).status == http.StatusOK {
					won.Add(1)
				}
			})
			wg.Go(func() {
				if _, err := p.CancelRequest(t.Context(), protocol.ChannelFiles, id); err == nil {
					won.Add(1)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			t.Errorf("%d won", won.Load())
		}
	}
}

func TestARequestWithoutANodeIsRefusedAndOneWithoutAnIDGetsOne(t *testing.T) {
	p := start(t)
	if _, err := p.CreateFileRequest(t.Context(), protocol.FileRequest{}); err == nil {
		t.Error("a request for nobody was taken")
	}
	state := must(p.CreateFileRequest(t.Context(), protocol.FileRequest{Request: protocol.Request{NodeID: "n"}}))(t)
	if !protocol.ValidTaskID(state.ID) {
		t.Errorf("got id %q", state.ID)
	}
}
