package nvml

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
)

// maxNICs are looked at; more are no network interfaces of one node.
const maxNICs = 64

// place is where a device sits: the names of the bridges above it, from the host
// bridge on, its own name last, and its NUMA node, -1 when it has none.
type place struct {
	path []string
	node int
}

// nics says how far each card is from each RDMA interface. NVML does not know
// these; nvidia-smi's matrix, which does, has its words from the PCI tree, too.
func nics(sysfs string, cards []gpu.Device) []gpu.NICLink {
	interfaces, err := filepath.Glob(filepath.Join(sysfs, "class/infiniband/*"))
	if err != nil { // only for a malformed pattern
		return nil
	}
	var list []gpu.NICLink
	for _, card := range cards {
		at, ok := placeOf(filepath.Join(sysfs, "bus/pci/devices", card.BusID))
		if !ok || card.BusID == "" || card.Index == nil {
			continue
		}
		for _, nic := range interfaces[:min(len(interfaces), maxNICs)] {
			if there, ok := placeOf(filepath.Join(nic, "device")); ok {
				list = append(list, gpu.NICLink{Index: *card.Index, NIC: clean(filepath.Base(nic)), Type: at.way(there)})
			}
		}
	}
	return list
}

// placeOf reads the place of a device from sysfs.
func placeOf(link string) (place, bool) {
	dir, err := filepath.EvalSymlinks(link)
	if err != nil {
		return place{}, false
	}
	path := strings.Split(dir, "/")
	host := slices.IndexFunc(path, func(s string) bool { return strings.HasPrefix(s, "pci") })
	if host < 0 || host == len(path)-1 {
		return place{}, false
	}
	p := place{path: path[host:], node: -1}
	if raw, err := os.ReadFile(filepath.Join(dir, "numa_node")); err == nil {
		if n, err := strconv.Atoi(strings.TrimSpace(string(raw))); err == nil {
			p.node = n
		}
	}
	return p, true
}

// way is the word for the connection, as the legend of "nvidia-smi topo -m"
// explains them.
func (p place) way(o place) string {
	common := 0
	for common < min(len(p.path), len(o.path)) && p.path[common] == o.path[common] {
		common++
	}
	below := func(p place) int { return len(p.path) - 1 - common } // bridges that are not the other's
	switch {
	case common > 1 && max(below(p), below(o)) <= 1:
		return "PIX"
	case common > 1:
		return "PXB"
	case common == 1:
		return "PHB"
	case p.node >= 0 && p.node == o.node:
		return "NODE"
	}
	return "SYS"
}
