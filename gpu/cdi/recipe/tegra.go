package recipe

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/nvidia"
)

// tegra is what the card of a Tegra SoC needs: NVIDIA's lists on the machine say it.
var tegra = recipe{
	listed: tegraNodes,
	alone: "NVIDIA's lists do not say which of several cards a device node belongs to: " +
		"install heteroflow-nvml and the NVIDIA container toolkit, whose generator does",
	mounts: []string{nvidia.TegraRelease},
	env:    nvidiaEnv,
	more:   addTegraFiles,
}

// tegraNodes are all nodes in the lists that this machine has.
func tegraNodes(b *build, _ gpu.Device) ([]*specs.DeviceNode, error) {
	lists, err := b.tegraLists()
	if err != nil {
		return nil, err
	}
	var nodes []*specs.DeviceNode
	for _, name := range b.tegraNames(lists, "dev") {
		node, err := b.host.DeviceNode(name)
		if err != nil {
			b.omit(name, err)
			continue
		}
		nodes = append(nodes, node)
	}
	if len(nodes) == 0 {
		return nil, fmt.Errorf("none of the device nodes in %v is there", nvidia.TegraLists)
	}
	return nodes, nil
}

// addTegraFiles mounts the files and directories in the lists. A link is mounted as what it
// leads to.
func addTegraFiles(b *build) {
	lists, err := b.tegraLists()
	if err != nil {
		return // each card says so
	}
	for _, name := range b.tegraNames(lists, "dir", "lib", "sym") {
		b.mount(name)
	}
}

// tegraLists reads the lists that there are.
func (b *build) tegraLists() ([]tegraEntry, error) {
	var entries []tegraEntry
	var errs []error
	for _, name := range nvidia.TegraLists {
		data, err := b.host.Read(name)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
			continue
		}
		entries = append(entries, parseTegraList(data)...)
	}
	if len(errs) == len(nvidia.TegraLists) {
		return nil, fmt.Errorf("what a container needs is not known; install the package %s: %w", nvidia.TegraPackage, errors.Join(errs...))
	}
	return entries, nil
}

// tegraNames are the paths of entries of some kinds, each once. The last part of a path may
// be a pattern.
func (b *build) tegraNames(entries []tegraEntry, kinds ...string) []string {
	var names []string
	add := func(name string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, kind := range kinds {
		for _, e := range entries {
			dir, last := path.Split(e.path)
			switch {
			case e.kind != kind:
			case strings.ContainsAny(last, "*?["):
				found, err := b.host.List(dir, last)
				if err != nil {
					b.omit(e.path, err)
				}
				for _, name := range found {
					add(dir + name)
				}
			default:
				add(e.path)
			}
		}
	}
	return names
}

// tegraEntry is a line of a list.
type tegraEntry struct{ kind, path string }

// parseTegraList reads lines like "dev, /dev/nvmap". Others are left out.
func parseTegraList(data []byte) []tegraEntry {
	var entries []tegraEntry
	for line := range strings.Lines(string(data)) {
		kind, name, ok := strings.Cut(line, ",")
		kind, name = strings.TrimSpace(kind), strings.TrimSpace(name)
		if ok && path.IsAbs(name) && path.Clean(name) == name && name != "/" {
			entries = append(entries, tegraEntry{kind, name})
		}
	}
	return entries
}
