package gpus

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/protocol"
)

// filled returns a value in which every field that is on the wire is set.
func filled(t *testing.T, typ reflect.Type) reflect.Value {
	t.Helper()
	v := reflect.New(typ).Elem()
	switch typ.Kind() {
	case reflect.Struct:
		for i := range typ.NumField() {
			if typ.Field(i).Tag.Get("json") != "-" {
				v.Field(i).Set(filled(t, typ.Field(i).Type))
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(typ.Elem()))
		v.Elem().Set(filled(t, typ.Elem()))
	case reflect.Slice:
		v.Set(reflect.Append(v, filled(t, typ.Elem())))
	case reflect.String:
		v.SetString("word")
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Float64:
		v.SetFloat(1.5)
	case reflect.Bool:
		v.SetBool(true)
	default:
		t.Fatalf("no value for a %s", typ)
	}
	return v
}

func object(t *testing.T, v any) map[string]any {
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

// What the gpu commands print is what the heartbeat carries.
func TestEveryFieldReachesTheHeartbeatUnderItsName(t *testing.T) {
	s, ok := reflect.TypeAssert[gpu.Snapshot](filled(t, reflect.TypeFor[gpu.Snapshot]()))
	if !ok {
		t.Fatal("no snapshot")
	}
	if diff := cmp.Diff(object(t, s), object(t, Report(s))); diff != "" {
		t.Errorf("snapshot and heartbeat (-snapshot +heartbeat):\n%s", diff)
	}
}

func TestWhatIsNotKnownIsAbsentAndNotEmpty(t *testing.T) {
	card := []gpu.Device{{Index: new(0), Vendor: gpu.Virtual, Type: gpu.Virtual}}
	cards := []any{map[string]any{"index": 0.0, "vendor": "virtual", "type": "virtual"}}
	none := []any{}
	for name, c := range map[string]struct {
		snapshot gpu.Snapshot
		want     map[string]any
	}{
		"no card on the node": {
			gpu.Snapshot{},
			map[string]any{"gpus": none, "gpu_collect_failures": none, "gpu_capabilities": none},
		},
		"the tool fails and nothing is known of the cards": {
			gpu.Snapshot{CollectorError: "nvidia: driver_not_loaded: x"},
			map[string]any{"gpu_collector_error": "nvidia: driver_not_loaded: x", "gpu_collect_failures": none},
		},
		"the tool fails and the last good values are young": {
			gpu.Snapshot{CollectorError: "nvidia: tool_timeout: x", Devices: card},
			map[string]any{
				"gpus": cards, "gpu_collector_error": "nvidia: tool_timeout: x",
				"gpu_collect_failures": none, "gpu_capabilities": none,
			},
		},
		"a card of which nothing can be measured": {
			gpu.Snapshot{Devices: card},
			map[string]any{"gpus": cards, "gpu_collect_failures": none, "gpu_capabilities": none},
		},
		"rows that name no card": {
			gpu.Snapshot{
				Devices: []gpu.Device{{Model: "x"}}, Stats: []gpu.Stats{{Power: new(1.0)}},
				Capabilities: []gpu.Capability{{}}, Failures: []gpu.Failure{{BusID: "0000:01:00.0", Code: "lost"}},
			},
			map[string]any{
				"gpus": none, "gpu_capabilities": none,
				"gpu_collect_failures": []any{map[string]any{"bus_id": "0000:01:00.0", "code": "lost"}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, object(t, Report(c.snapshot))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheWordsOfBothSidesAreTheSame(t *testing.T) {
	var ours, theirs []string
	for _, v := range gpu.Vendors() {
		ours = append(ours, string(v))
	}
	for _, v := range protocol.DeviceTypes() {
		theirs = append(theirs, string(v))
	}
	if diff := cmp.Diff(theirs, ours); diff != "" {
		t.Error(diff)
	}
	for _, h := range []string{gpu.HealthOK, gpu.HealthWarning, gpu.HealthFailed} {
		if !protocol.DeviceHealth(h).Known() {
			t.Errorf("the protocol does not know the health %q", h)
		}
	}
}

func TestTheChainHasADetectorOfEachVendorInItsOrder(t *testing.T) {
	var got []gpu.Vendor
	for _, d := range append(Detectors(nil, ""), Fallback()) {
		got = append(got, d.Vendor())
	}
	if diff := cmp.Diff(gpu.Vendors(), got); diff != "" {
		t.Error(diff)
	}
}
