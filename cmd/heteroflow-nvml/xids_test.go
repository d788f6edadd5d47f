//go:build cgo

package main

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/gpu/nvidia/nvml/wire"
)

// start runs the watcher for the rest of the test's bubble.
func (h *helper) start(t *testing.T) {
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() { defer close(done); h.xids.run(stop) }()
	t.Cleanup(func() { close(stop); <-done })
}

// idle is a wait in which nothing happens.
func idle(ms uint32) (nvml.EventData, nvml.Return) {
	<-time.After(time.Duration(ms) * time.Millisecond)
	return nvml.EventData{}, nvml.ERROR_TIMEOUT
}

func TestXidsAreToldOnceWithTheirCard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := dgxa100.New()
		events := make(chan nvml.EventData, 8)
		h := simulate(t, s, watchable(s, &mock.EventSet{WaitFunc: func(ms uint32) (nvml.EventData, nvml.Return) {
			select {
			case e := <-events:
				return e, nvml.SUCCESS
			default:
				return idle(ms)
			}
		}})...)
		began := time.Now().UTC()
		for _, e := range []nvml.EventData{
			{Device: s.Devices[3], EventType: nvml.EventTypeXidCriticalError, EventData: 79, GpuInstanceId: wholeCard, ComputeInstanceId: wholeCard},
			{Device: s.Devices[1], EventType: nvml.EventTypeXidCriticalError, EventData: 95, GpuInstanceId: 7, ComputeInstanceId: 0},
			{Device: &mock.Device{}, EventType: nvml.EventTypeXidCriticalError, EventData: 31, GpuInstanceId: wholeCard, ComputeInstanceId: wholeCard},
			{Device: s.Devices[0], EventType: nvml.EventTypeClock},
		} {
			events <- e
		}
		h.start(t)
		synctest.Wait()
		xids, status := h.xids.take()
		want := []wire.XID{
			{Code: 79, BusID: address(3), At: began},
			{Code: 95, BusID: address(1), GI: new(uint32(7)), CI: new(uint32(0)), At: began},
			{Code: 31, At: began}, // of nobody, rather than of everybody
		}
		if diff := cmp.Diff(want, xids); diff != "" || status != (wire.XIDStatus{Watched: 8}) {
			t.Errorf("%+v (-want +got):\n%s", status, diff)
		}
		if again, _ := h.xids.take(); again != nil {
			t.Errorf("again: %+v", again)
		}
	})
}

func TestWaitsThatFailAreRareAndToldInTheStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := dgxa100.New()
		var waits atomic.Int32
		var works atomic.Bool
		h := simulate(t, s, watchable(s, &mock.EventSet{WaitFunc: func(ms uint32) (nvml.EventData, nvml.Return) {
			waits.Add(1)
			if !works.Load() {
				return nvml.EventData{}, nvml.ERROR_UNKNOWN
			}
			return idle(ms)
		}})...)
		h.start(t)
		<-time.After(time.Hour)
		synctest.Wait()
		if n := waits.Load(); n < 30 || n > 70 {
			t.Errorf("%d waits in an hour", n)
		}
		if _, status := h.xids.take(); !strings.Contains(status.Error, "wait for Xids") || status.Watched != 0 {
			t.Errorf("%+v", status)
		}
		works.Store(true)
		<-time.After(2 * lastPause)
		synctest.Wait()
		if _, status := h.xids.take(); status != (wire.XIDStatus{Watched: 8}) {
			t.Errorf("afterwards: %+v", status)
		}
	})
}

func TestALostCardIsLeftOutOfTheNextSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := dgxa100.New()
		var lost, inSet atomic.Bool // card 5
		set := &mock.EventSet{WaitFunc: func(ms uint32) (nvml.EventData, nvml.Return) {
			if lost.Load() && inSet.Load() {
				return nvml.EventData{}, nvml.ERROR_GPU_IS_LOST
			}
			return idle(ms)
		}}
		h := simulate(t, s, watchable(s, set)...)
		set.FreeFunc = func() nvml.Return { inSet.Store(false); return nvml.SUCCESS }
		card := devices(s)[5]
		card.RegisterEventsFunc = func(uint64, nvml.EventSet) nvml.Return { inSet.Store(true); return nvml.SUCCESS }
		card.GetSupportedEventTypesFunc = func() (uint64, nvml.Return) {
			if lost.Load() {
				return 0, nvml.ERROR_GPU_IS_LOST
			}
			return nvml.EventTypeXidCriticalError, nvml.SUCCESS
		}
		h.start(t)
		<-time.After(12 * time.Second)
		synctest.Wait()
		lost.Store(true)
		<-time.After(10 * time.Second)
		synctest.Wait()
		if _, status := h.xids.take(); status != (wire.XIDStatus{Watched: 7}) {
			t.Errorf("%+v", status)
		}
	})
}

func TestXidsThatNobodyFetchesAreBounded(t *testing.T) {
	w := newWatcher(nil)
	for i := range maxXids + 10 {
		w.add(nvml.EventData{EventType: nvml.EventTypeXidCriticalError, EventData: uint64(i)}, nil)
	}
	xids, status := w.take()
	if len(xids) != maxXids || xids[0].Code != 10 || status.Dropped != 10 {
		t.Errorf("%d Xids from %d on, %+v", len(xids), xids[0].Code, status)
	}
	if _, status := w.take(); status.Dropped != 0 {
		t.Errorf("told again: %+v", status)
	}
}

func TestALibraryWithoutEventsIsTold(t *testing.T) {
	h := simulate(t, dgxa100.New())
	h.xids.run(nil)
	if _, status := h.xids.take(); !strings.Contains(status.Error, "nvmlEventSetCreate") {
		t.Errorf("%+v", status)
	}
}
