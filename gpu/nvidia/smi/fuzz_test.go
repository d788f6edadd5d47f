package smi

import (
	"fmt"
	"strings"
	"testing"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// FuzzParse holds every form's parser to the package's promise: it ends, and
// whatever it says of a card stands in the text.
func FuzzParse(f *testing.F) {
	for name, command := range outputs {
		f.Add(command, 0, read(f, name))
	}
	f.Add("nvidia-smi", 15, []byte("Unable to determine the device handle for GPU1: 0000:84:00.0: GPU is lost."))
	f.Add("nvidia-smi --query-gpu=name,... --format=csv,noheader -l 1", 0, []byte("[Unknown Error], 3\n"))
	f.Fuzz(func(t *testing.T, command string, exitCode int, output []byte) {
		res, err := Parse(text.SplitCommand(command), exitCode, output)
		if err != nil {
			return
		}
		if len(res.Stats) != len(res.GPUs) {
			t.Errorf("%d rows of measurements, %d cards", len(res.Stats), len(res.GPUs))
		}
		printed := strings.ToLower(strings.Join(text.Lines(output), "\n"))
		for i, d := range res.GPUs {
			backed(t, printed, d)
			if s := res.Stats[i]; s.Utilization != nil && (*s.Utilization < 0 || *s.Utilization > 100) ||
				s.MemoryUsed != nil && *s.MemoryUsed < 0 {
				t.Errorf("impossible measurement: %+v", s)
			}
		}
		for _, x := range res.Failures {
			if x.Code == "" || x.Message == "" || x.Index == nil && x.UUID == "" && x.BusID == "" {
				t.Errorf("a failure of nothing: %+v", x)
			}
		}
		if e := res.CollectorError; e != nil && (e.Code == "" || e.Message == "") {
			t.Errorf("an error without words: %+v", e)
		}
	})
}

// backed checks that the text shows the card.
func backed(t *testing.T, printed string, d gpu.Device) {
	t.Helper()
	for _, s := range []string{d.UUID, d.Model, d.Serial} {
		for word := range strings.FieldsSeq(strings.ToLower(s)) { // blanks of a table are squeezed
			if !strings.Contains(printed, word) && !strings.ContainsAny(word, "<>&") {
				t.Errorf("%q is not in the text", s)
			}
		}
	}
	if d.BusID != "" {
		_, short, _ := strings.Cut(d.BusID, ":")
		if bus, _, _ := strings.Cut(short, ":"); !strings.Contains(printed, strings.TrimLeft(bus, "0")) {
			t.Errorf("bus id %s is not in the text", d.BusID)
		}
	}
	if d.Index != nil && d.UUID == "" && d.BusID == "" && d.Model == "" &&
		!strings.Contains(printed, fmt.Sprint(*d.Index)) {
		t.Errorf("card %d is not in the text", *d.Index)
	}
	if d.Index != nil && *d.Index < 0 {
		t.Errorf("card %d", *d.Index)
	}
}
