//go:build cgo

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/nvidia-container-toolkit/pkg/nvcdi"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/heteroflow/node-agent/gpu/nvidia"
)

// usedByMode are the calls that NVIDIA's generator makes in its modes without asking.
var usedByMode = map[nvcdi.Mode][]string{
	nvcdi.ModeNvml: usedByCDI,
	nvcdi.ModeCSV:  append(slices.Clone(usedByCDI), "nvmlSystemGetCudaDriverVersion"),
	nvcdi.ModeWsl:  {"nvmlDeviceGetUUID"},
}

// mode is the generator's mode for this machine. It would find it out itself by opening the
// driver a second time.
func (h *helper) mode(dev string) nvcdi.Mode {
	if _, err := os.Stat(filepath.Join(dev, nvidia.WSLNode)); err == nil {
		return nvcdi.ModeWsl
	}
	if slices.ContainsFunc(h.models(), nvidia.Integrated) {
		return nvcdi.ModeCSV
	}
	return nvcdi.ModeNvml
}

// models are the names of the cards that have one.
func (h *helper) models() []string {
	if !h.lib.has("nvmlDeviceGetName") {
		return nil
	}
	n, _ := h.lib.DeviceGetCount()
	var models []string
	for i := range n {
		card, ret := h.lib.DeviceGetHandleByIndex(i)
		if ret != nvml.SUCCESS {
			continue
		}
		if model, ret := card.GetName(); ret == nvml.SUCCESS {
			models = append(models, model)
		}
	}
	return models
}

// tegraLists are the files that say what the generator's mode for Tegra systems needs.
func tegraLists(root string) ([]string, error) {
	var found []string
	for _, name := range nvidia.TegraLists {
		path := filepath.Join(root, name)
		if _, err := os.Stat(path); err == nil {
			found = append(found, path)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s is not there; install the package %s", strings.Join(nvidia.TegraLists, ", "), nvidia.TegraPackage)
	}
	return found, nil
}

// onlyCard describes the one card of a machine where NVIDIA's generator knows one device,
// by the names of that card. Where there are more, a container could not be given one of
// them alone.
func (h *helper) onlyCard(generator nvcdi.Interface, uuids []string, absent map[string]string) ([]specs.Device, error) {
	n, ret := h.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil, fmt.Errorf("count the cards: %w", ret)
	}
	if n != 1 {
		return nil, fmt.Errorf("a container is given all cards of this machine or none, and there are %d", n)
	}
	card, ret := h.lib.DeviceGetHandleByIndex(0)
	if ret != nvml.SUCCESS {
		return nil, ret
	}
	uuid, ret := card.GetUUID()
	if ret != nvml.SUCCESS {
		return nil, ret
	}
	for _, other := range uuids {
		if other != uuid {
			absent[other] = "the machine's only card is " + uuid
		}
	}
	made, err := generator.GetDeviceSpecsByID("all")
	if err != nil {
		return nil, err
	}
	if len(made) != 1 {
		return nil, errors.New("the one card of this machine is not one device")
	}
	return []specs.Device{
		{Name: "0", ContainerEdits: made[0].ContainerEdits},
		{Name: uuid, ContainerEdits: made[0].ContainerEdits},
	}, nil
}
