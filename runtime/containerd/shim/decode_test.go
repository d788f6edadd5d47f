package shim

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	cgroup2 "github.com/containerd/cgroups/v3/cgroup2/stats"
	task "github.com/containerd/containerd/api/runtime/task/v3"
	"github.com/containerd/errdefs"
	"github.com/containerd/ttrpc"
	"github.com/containerd/typeurl/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/heteroflow/node-agent/runtime/containerd/oom"
)

func marshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestARequestIsWhatTtrpcMakesOfIt(t *testing.T) {
	frame := encodeRequest(5, "containerd.task.v3.Task", "Wait", "task-1")
	want := marshal(t, &ttrpc.Request{Service: "containerd.task.v3.Task", Method: "Wait", Payload: marshal(t, &task.WaitRequest{ID: "task-1"})})
	head := []byte{0, 0, 0, byte(len(want)), 0, 0, 0, 5, 1, 0}
	if !bytes.Equal(frame, append(head, want...)) {
		t.Errorf("got  %x\nwant %x%x", frame, head, want)
	}
}

// What ttrpc's and containerd's own types can decode is read as they read it.
func FuzzResponse(f *testing.F) {
	exit := marshal(f, &task.WaitResponse{ExitStatus: 137, ExitedAt: &timestamppb.Timestamp{Seconds: 1 << 33, Nanos: 999_999_999}})
	metrics, err := typeurl.MarshalAnyToProto(&cgroup2.Metrics{MemoryEvents: &cgroup2.MemoryEvents{OomKill: 3}})
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []*ttrpc.Response{
		{Payload: exit},
		{Payload: marshal(f, &task.StatsResponse{Stats: metrics})},
		{Status: status.New(codes.NotFound, "no such task").Proto()},
		{Status: status.New(codes.Internal, "odd").Proto(), Payload: exit},
	} {
		f.Add(marshal(f, seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		answer, err := decodeResponse(data)
		var want ttrpc.Response
		if proto.Unmarshal(data, &want) == nil {
			failed := want.GetStatus().GetCode() != 0
			if (err != nil) != failed || errdefs.IsNotFound(err) != (want.GetStatus().GetCode() == 5) || !failed && !bytes.Equal(answer, want.GetPayload()) {
				t.Errorf("got %x, %v, want %v", answer, err, &want)
			}
		}
		if err == nil {
			compareExit(t, answer)
			compareKills(t, answer)
		}
	})
}

func compareExit(t *testing.T, answer []byte) {
	t.Helper()
	code, at, err := decodeExit(answer)
	var want task.WaitResponse
	if proto.Unmarshal(answer, &want) != nil {
		return
	}
	ended := time.Unix(want.GetExitedAt().GetSeconds(), int64(want.GetExitedAt().GetNanos()))
	if err != nil || code != int(want.GetExitStatus()) || !at.Equal(ended) {
		t.Errorf("got %d at %v, %v, want %v", code, at, err, &want)
	}
}

func compareKills(t *testing.T, answer []byte) {
	t.Helper()
	got, err := decodeKills(answer)
	var stats task.StatsResponse
	if proto.Unmarshal(answer, &stats) != nil {
		return
	}
	want, wantErr := oom.Kills(stats.GetStats().GetTypeUrl(), stats.GetStats().GetValue())
	if got != want || (err != nil) != (wantErr != nil) {
		t.Errorf("got %d, %v, want %d, %v", got, err, want, wantErr)
	}
}

func FuzzFrame(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x02\x00\x00\x00\x01\x02\x00xy"))
	f.Add([]byte("\x7f\xff\xff\xff\x00\x00\x00\x01\x02\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := readResponse(bytes.NewReader(data), 1)
		if err != nil {
			return
		}
		want := data[frameHead : frameHead+int(binary.BigEndian.Uint32(data))]
		if !bytes.Equal(got, want) {
			t.Errorf("got %x, want %x", got, want)
		}
	})
}
