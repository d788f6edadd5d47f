package virtual_test

import (
	"testing"
	"time"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/virtual"
)

func TestANodeWithoutCardsHasOneVirtualDeviceThatMeasuresNothing(t *testing.T) {
	r, err := gpu.NewRegistry(gpu.Config{Detectors: []gpu.Detector{virtual.New()}, Sysfs: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	s := r.Detect(t.Context(), time.Second)
	if s.Type != gpu.Virtual || len(s.Devices) != 1 || len(s.Stats) != 0 || len(s.Failures) != 0 || s.CollectorError != "" {
		t.Fatalf("got %+v", s)
	}
	if d := s.Devices[0]; d.Type != gpu.Virtual || d.Index == nil || *d.Index != 0 || d.MemoryTotal != nil {
		t.Errorf("device %+v", d)
	}
	if _, err := virtual.New().Parse(nil, 0, []byte("x")); err == nil {
		t.Error("something was taken for the output of a tool that does not exist")
	}
}
