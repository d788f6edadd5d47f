package biren

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/tool"
)

func ask(fields string) string { return "brsmi gpu --query-gpu=" + fields + " " + format }

// said is one recorded command.
func said(command string, exit int, stdout string) tool.Recorded {
	return tool.Recorded{Result: tool.Result{Argv: strings.Fields(command), ExitCode: exit, Stdout: []byte(stdout)}}
}

func read(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestInventoryJoinsTheFieldsThatExist(t *testing.T) {
	r := tool.NewReplay(
		said(ask(fields), 0, "0, 11, 32501, Disabled, TESTSERIAL001, 41\n"),
		said(ask("index,name"), 0, "0, Biren106B\n"),
		said(ask("index,memory.total"), 1, "Error: memory.total is not a valid field\n"),
		said(ask("index,power.draw"), 0, "0, 80500\n"), // milliwatts, it seems
		said("brsmi", 0, "| BR-SMI 1.11.0    Driver Version: 1.11.1    SUPA Version: 1.11 |\n"),
	)
	rep, err := New(r).Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := gpu.Report{
		Vendor: gpu.Biren, DriverVersion: "1.11.1",
		Devices: []gpu.Device{{
			Index: new(0), Vendor: gpu.Biren, Type: gpu.Biren, Model: "Biren106B", Serial: "TESTSERIAL001", DriverVersion: "1.11.1",
		}},
		Stats: []gpu.Stats{{Index: new(0), Temperature: new(41.0), MemoryUsed: new(int64(11) << 20)}},
	}
	if diff := cmp.Diff(want, rep); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestARoundCostsOneCommandAndKeepsACardWhoseRowIsCut(t *testing.T) {
	r := tool.NewReplay(said(ask(fields), 1, read(t, "noheader.txt")), said("brsmi", 0, ""))
	rep, err := New(r).Collect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []gpu.Failure{{Index: new(3), Code: CodeUnparsedRow, Message: "2 values for 6 columns: 3, 12"}}
	if diff := cmp.Diff(want, rep.Failures); diff != "" || len(rep.Devices) != 3 || len(r.Unasked()) != 1 {
		t.Errorf("%d devices, %d commands not run (-want +got):\n%s", len(rep.Devices), len(r.Unasked()), diff)
	}
}

func TestAHungDriverEndsTheRound(t *testing.T) {
	r := tool.NewReplay(said(ask(fields), 0, "0, 11, 32501, Disabled, S, 41\n"),
		tool.Recorded{Error: "hung", Result: tool.Result{Argv: []string{"brsmi"}}})
	_, err := New(r).Inventory(t.Context())
	if _, ok := errors.AsType[*tool.HungError](err); !ok {
		t.Errorf("error %v, want a HungError", err)
	}
}

func TestNotInstalledIsNotThisVendor(t *testing.T) {
	d := New(tool.NewReplay())
	if _, err := d.Inventory(t.Context()); !errors.Is(err, tool.ErrNotInstalled) {
		t.Errorf("Inventory: %v", err)
	}
	if _, err := d.Collect(t.Context()); !errors.Is(err, tool.ErrNotInstalled) {
		t.Errorf("Collect: %v", err)
	}
}

func TestWithoutARowThereIsACollectorError(t *testing.T) {
	for _, c := range []struct {
		name, out, code string
		exit            int
	}{
		{"the tool says error", "Error: driver is not loaded\n", CodeTool, 1},
		{"no library", "brsmi: error while loading shared libraries: libbesu.so.1: cannot open\n", CodeTool, 127},
		{"nothing printed", "", gpu.CodeNoOutput, 1},
		{"unknown words with a status", "Segmentation fault\n", gpu.CodeExitStatus, 139},
		{"unknown words without one", "+----+\n| 0 Biren106B |\n", gpu.CodeUnrecognised, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			rep, err := New(tool.NewReplay(said(ask(fields), c.exit, c.out))).Collect(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if rep.CollectorError == nil || rep.CollectorError.Code != c.code || len(rep.Devices) > 0 {
				t.Errorf("%d devices, collector error %v, want %s", len(rep.Devices), rep.CollectorError, c.code)
			}
		})
	}
}

func BenchmarkCollectEightCards(b *testing.B) {
	var out strings.Builder
	for i := range 8 {
		fmt.Fprintf(&out, "%d, 1%d, 32501, Disabled, TESTSERIAL00%d, 41\n", i, i, i)
	}
	d := New(tool.NewReplay(said(ask(fields), 0, out.String())))
	b.ReportAllocs()
	for b.Loop() {
		rep, err := d.Collect(b.Context())
		if err != nil || len(rep.Devices) != 8 || *rep.Stats[7].MemoryUsed != 17<<20 {
			b.Fatal(rep.Devices, err)
		}
	}
}
