//go:build cgo

package main

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/heteroflow/node-agent/gpu/nvidia/nvml/wire"
)

const (
	maxCPUs  = 4096
	maxNodes = 256
)

// affinity asks which processors and which memory are near the card.
func (r *reading) affinity() {
	if set := ask(r, "cpu_affinity", "nvmlDeviceGetCpuAffinity", func() ([]uint, nvml.Return) {
		return r.GetCpuAffinity(maxCPUs)
	}); set != nil {
		r.card.CPUs = ranges(*set)
	}
	if set := ask(r, "memory_affinity", "nvmlDeviceGetMemoryAffinity", func() ([]uint, nvml.Return) {
		return r.GetMemoryAffinity(maxNodes, nvml.AFFINITY_SCOPE_NODE)
	}); set != nil {
		if node, err := strconv.Atoi(ranges(*set)); err == nil { // exactly one
			r.card.Node = &node
		}
	}
}

// ranges writes a bit set as the kernel does: 0-23,48-71.
func ranges(set []uint) string {
	has := func(n int) bool {
		return n < len(set)*bits.UintSize && set[n/bits.UintSize]>>(n%bits.UintSize)&1 == 1
	}
	var parts []string
	for n := 0; n < len(set)*bits.UintSize; n++ {
		first := n
		for has(n) {
			n++
		}
		switch n - first {
		case 0:
		case 1:
			parts = append(parts, strconv.Itoa(first))
		default:
			parts = append(parts, fmt.Sprintf("%d-%d", first, n-1))
		}
	}
	return strings.Join(parts, ",")
}

// ways are the words of nvidia-smi's matrix for the nearest common place of two
// cards on the PCI bus.
var ways = map[nvml.GpuTopologyLevel]string{
	nvml.TOPOLOGY_INTERNAL:   "PSB",
	nvml.TOPOLOGY_SINGLE:     "PIX",
	nvml.TOPOLOGY_MULTIPLE:   "PXB",
	nvml.TOPOLOGY_HOSTBRIDGE: "PHB",
	nvml.TOPOLOGY_NODE:       "NODE",
	nvml.TOPOLOGY_SYSTEM:     "SYS",
}

// links says how each pair of cards is connected: by NVLink where it is, else
// over the bus.
func (l *library) links(cards []opened) []wire.Link {
	bonds := make([]nvlinks, len(cards))
	for i, c := range cards {
		bonds[i] = l.nvlinks(c)
	}
	var list []wire.Link
	for i, a := range cards {
		for j, b := range cards[i+1:] {
			way := ""
			if n := bonds[i].to(b.card.BusID, bonds[i+1+j]); n > 0 {
				way = "NV" + strconv.Itoa(n)
			} else if l.has("nvmlDeviceGetTopologyCommonAncestor") {
				if level, ret := a.GetTopologyCommonAncestor(b.Device); ret == nvml.SUCCESS {
					way = ways[level]
				}
			}
			if way != "" {
				list = append(list, wire.Link{A: a.card.Index, B: b.card.Index, Type: way})
			}
		}
	}
	return list
}

// nvlinks are a card's active NVLinks, counted.
type nvlinks struct {
	cards    map[string]int // by the bus id at the other end
	switches int            // those to an NVSwitch, which connects to each card there
}

func (n nvlinks) to(busID string, other nvlinks) int {
	if direct := n.cards[strings.ToUpper(busID)]; direct > 0 {
		return direct
	}
	return min(n.switches, other.switches)
}

func (l *library) nvlinks(c opened) nvlinks {
	n := nvlinks{cards: map[string]int{}}
	if l.lacks("nvmlDeviceGetNvLinkState", "nvmlDeviceGetNvLinkRemotePciInfo_v2") != "" {
		return n
	}
	types := l.has("nvmlDeviceGetNvLinkRemoteDeviceType")
	for i := range nvml.NVLINK_MAX_LINKS {
		state, ret := c.GetNvLinkState(i)
		if ret == nvml.ERROR_NOT_SUPPORTED || ret == nvml.ERROR_INVALID_ARGUMENT {
			break // it has no more
		}
		if ret != nvml.SUCCESS || state != nvml.FEATURE_ENABLED {
			continue
		}
		if types {
			if kind, ret := c.GetNvLinkRemoteDeviceType(i); ret == nvml.SUCCESS && kind == nvml.NVLINK_DEVICE_TYPE_SWITCH {
				n.switches++
				continue
			}
		}
		if remote, ret := c.GetNvLinkRemotePciInfo(i); ret == nvml.SUCCESS {
			n.cards[strings.ToUpper(busID(remote))]++
		}
	}
	return n
}
