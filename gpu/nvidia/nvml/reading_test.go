package nvml

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/nvidia"
	"github.com/heteroflow/node-agent/gpu/nvidia/nvml/wire"
	"github.com/heteroflow/node-agent/gpu/text"
	"github.com/heteroflow/node-agent/gpu/tool"
	"github.com/heteroflow/node-agent/test/fakenvml"
)

const mib = int64(1) << 20

func TestAnInventoryKnowsEverything(t *testing.T) {
	lib := fakenvml.Build(t)
	lib.Set("cards 2", "mig 1 2")
	got, err := client(t, lib).Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	card := func(i, minor int) gpu.Device {
		return gpu.Device{
			Index: new(i), UUID: fakenvml.UUID(i), Vendor: gpu.NVIDIA, Type: gpu.NVIDIA, Model: "NVIDIA H100 80GB HBM3",
			BusID: text.BusID(fakenvml.BusID(i)), MemoryTotal: new(81559 * mib), DriverVersion: fakenvml.Driver,
			FirmwareVersion: "96.00.74.00.01", Serial: fmt.Sprintf("16500000000%02d", i), MIGMode: "disabled", Minor: new(minor),
		}
	}
	sliced := card(1, 0)
	sliced.MIGMode = "enabled"
	sliced.Instances = []gpu.Instance{
		{GI: new(7), CI: new(0), UUID: "MIG-00000101-0f1e-5a2b-8c3d-4e5f60718290", Profile: "1g.10gb"},
		{GI: new(8), CI: new(0), UUID: "MIG-00000102-0f1e-5a2b-8c3d-4e5f60718290", Profile: "1g.10gb"},
	}
	want := nvidia.Reading{
		Report: gpu.Report{
			Vendor: gpu.NVIDIA, DriverVersion: fakenvml.Driver, Devices: []gpu.Device{card(0, 1), sliced},
			Stats: []gpu.Stats{{
				Index: new(0), UUID: fakenvml.UUID(0), Temperature: new(41.0), Utilization: new(0.0), MemoryUsed: new(139 * mib),
				MemoryTotal: new(81559 * mib), Power: new(88.12), PowerLimit: new(700.0), Health: gpu.HealthOK,
			}, {
				Index: new(1), UUID: fakenvml.UUID(1), Temperature: new(42.0), MemoryUsed: new(1139 * mib),
				MemoryTotal: new(81559 * mib), Power: new(89.12), PowerLimit: new(700.0), Health: gpu.HealthOK,
			}},
			Topology: &gpu.Topology{
				Kind: "nvidia", Links: []gpu.Link{{A: 0, B: 1, Type: "SYS"}},
				NUMA: []gpu.Affinity{{Index: 0, Node: new(0), CPUs: "0-15"}, {Index: 1, Node: new(1), CPUs: "16-31"}},
			},
		},
		NoAction: []string{fakenvml.UUID(0), fakenvml.UUID(1)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// rows is what nvidia-smi's query prints of the simulated library's cards; edit
// changes the rows.
func rows(edit func(rows []string) []string) string {
	const head = "index, uuid, pci.bus_id, name, driver_version, memory.total [MiB], memory.used [MiB], utilization.gpu [%], " +
		"temperature.gpu, power.draw [W], enforced.power.limit [W], mig.mode.current, gpu_recovery_action"
	var list []string
	for i := range 8 {
		list = append(list, fmt.Sprintf("%d, %s, %s, NVIDIA H100 80GB HBM3, %s, 81559, %d, %d, %d, %.2f, 700.00, Disabled, None",
			i, fakenvml.UUID(i), fakenvml.BusID(i), fakenvml.Driver, 139+1000*i, 10*i, 41+i, 88.12+float64(i)))
	}
	if edit != nil {
		list = edit(list)
	}
	return head + "\n" + strings.Join(list, "\n") + "\n"
}

// TestTheHelperAndTheTextSayTheSame holds the two sources together: one state
// of a node, as the library and as nvidia-smi tell it. Only words may differ.
func TestTheHelperAndTheTextSayTheSame(t *testing.T) {
	lib := fakenvml.Build(t)
	c := client(t, lib)
	lost := func(rows []string) []string {
		rows[3] = fmt.Sprintf("3, %s, %s, NVIDIA H100 80GB HBM3, %s, [GPU is lost], [GPU is lost], [GPU is lost], "+
			"[GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost]", fakenvml.UUID(3), fakenvml.BusID(3), fakenvml.Driver)
		return rows
	}
	for _, s := range []struct {
		name     string
		scenario []string
		exit     int
		text     string
	}{
		{"eight healthy cards", nil, 0, rows(nil)},
		{"one has fallen off the bus", []string{"lost 3"}, 15, rows(lost)},
		{"one cannot be opened", []string{"handle 3 15"}, 15, rows(func(r []string) []string {
			r[3] = "Unable to determine the device handle for GPU3: " + fakenvml.BusID(3) + ": GPU is lost.  Reboot the system to recover this GPU"
			return r
		})},
		{"one cannot be opened, nobody knows why", []string{"handle 7 999"}, 255, rows(func(r []string) []string {
			r[7] = "Unable to determine the device handle for GPU7: " + fakenvml.BusID(7) + ": Unknown Error"
			return r
		})},
		{"one asks for a reset", []string{"action 5 1"}, 0, rows(func(r []string) []string {
			r[5] = strings.TrimSuffix(r[5], "None") + "Reset"
			return r
		})},
		{"one asks for a reboot", []string{"action 5 2"}, 0, rows(func(r []string) []string {
			r[5] = strings.TrimSuffix(r[5], "None") + "Reboot"
			return r
		})},
		{"one does not say its name", []string{"fail 2 999 nvmlDeviceGetName"}, 0, rows(func(r []string) []string {
			r[2] = strings.Replace(r[2], "NVIDIA H100 80GB HBM3", "[Unknown Error]", 1)
			return r
		})},
		{"one does not say its temperature", []string{"fail 2 999 nvmlDeviceGetTemperature"}, 0, rows(func(r []string) []string {
			r[2] = strings.Replace(r[2], ", 43, ", ", [Unknown Error], ", 1)
			return r
		})},
		{"the driver is not loaded", []string{"init 9"}, 9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. " +
			"Make sure that the latest NVIDIA driver is installed and running.\n"},
		{"the driver was updated and not reloaded", []string{"init 18"}, 18, "Failed to initialize NVML: Driver/library version mismatch\n"},
		{"the process may not see the driver", []string{"init 999"}, 255, "Failed to initialize NVML: Unknown Error\n"},
		{"the operating system blocks it", []string{"init 17"}, 255, "Failed to initialize NVML: GPU access blocked by the operating system\n"},
		{"no permission", []string{"init 4"}, 4, "Failed to initialize NVML: Insufficient Permissions\n"},
		{"there is no card", []string{"cards 0"}, 6, "No devices were found\n"},
	} {
		t.Run(s.name, func(t *testing.T) {
			lib.Set(append([]string{"cards 8"}, s.scenario...)...)
			if err := c.Close(); err != nil { // a new one opens NVML anew
				t.Fatal(err)
			}
			got, err := c.Collect(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			parsed, err := nvidia.Parse([]string{"nvidia-smi", "--query-gpu=index", "--format=csv"}, s.exit, []byte(s.text))
			if err != nil {
				t.Fatal(err)
			}
			parsed.Capabilities = nil // the detector's business
			want := gpu.Combine(gpu.NVIDIA, parsed)
			for i, f := range want.Failures {
				if f.UUID == "" { // who cannot be opened cannot be asked for its address
					want.Failures[i].BusID = ""
				}
			}
			if diff := cmp.Diff(want, got.Report, cmpopts.EquateEmpty(),
				cmpopts.IgnoreFields(gpu.Failure{}, "Message"), cmpopts.IgnoreFields(gpu.CollectorError{}, "Message"),
				cmpopts.IgnoreFields(gpu.Stats{}, "HealthMessage")); diff != "" {
				t.Errorf("(-text +helper):\n%s", diff)
			}
		})
	}
}

func TestALostCardLeavesTheOthersAndIsNamed(t *testing.T) {
	lib := fakenvml.Build(t)
	lib.Set("cards 8", "lost 3")
	rep, err := nvidia.New(tool.NewReplay(), client(t, lib)).Inventory(t.Context())
	if err != nil || rep.CollectorError != nil || len(rep.Devices) != 8 {
		t.Fatalf("%d cards, %v, %v", len(rep.Devices), rep.CollectorError, err)
	}
	want := []gpu.Failure{{
		Index: new(3), UUID: fakenvml.UUID(3), BusID: text.BusID(fakenvml.BusID(3)), Code: "gpu_lost", Message: "GPU is lost",
	}}
	if diff := cmp.Diff(want, rep.Failures); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(rep.Topology.Links) != 7*6/2 {
		t.Errorf("%d links of seven cards", len(rep.Topology.Links))
	}
	for i, s := range rep.Stats {
		if lost := i == 3; (s.Health == gpu.HealthFailed) != lost || (s.Temperature == nil) != lost {
			t.Errorf("card %d: %+v", i, s)
		}
	}
}

func TestCallsThatAnOldLibraryLacksAreNotMade(t *testing.T) {
	lib := fakenvml.Build(t, "nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetFieldValues", "nvmlDeviceGetMemoryInfo_v2",
		"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetMigMode", "nvmlEventSetWait_v2", "nvmlDeviceGetNvLinkState",
		"nvmlDeviceGetTopologyCommonAncestor", "nvmlSystemGetNVMLVersion", "nvmlDeviceGetSerial")
	lib.Set("cards 2")
	c := client(t, lib)
	for range 2 { // the second finds the helper alive
		r, err := c.Inventory(t.Context())
		if err != nil || len(r.Devices) != 2 {
			t.Fatalf("%d cards, %v", len(r.Devices), err)
		}
		s, d := r.Stats[0], r.Devices[0]
		if s.PowerLimit != nil || d.Serial != "" || d.MIGMode != "" || len(r.NoAction) > 0 || len(r.Topology.Links) > 0 {
			t.Errorf("what was not asked is there: %+v, %+v", d, s)
		}
		if s.MemoryUsed == nil || *s.MemoryUsed != 139*mib || s.Health != gpu.HealthOK {
			t.Errorf("%+v", s)
		}
	}
}

func TestAnXidTakesItsCardOnce(t *testing.T) {
	lib := fakenvml.Build(t)
	lib.Set("cards 8")
	c := client(t, lib)
	cardsSeen(t, c)
	lib.Set("cards 8", "xid 1 3 79", "xid 2 5 31")
	var events []gpu.KernelEvent
	poll(t, "both Xids are told", func() bool {
		events = append(events, cardsSeen(t, c).Events...)
		return len(events) >= 2
	})
	for i, want := range []gpu.KernelEvent{
		{Kind: "xid", Code: new(79), BusIDs: []string{text.BusID(fakenvml.BusID(3))}, Message: "Xid 79: fallen off the bus, at 20"},
		{Kind: "xid", Code: new(31), BusIDs: []string{text.BusID(fakenvml.BusID(5))}, Message: "Xid 31: memory page fault, at 20"},
	} {
		if !strings.HasPrefix(events[i].Message, want.Message) {
			t.Errorf("message %q", events[i].Message)
		}
		events[i].Message = want.Message
		if diff := cmp.Diff(want, events[i]); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if again := cardsSeen(t, c).Events; len(again) > 0 {
		t.Errorf("told again: %+v", again)
	}
}

// poll asks until it is so, as long as the test may take.
func poll(t *testing.T, what string, is func() bool) {
	t.Helper()
	end := time.After(time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("it did not come to that: %s", what)
		}
	}
}

func TestThatXidsCannotBeSeenIsToldOnceAndSaysNothingOfTheCards(t *testing.T) {
	lib := fakenvml.Build(t)
	lib.Set("cards 8", "wait 999")
	log, logs := observer.New(zap.WarnLevel)
	c := started(t, Config{Path: helperPath(t), Library: lib.Path, Log: zap.New(log)})
	poll(t, "a warning", func() bool {
		for _, s := range cardsSeen(t, c).Stats {
			if s.Health != gpu.HealthOK {
				t.Fatalf("%+v", s)
			}
		}
		return logs.Len() > 0
	})
	for range 5 {
		cardsSeen(t, c)
	}
	if logs.Len() != 1 || !strings.Contains(fmt.Sprint(logs.All()[0].ContextMap()), "Unknown Error") {
		t.Errorf("log: %+v", logs.All())
	}
}

func TestJudge(t *testing.T) {
	failed := func(kv ...any) map[string]wire.Return {
		m := map[string]wire.Return{}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i].(string)] = kv[i+1].(wire.Return) //nolint:errcheck,forcetypeassert // a table of this test
		}
		return m
	}
	for name, c := range map[string]struct {
		card           wire.Card
		code, health   string
		message        string
		needsNoActions bool
	}{
		"a card that says nothing special is well":    {wire.Card{}, "", gpu.HealthOK, "", false},
		"one that the driver acquits":                 {wire.Card{RecoveryAction: new(uint32(0))}, "", gpu.HealthOK, "", true},
		"one that an older driver acquits":            {wire.Card{ResetStatus: new(uint32(0))}, "", gpu.HealthOK, "", true},
		"an older driver asks for a reset":            {wire.Card{ResetStatus: new(uint32(1))}, "reset_required", gpu.HealthFailed, "requires a reset", false},
		"the newer word stands":                       {wire.Card{RecoveryAction: new(uint32(2)), ResetStatus: new(uint32(0))}, "reboot_required", gpu.HealthFailed, "Node Reboot", false},
		"an action that is for a person":              {wire.Card{RecoveryAction: new(uint32(3))}, "", gpu.HealthWarning, "Drain P2P", false},
		"an action that is new":                       {wire.Card{RecoveryAction: new(uint32(77))}, "", gpu.HealthWarning, "77", false},
		"any call says lost":                          {wire.Card{Failed: failed("serial", wire.GPULost)}, "gpu_lost", gpu.HealthFailed, "lost", false},
		"lost is worse than its action":               {wire.Card{RecoveryAction: new(uint32(1)), Failed: failed("memory", wire.GPULost)}, "gpu_lost", gpu.HealthFailed, "lost", false},
		"any call says reset":                         {wire.Card{Failed: failed("memory", wire.ResetRequired)}, "reset_required", gpu.HealthFailed, "reset", false},
		"one reading is no failure":                   {wire.Card{Failed: failed(wire.FieldPower, wire.Unknown)}, "", gpu.HealthOK, "", false},
		"two readings are":                            {wire.Card{Failed: failed(wire.FieldPower, wire.Unknown, wire.FieldTemperature, wire.Timeout)}, "telemetry_error", gpu.HealthFailed, "temperature, power", false},
		"what may not be read is no failure":          {wire.Card{Failed: failed(wire.FieldName, wire.NoPermission, wire.FieldPower, wire.NoPermission)}, "", gpu.HealthOK, "", false},
		"memory errors are a warning":                 {wire.Card{ECCErrors: new(uint64(3))}, "", gpu.HealthWarning, "uncorrectable ECC errors: 3", false},
		"rows that could not be remapped":             {wire.Card{RowsFailed: new(true), RowsPending: new(false)}, "", gpu.HealthWarning, "row remapping failed", false},
		"pages to be retired":                         {wire.Card{PagesPending: new(true)}, "", gpu.HealthWarning, "pending a reset", false},
		"a corrupted infoROM":                         {wire.Card{Failed: failed("serial", wire.CorruptedInfoROM)}, "", gpu.HealthWarning, "infoROM", false},
		"heat that slows the card":                    {wire.Card{ClockReasons: new(uint64(0x40 | 0x8))}, "", gpu.HealthWarning, "temperature", false},
		"a power cap is how the card was set to work": {wire.Card{ClockReasons: new(uint64(0x4 | 0x1))}, "", gpu.HealthOK, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			v := judge(c.card)
			health, message := v.health()
			if v.code != c.code || health != c.health || !strings.Contains(message, c.message) || v.noAction != c.needsNoActions {
				t.Errorf("%+v, %s, %q", v, health, message)
			}
		})
	}
}

func TestCardsOfOthersAreNotOurs(t *testing.T) {
	theirs := wire.Card{Index: 0, Handle: wire.NoPermission, Reason: "Insufficient Permissions"}
	ours := wire.Card{Index: 1, UUID: "GPU-1"}
	if r := read(wire.Cards{Cards: []wire.Card{theirs, ours}}); len(r.Devices) != 1 || len(r.Failures) != 0 || r.CollectorError != nil {
		t.Errorf("one of two: %+v", r)
	}
	if r := read(wire.Cards{Cards: []wire.Card{theirs, theirs}}); r.CollectorError == nil || r.CollectorError.Code != "no_permission" {
		t.Errorf("both: %+v", r)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"cards":[{"index":0,"uuid":"GPU-1","bus_id":"00000000:11:00.0","mig_mode":1,"instances":[{"name":"x MIG 1g.10gb"}],"utilization_percent":101}]}`))
	f.Add([]byte(`{"cards":[{"index":3,"handle":15},{"index":-1,"memory_total_bytes":18446744073709551615,"recovery_action":9}],"xids":[{"code":79,"bus_id":"x"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var answer wire.Cards
		if json.Unmarshal(data, &answer) != nil {
			return
		}
		r := read(answer)
		if len(r.Devices)+len(r.Failures) > 2*len(answer.Cards) || len(r.Events) > len(answer.Xids) {
			t.Errorf("%d cards and %d failures of %d", len(r.Devices), len(r.Failures), len(answer.Cards))
		}
		for i, d := range r.Devices {
			if d.MemoryTotal != nil && *d.MemoryTotal < 0 || d.BusID != text.BusID(d.BusID) || !slices.ContainsFunc(answer.Cards, func(c wire.Card) bool { return c.Index == *d.Index }) {
				t.Errorf("card %+v", d)
			}
			if u := r.Stats[i].Utilization; u != nil && *u > 100 {
				t.Errorf("utilisation %v", *u)
			}
		}
	})
}
