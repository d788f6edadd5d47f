//go:build cgo

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/heteroflow/node-agent/gpu/nvidia/nvml/wire"
)

// helper answers the agent's questions. It opens NVML with the first that needs
// it, and again with each as long as that fails. Once NVML is open it stays as
// it is: of what changed under it, a new process is a surer witness.
type helper struct {
	places []string // where to look for the library
	proc   string   // procfs

	lib   *library
	open  bool
	cards []string // the driver's cards when NVML was opened
	xids  *watcher
}

// answer answers one request.
func (h *helper) answer(req wire.Request) (any, *wire.Error) {
	switch req.Method {
	case wire.MethodHello:
		return h.hello(req.Params)
	case wire.MethodCards:
		return h.allCards(req.Params)
	case wire.MethodCDI:
		return h.cdi(req.Params)
	}
	return nil, &wire.Error{Code: wire.CodeRequest, Message: fmt.Sprintf("unknown method %q", req.Method)}
}

// params decodes parameters; absent ones are the zero value.
func params[T any](raw json.RawMessage) (p T, failure *wire.Error) {
	if len(raw) == 0 {
		return p, nil
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		failure = &wire.Error{Code: wire.CodeRequest, Message: "parameters: " + err.Error()}
	}
	return p, failure
}

func (h *helper) hello(raw json.RawMessage) (any, *wire.Error) {
	agent, failure := params[wire.Hello](raw)
	if failure != nil {
		return nil, failure
	}
	self := wire.Hello{Protocol: wire.Version, Version: version}
	if failure := self.Refuse(agent); failure != nil {
		return nil, failure
	}
	return self, nil
}

// ready opens NVML.
func (h *helper) ready() *wire.Error {
	if h.lib == nil {
		lib, err := load(h.places)
		if err != nil {
			return &wire.Error{Code: wire.CodeNoLibrary, Message: err.Error()}
		}
		h.lib = lib
	}
	if failure := h.stale(); failure != nil {
		if h.open {
			failure.Xids, _ = h.xids.take()
		}
		return failure
	}
	if h.open {
		return nil
	}
	if ret := h.lib.Init(); ret != nvml.SUCCESS {
		return failed("open NVML", ret)
	}
	h.open, h.cards = true, h.driverCards()
	h.xids = newWatcher(h.lib)
	go h.xids.run(nil)
	return nil
}

// stale tells that the library in memory is not the one on disk any more, after
// an update of the driver, or that the driver has other cards than NVML was
// opened with: it lists those of its start.
func (h *helper) stale() *wire.Error {
	file, err := h.mapped()
	switch {
	case err != nil:
		return &wire.Error{Code: wire.CodeStale, Message: "which library is loaded cannot be told: " + err.Error()}
	case strings.HasSuffix(file, "(deleted)"):
		return &wire.Error{Code: wire.CodeStale, Message: "the driver's library was replaced"}
	case h.open && !slices.Equal(h.cards, h.driverCards()):
		return &wire.Error{Code: wire.CodeStale, Message: "the driver has other cards than before"}
	}
	h.lib.file = file
	return nil
}

// mapped returns the file that the library was loaded from, "" when there is
// none. The kernel adds "(deleted)" when the file is no more.
func (h *helper) mapped() (string, error) {
	maps, err := os.ReadFile(filepath.Join(h.proc, "self/maps"))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(maps)) {
		if at := strings.IndexByte(line, '/'); at > 0 && strings.Contains(line[at:], "/libnvidia-ml.so") {
			return strings.TrimSpace(line[at:]), nil
		}
	}
	return "", nil
}

// driverCards are the bus ids of the cards that the kernel driver has; none
// where it does not list them (WSL2).
func (h *helper) driverCards() []string {
	entries, err := os.ReadDir(filepath.Join(h.proc, "driver/nvidia/gpus"))
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// failed is the error of a call that is about no single card.
func failed(what string, ret nvml.Return) *wire.Error {
	return &wire.Error{Code: wire.CodeNVML, Return: wire.Return(ret), Message: fmt.Sprintf("%s: %s", what, ret)}
}
