package xid

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

func TestTheCatalogueHasEachCodeOnce(t *testing.T) {
	seen := map[int]Class{}
	for _, c := range catalogue {
		for _, code := range c.codes {
			if before, twice := seen[code]; twice {
				t.Errorf("Xid %d is %s and %s", code, before, c.class)
			}
			seen[code] = c.class
		}
	}
}

func TestEachClassTakesACardOrNotAndSaysWhatGivesItBack(t *testing.T) {
	for _, c := range []struct {
		code     int
		class    Class
		takes    bool
		recovery Recovery
	}{
		{13, App, false, None},
		{31, App, false, None},
		{94, App, false, None},
		{43, Ignore, false, None},
		{45, Ignore, false, None},
		{63, Ignore, false, None},
		{154, Ignore, false, None},
		{48, Check, false, None},
		{74, Check, false, None},
		{999, Check, false, None},
		{0, Check, false, None},
		{64, Reset, true, Acquitted},
		{95, Reset, true, Acquitted},
		{109, Reset, true, Acquitted},
		{119, Reset, true, Acquitted},
		{79, Reboot, true, Answers},
	} {
		class := ClassOf(c.code)
		if class != c.class || class.Takes() != c.takes || class.Recovery() != c.recovery {
			t.Errorf("Xid %d: %s, takes %v, back by %q", c.code, class, class.Takes(), class.Recovery())
		}
	}
}

func TestAnXidThatTakesACardHasAName(t *testing.T) {
	for _, c := range catalogue {
		for _, code := range c.codes {
			if c.class.Takes() && Name(code) == "" {
				t.Errorf("Xid %d", code)
			}
		}
	}
}

const (
	kernelXID = "[  12.5] NVRM: Xid (PCI:0000:5e:00): 64, pid='<unknown>', name=<unknown>, Row Remapper: New row (0x0) marked\n"
	kernelOld = "Jan  2 03:04:05 node7 kernel: NVRM: Xid (0000:03:00): 31, Ch 0000001e\n"
	kernelOff = "[ 7.1] NVRM: The NVIDIA GPU 0000:c1:00.0\n[ 7.1] NVRM: (PCI ID: 10de:20b5) installed in this system has\n" +
		"[ 7.1] NVRM: fallen off the bus and is not responding to commands.\n"
	kernelOne    = "[ 9.9] NVRM: GPU 0000:C1:00.0: GPU has fallen off the bus.\n"
	kernelSwitch = "[ 3.0] nvidia-nvswitch1: SXid (PCI:0000:c6:00.0): 12028, Non-fatal, Link 3 egress\n"
)

func TestTheDriversLinesInAKernelLogAreEvents(t *testing.T) {
	for _, c := range []struct {
		name, log string
		want      []gpu.KernelEvent
	}{
		{"an Xid", kernelXID, []gpu.KernelEvent{{
			Kind: KindXID, Code: new(64), BusIDs: []string{"0000:5e:00.0"},
			Message: "NVRM: Xid (PCI:0000:5e:00): 64, pid='<unknown>', name=<unknown>, Row Remapper: New row (0x0) marked",
		}}},
		{"an Xid of an old driver", kernelOld, []gpu.KernelEvent{{
			Kind: KindXID, Code: new(31), BusIDs: []string{"0000:03:00.0"}, Message: "NVRM: Xid (0000:03:00): 31, Ch 0000001e",
		}}},
		{
			"an Xid of an instance", "[ 2.5] NVRM: Xid (PCI:0000:5e:00 GPU-I:05 GPU-CI:00): 94, pid=7, Contained: SM\n",
			[]gpu.KernelEvent{{
				Kind: KindXID, Code: new(94), BusIDs: []string{"0000:5e:00.0"},
				Message: "NVRM: Xid (PCI:0000:5e:00 GPU-I:05 GPU-CI:00): 94, pid=7, Contained: SM",
			}},
		},
		{"a message broken over three lines", kernelOff, []gpu.KernelEvent{{
			Kind: KindOff, BusIDs: []string{"0000:c1:00.0"},
			Message: "NVRM: fallen off the bus and is not responding to commands.",
		}}},
		{"the same on one line", kernelOne, []gpu.KernelEvent{{
			Kind: KindOff, BusIDs: []string{"0000:c1:00.0"}, Message: "NVRM: GPU 0000:C1:00.0: GPU has fallen off the bus.",
		}}},
		{"the fabric", kernelSwitch, []gpu.KernelEvent{{
			Kind: KindSXID, Code: new(12028), BusIDs: []string{"0000:c6:00.0"},
			Message: "nvidia-nvswitch1: SXid (PCI:0000:c6:00.0): 12028, Non-fatal, Link 3 egress",
		}}},
		{"nothing that names a card", "[ 1.0] NVRM: loading NVIDIA UNIX x86_64 Kernel Module\n[ 2.0] NVRM: has fallen off the bus\n", nil},
		{"another device's words between", "[ 1] NVRM: The NVIDIA GPU 0000:c1:00.0\n[ 1] usb 1-1: reset\n[ 1] NVRM: fallen off the bus\n", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := ParseKernel(text.Lines([]byte(c.log)))
			if !ok {
				t.Error("not recognised")
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if _, ok := ParseKernel([]string{"usb 1-1: reset", "amdgpu 0000:03:00.0: fallen off the bus"}); ok {
		t.Error("another driver's lines")
	}
}

func FuzzParseKernel(f *testing.F) {
	f.Add([]byte(kernelXID + kernelOld + kernelOff + kernelOne + kernelSwitch))
	f.Fuzz(func(t *testing.T, log []byte) {
		lines := text.Lines(log)
		events, ok := ParseKernel(lines)
		if len(events) > 0 && !ok || len(events) > len(lines) {
			t.Errorf("%d events of %d lines, ok %v", len(events), len(lines), ok)
		}
		for _, e := range events {
			for _, id := range e.BusIDs {
				if bus := strings.Split(id, ":")[1]; !strings.Contains(strings.ToLower(string(log)), bus) {
					t.Errorf("%s is not in the log", id)
				}
			}
			if len(e.Message) > maxQuoted {
				t.Errorf("message of %d bytes", len(e.Message))
			}
		}
	})
}
