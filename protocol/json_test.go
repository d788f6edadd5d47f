package protocol

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func encode(t *testing.T, v any) map[string]any {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestWhatWasNotMeasuredIsAbsent(t *testing.T) {
	if diff := cmp.Diff(map[string]any{"index": 0.0}, encode(t, DeviceStats{})); diff != "" {
		t.Errorf("stats (-want +got):\n%s", diff)
	}
	got := encode(t, DeviceStats{UtilizationPercent: new(0.0), MemoryUsedBytes: new(int64(0))})
	if got["utilization_percent"] != 0.0 || got["memory_used_bytes"] != 0.0 {
		t.Errorf("a measured zero is lost: %v", got)
	}
	want := map[string]any{
		"node_id": "", "sequence": 0.0, "sent_at": "0001-01-01T00:00:00Z", "state": "", "protocol": 0.0, "docker_available": false,
	}
	if diff := cmp.Diff(want, encode(t, Heartbeat{})); diff != "" {
		t.Errorf("heartbeat (-want +got):\n%s", diff)
	}
}

func TestNoneIsNotTheSameAsUnknown(t *testing.T) {
	var beat Heartbeat
	beat.GPUs, beat.LiveTaskIDs, beat.CachedModels = []Device{}, []string{}, []Model{}
	got := encode(t, beat)
	for _, field := range []string{"gpus", "live_task_ids", "cached_models"} {
		if list, ok := got[field].([]any); !ok || len(list) != 0 {
			t.Errorf("%s: got %v, want []", field, got[field])
		}
	}
	var back Heartbeat
	if err := json.Unmarshal([]byte(`{"gpus":[],"gpu_stats":null}`), &back); err != nil {
		t.Fatal(err)
	}
	if back.GPUs == nil || back.GPUStats != nil || back.LiveTaskIDs != nil {
		t.Errorf("gpus %v, gpu_stats %v, live_task_ids %v", back.GPUs, back.GPUStats, back.LiveTaskIDs)
	}
}

func TestAnEmptyAnswerMeansNoOptionalFeature(t *testing.T) {
	for _, body := range []string{`{}`, `{"features":{}}`, `{"features":null,"extra":[1]}`} {
		var reply HeartbeatReply
		if err := json.Unmarshal([]byte(body), &reply); err != nil {
			t.Fatal(err)
		}
		if reply.Features != (Features{}) || reply.NeedFull || reply.Drain {
			t.Errorf("%s: got %+v", body, reply)
		}
	}
}

func TestADrawnOutRequestIsNotStarted(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		at   *time.Time
		want bool
	}{
		"without a limit": {nil, false},
		"in time":         {new(now.Add(time.Second)), false},
		"too late":        {new(now.Add(-time.Second)), true},
	} {
		if got := (Request{ExpiresAt: c.at}).Expired(now); got != c.want {
			t.Errorf("%s: expired %t", name, got)
		}
	}
}

func TestDefaultsOfATask(t *testing.T) {
	if got := (Task{}).StopGrace(); got != 30*time.Second {
		t.Errorf("grace %s", got)
	}
	if got := (Task{StopGraceSeconds: new(int64(0))}).StopGrace(); got != 0 {
		t.Errorf("grace %s: a given 0 is not the default", got)
	}
	if got := (Task{TimeoutSeconds: 90}).Timeout(); got != 90*time.Second {
		t.Errorf("timeout %s", got)
	}
	want := HealthCheck{Type: HealthHTTP, Path: "/", Port: 80, IntervalSeconds: 10, TimeoutSeconds: 5, FailureThreshold: 3}
	if diff := cmp.Diff(want, HealthCheck{Type: HealthHTTP, Port: 80}.WithDefaults()); diff != "" {
		t.Errorf("health check (-want +got):\n%s", diff)
	}
}

// Every field has its words in the generated API description.
func TestEveryFieldOnTheWireIsDocumented(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var walk func(reflect.Type)
	walk = func(typ reflect.Type) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct || typ == reflect.TypeFor[time.Time]() || seen[typ] {
			return
		}
		seen[typ] = true
		for f := range typ.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if !f.Anonymous && (name == "" || name != strings.ToLower(name) || !strings.HasSuffix(f.Tag.Get("doc"), ".")) {
				t.Errorf("%s.%s: json %q, doc %q", typ, f.Name, name, f.Tag.Get("doc"))
			}
			walk(f.Type)
		}
	}
	for _, v := range []any{
		TaskList{},
		TaskUpdate{},
		CheckpointResume{},
		Heartbeat{},
		HeartbeatReply{},
		WakeReply{},
		ErrorBody{},
		RequestList[SliceRequest]{},
		RequestList[ImageRequest]{},
		RequestList[FileRequest]{},
		RequestUpdate{},
		SliceResult{},
		ImageResult{},
		FileResult{},
	} {
		walk(reflect.TypeOf(v))
	}
	if len(seen) < 40 {
		t.Errorf("only %d types were looked at", len(seen))
	}
}

func BenchmarkTaskListDecode(b *testing.B) {
	list := TaskList{}
	for range 20 {
		list.Tasks = append(list.Tasks, fullTask())
	}
	data, err := json.Marshal(list)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		var back TaskList
		if err := json.Unmarshal(data, &back); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTaskValidate(b *testing.B) {
	task := fullTask()
	b.ReportAllocs()
	for b.Loop() {
		if err := task.Validate(); err != nil {
			b.Fatal(err)
		}
	}
}
