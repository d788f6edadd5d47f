package gpu

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/heteroflow/node-agent/gpu/pci"
	"github.com/heteroflow/node-agent/gpu/tool"
)

const second = time.Second

func fallback() *fake { return detector(Virtual, lists(card(Virtual, 0))) }

func TestTheFirstVendorWithACardNamesTheNode(t *testing.T) {
	s := registry(t, Config{Detectors: []Detector{
		detector(MUSA, notInstalled),
		detector(Ascend, lists(card(Ascend, 0))),
		detector(NVIDIA, lists(card(NVIDIA, 0), card(NVIDIA, 1))),
		fallback(),
	}}).Detect(t.Context(), second)
	if s.Type != Ascend || s.CollectorError != "" {
		t.Errorf("type %q, collector error %q", s.Type, s.CollectorError)
	}
	var got []string
	for _, d := range s.Devices {
		got = append(got, d.UUID)
	}
	if diff := cmp.Diff([]string{"ascend-0", "nvidia-0", "nvidia-1"}, got); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	if len(s.Stats) != 3 || s.Stats[0].Vendor != Ascend || s.Stats[2].Vendor != NVIDIA {
		t.Errorf("rows of a mixed node must say whose they are: %+v", s.Stats)
	}
}

func TestANodeWithoutAnySignOfACardIsVirtual(t *testing.T) {
	empty := detector(Hygon, lists()) // a CPU node with the vendor's tool installed
	s := registry(t, Config{Detectors: []Detector{detector(MUSA, notInstalled), empty, fallback()}}).
		Detect(t.Context(), second)
	if s.Type != Virtual || len(s.Devices) != 1 || s.CollectorError != "" {
		t.Errorf("got %+v", s)
	}
}

func TestAToolThatFailsIsACollectorErrorAndNeverNoGPU(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		code string
	}{
		{"it cannot be run", errors.New("fork: no memory"), CodeToolFailed},
		{"it was killed at its deadline", &tool.TimeoutError{Argv: []string{"npu-smi"}}, CodeToolTimeout},
		{"it hangs in the kernel", &tool.HungError{Path: "/usr/bin/npu-smi", PID: 7}, CodeToolHung},
		{"its round ran out of time", context.DeadlineExceeded, CodeToolTimeout},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := registry(t, Config{Detectors: []Detector{detector(Ascend, fails(c.err)), fallback()}}).
				Detect(t.Context(), second)
			if s.Type != Ascend || len(s.Devices) != 0 || !strings.HasPrefix(s.CollectorError, "ascend: "+c.code+": ") {
				t.Errorf("type %q, %d devices, collector error %q", s.Type, len(s.Devices), s.CollectorError)
			}
		})
	}
}

func TestOneVendorsFailureLeavesTheOthersCards(t *testing.T) {
	s := registry(t, Config{Detectors: []Detector{
		detector(Ascend, fails(errors.New("broken"))), detector(NVIDIA, lists(card(NVIDIA, 0))), fallback(),
	}}).Detect(t.Context(), second)
	if s.Type != NVIDIA || len(s.Devices) != 1 || s.CollectorError == "" {
		t.Errorf("type %q, %d devices, collector error %q", s.Type, len(s.Devices), s.CollectorError)
	}
}

func TestCardsOnTheBusWhoseDriverDoesNotAnswerAreReported(t *testing.T) {
	nvidia := h100(1)
	nvidia.Driver = ""
	vf, passed := h100(2), h100(3)
	vf.Virtual, passed.Driver = true, "vfio-pci"
	root := sysfs(t, h100(0), nvidia, vf, passed)
	for _, c := range []struct {
		name   string
		answer func(context.Context) (Report, error)
		want   string
	}{
		{"the tool is not installed", notInstalled, "nvidia: no_driver: 2 cards on PCI (0000:01:00.0 0000:02:00.0), " +
			"driver not answering: the vendor's tool is not installed"},
		{"the tool lists none", lists(), "nvidia: no_driver: 2 cards on PCI (0000:01:00.0 0000:02:00.0), " +
			"driver not answering: the vendor's tool lists none"},
		{"the tool fails", fails(errors.New("exit status 9")), "nvidia: tool_failed: 2 cards on PCI " +
			"(0000:01:00.0 0000:02:00.0), driver not answering: tool_failed: exit status 9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := registry(t, Config{Sysfs: root, Detectors: []Detector{detector(NVIDIA, c.answer), fallback()}}).
				Detect(t.Context(), second)
			if s.Type != NVIDIA || len(s.Devices) != 0 {
				t.Errorf("type %q, devices %v: no virtual GPU in their place", s.Type, s.Devices)
			}
			if s.CollectorError != c.want {
				t.Errorf("collector error\n %q, want\n %q", s.CollectorError, c.want)
			}
			want := []Failure{{BusID: bus(0), Code: CodeNoDriver}, {BusID: bus(1), Code: CodeNoDriver}}
			if diff := cmp.Diff(want, s.Failures, cmpopts.IgnoreFields(Failure{}, "Message")); diff != "" {
				t.Errorf("failures (-want +got):\n%s", diff)
			}
		})
	}
}

func TestACardOnTheBusThatTheToolDoesNotListHasFailed(t *testing.T) {
	root := sysfs(t, h100(0), h100(1), h100(2))
	unnamed := card(NVIDIA, 0)
	unnamed.BusID = ""
	for _, c := range []struct {
		name    string
		devices []Device
		all     bool
		want    []string // bus ids
	}{
		{"on a host", []Device{card(NVIDIA, 0), card(NVIDIA, 2)}, true, []string{bus(1)}},
		{"in a container that was given some", []Device{card(NVIDIA, 0)}, false, nil},
		{"when the tool does not name bus ids", []Device{unnamed}, true, nil},
		{"and all are listed", []Device{card(NVIDIA, 0), card(NVIDIA, 1), card(NVIDIA, 2)}, true, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := registry(t, Config{
				Sysfs: root, SeesAllCards: c.all, Detectors: []Detector{detector(NVIDIA, lists(c.devices...))},
			}).Detect(t.Context(), second)
			var got []string
			for _, f := range s.Failures {
				got = append(got, f.BusID)
				if f.Code != CodeNotListed {
					t.Errorf("code %q", f.Code)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheNUMANodeComesFromSysfsWhereTheToolNamesNone(t *testing.T) {
	named := card(NVIDIA, 1)
	named.NUMANode = new(7)
	s := registry(t, Config{
		Sysfs: sysfs(t, h100(0), h100(1)), Detectors: []Detector{detector(NVIDIA, lists(card(NVIDIA, 0), named))},
	}).Detect(t.Context(), second)
	want := &Topology{Kind: "nvidia", NUMA: []Affinity{{Index: 0, Node: new(0)}, {Index: 1, Node: new(7)}}}
	if diff := cmp.Diff(want, s.Topology); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if *s.Devices[0].NUMANode != 0 || *s.Devices[1].NUMANode != 7 {
		t.Errorf("devices: %+v", s.Devices)
	}
}

func TestARoundIsCompletedFromTheInventoryByIdentityNotByIndex(t *testing.T) {
	r := registry(t, Config{Detectors: []Detector{fallback()}})
	known := Report{Devices: []Device{card(NVIDIA, 0), card(NVIDIA, 1)}, DriverVersion: "570.1"}
	known.Devices[0].Serial, known.Devices[1].Serial = "S0", "S1"
	known.Devices[1].MIGMode, known.Devices[1].Instances = "enabled", []Instance{{UUID: "MIG-1"}}
	lean := detector(NVIDIA, func(context.Context) (Report, error) {
		return Report{
			Devices: []Device{{Index: new(0), UUID: "nvidia-1", MIGMode: "disabled"}}, // card 0 is gone
			Stats:   []Stats{{Index: new(0), Power: new(70.0)}},
		}, nil
	})
	rep := r.round(t.Context(), lean, &known)
	d := rep.Devices[0]
	if d.Serial != "S1" || *d.Index != 0 || d.BusID != bus(1) || d.Instances != nil || rep.DriverVersion != "570.1" {
		t.Errorf("got %+v", d)
	}
	if rep.Stats[0].UUID != "nvidia-1" {
		t.Errorf("stats row %+v", rep.Stats[0])
	}
}

func TestTwoDetectorsOfOneVendorAreRefused(t *testing.T) {
	if _, err := NewRegistry(Config{Detectors: []Detector{fallback(), fallback()}}); err == nil {
		t.Error("accepted")
	}
}

// The keys are those of PROTOCOL.md §2 and §9, and nothing that was not measured
// is there.
func TestTheSnapshotsJSONIsThatOfTheHeartbeat(t *testing.T) {
	s := Snapshot{
		Devices:        []Device{{Index: new(0), Vendor: NVIDIA, Type: NVIDIA, MemoryTotal: new(int64(1 << 30)), Card: new(3)}},
		Stats:          []Stats{{Index: new(0), Utilization: new(0.0)}},
		Failures:       []Failure{{BusID: bus(1), Code: "gpu_lost", Message: "GPU is lost"}},
		CollectorError: (&CollectorError{"driver_not_loaded", "no driver"}).Error(),
	}
	got, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"gpus":[{"index":0,"vendor":"nvidia","type":"nvidia","memory_total_bytes":1073741824}],` +
		`"gpu_stats":[{"index":0,"utilization_percent":0}],` +
		`"gpu_collect_failures":[{"bus_id":"0000:02:00.0","code":"gpu_lost","message":"GPU is lost"}],` +
		`"gpu_collector_error":"driver_not_loaded: no driver","gpu_capabilities":[]}`
	if string(got) != want {
		t.Errorf("got\n %s\nwant\n %s", got, want)
	}
	got, err = json.Marshal(Parsed{CollectorError: &CollectorError{"a", "b"}})
	if err != nil {
		t.Fatal(err)
	}
	want = `{"gpus":[],"gpu_stats":[],"gpu_collect_failures":[],"gpu_collector_error":"a: b"}`
	if string(got) != want {
		t.Errorf("got\n %s\nwant\n %s", got, want)
	}
}

func TestTheBusNamesVendorsByTheWordsOfTheTypes(t *testing.T) {
	for vendor, c := range map[Vendor]pci.Card{
		MUSA:      {VendorID: 0x1ed5, DeviceID: 0x0323, Class: 0x030000},
		Hygon:     {VendorID: 0x1d94, DeviceID: 0x6210, Class: 0x0b4000},
		Cambricon: {VendorID: 0xcabc, DeviceID: 0x0370, Class: 0x120000},
		Ascend:    {VendorID: 0x19e5, DeviceID: 0xd802, Class: 0x120000},
		Kunlun:    {VendorID: 0x2057, DeviceID: 0x3686, Class: 0x120000},
		Iluvatar:  {VendorID: 0x1e3e, DeviceID: 0x0002, Class: 0x120000},
		NVIDIA:    {VendorID: 0x10de, DeviceID: 0x2330, Class: 0x030200},
		MetaX:     {VendorID: 0x9999, DeviceID: 0x0a01, Class: 0x038000},
		Enflame:   {VendorID: 0x1e36, DeviceID: 0xc035, Class: 0x120000},
	} {
		c.BusID = bus(0)
		s := registry(t, Config{
			Sysfs: sysfs(t, c), Detectors: []Detector{detector(vendor, notInstalled), fallback()},
		}).Detect(t.Context(), second)
		if s.Type != vendor {
			t.Errorf("%s: the card on the bus makes the node %q", vendor, s.Type)
		}
	}
}

func TestParseVendorTakesTheElevenTypesOnly(t *testing.T) {
	for _, v := range Vendors() {
		if got, err := ParseVendor(string(v)); got != v || err != nil {
			t.Errorf("ParseVendor(%q) = %q, %v", v, got, err)
		}
	}
	if len(Vendors()) != 11 {
		t.Errorf("%d types", len(Vendors()))
	}
	if _, err := ParseVendor("amd"); err == nil {
		t.Error("an unknown vendor is accepted")
	}
}
