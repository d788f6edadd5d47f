//go:build cgo

package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/heteroflow/node-agent/gpu/nvidia/nvml/wire"
)

const (
	// waitFor is how long one wait for an event takes when there is none.
	waitFor = 5 * time.Second
	// A wait that fails fails at once and would again: the pauses between grow
	// from the first to the last.
	firstPause, lastPause = time.Second, time.Minute
	// maxXids are kept for the agent, which fetches them every few seconds.
	maxXids = 256
	// wholeCard is in place of an instance's number when there is none.
	wholeCard = 0xFFFFFFFF
)

// watcher waits for Xids. That it cannot is told once, in its status, and says
// nothing about any card.
type watcher struct {
	lib *library

	mu     sync.Mutex
	xids   []wire.XID
	status wire.XIDStatus
}

func newWatcher(lib *library) *watcher { return &watcher{lib: lib} }

// take returns what has come since the last call.
func (w *watcher) take() ([]wire.XID, wire.XIDStatus) {
	w.mu.Lock()
	defer w.mu.Unlock()
	xids, status := w.xids, w.status
	w.xids, w.status.Dropped = nil, 0
	return xids, status
}

// run waits until stop is closed; a nil one never is.
func (w *watcher) run(stop <-chan struct{}) {
	if missing := w.lib.lacks("nvmlEventSetCreate", "nvmlEventSetFree", "nvmlEventSetWait_v2",
		"nvmlDeviceRegisterEvents", "nvmlDeviceGetSupportedEventTypes", "nvmlDeviceGetPciInfo_v3"); missing != "" {
		w.set(wire.XIDStatus{Error: "the library has no " + missing})
		return
	}
	pause := firstPause
	for {
		waited, err := w.watch(stop)
		if err == nil {
			return
		}
		w.set(wire.XIDStatus{Error: err.Error()})
		if waited {
			pause = firstPause
		}
		timer := time.NewTimer(pause)
		select {
		case <-stop:
			timer.Stop()
			return
		case <-timer.C:
		}
		pause = min(2*pause, lastPause)
	}
}

func (w *watcher) set(s wire.XIDStatus) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.Dropped = w.status.Dropped
	w.status = s
}

// watch registers the cards that answer, and collects their Xids until a wait
// fails, or stop is closed. A lost card fails every wait of the set it is in;
// the next set is made without it.
func (w *watcher) watch(stop <-chan struct{}) (waited bool, err error) {
	set, ret := w.lib.EventSetCreate()
	if ret != nvml.SUCCESS {
		return false, fmt.Errorf("make an event set: %w", ret)
	}
	defer func() { _ = set.Free() }() // one that fails is the driver's to clear, with this process
	cards, err := w.register(set)
	if err != nil {
		return false, err
	}
	for {
		select {
		case <-stop:
			return waited, nil
		default:
		}
		event, ret := set.Wait(uint32(waitFor.Milliseconds()))
		switch ret {
		case nvml.SUCCESS:
			w.add(event, cards)
		case nvml.ERROR_TIMEOUT:
		default:
			return waited, fmt.Errorf("wait for Xids: %w", ret)
		}
		if !waited {
			waited = true
			w.set(wire.XIDStatus{Watched: len(cards)})
		}
	}
}

// register adds the cards to the set and returns their bus ids.
func (w *watcher) register(set nvml.EventSet) (map[nvml.Device]string, error) {
	count, ret := w.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil, fmt.Errorf("watch for Xids: count the cards: %w", ret)
	}
	cards := map[nvml.Device]string{}
	for i := range count {
		card, ret := w.lib.DeviceGetHandleByIndex(i)
		if ret != nvml.SUCCESS {
			continue
		}
		kinds, ret := card.GetSupportedEventTypes()
		if ret != nvml.SUCCESS || kinds&nvml.EventTypeXidCriticalError == 0 {
			continue
		}
		pci, ret := card.GetPciInfo()
		if ret != nvml.SUCCESS || card.RegisterEvents(nvml.EventTypeXidCriticalError, set) != nvml.SUCCESS {
			continue
		}
		cards[card] = busID(pci)
	}
	if len(cards) == 0 {
		return nil, fmt.Errorf("watch for Xids: none of %d cards can be watched", count)
	}
	return cards, nil
}

func (w *watcher) add(e nvml.EventData, cards map[nvml.Device]string) {
	if e.EventType != nvml.EventTypeXidCriticalError {
		return
	}
	x := wire.XID{Code: int(e.EventData), BusID: cards[e.Device], At: time.Now().UTC()}
	if e.GpuInstanceId != wholeCard {
		x.GI = &e.GpuInstanceId
	}
	if e.ComputeInstanceId != wholeCard {
		x.CI = &e.ComputeInstanceId
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.xids) == maxXids {
		w.xids = w.xids[1:]
		w.status.Dropped++
	}
	w.xids = append(w.xids, x)
}
