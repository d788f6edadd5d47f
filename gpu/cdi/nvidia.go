package cdi

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/nvidia"
	"github.com/heteroflow/node-agent/gpu/text"
)

// nvidiaEnv keeps NVIDIA's runtime from adding cards, and CUDA from reordering them.
var nvidiaEnv = []string{
	nvidia.VisibleEnv + "=" + nvidia.VisibleNone,
	nvidia.OrderEnv + "=" + nvidia.OrderBus,
}

// nvidiaPlatform is the recipe of a machine that has no PCI driver of NVIDIA's; nil: it has.
func nvidiaPlatform(h host, devices []gpu.Device) *recipe {
	if _, err := h.node(nvidia.WSLNode); err == nil {
		return &wsl
	}
	if slices.ContainsFunc(devices, func(d gpu.Device) bool { return nvidia.Integrated(d.Model) }) {
		return &tegra
	}
	return nil
}

// addNVIDIADriver mounts the driver's user-space part: its libraries under the names by
// which programs load them, its tools, and the firmware of the GSP.
//
// Without a hook that rewrites the linker's cache, an image finds the libraries if its
// linker looks into the directory where the host has them, as all of one distribution
// family do.
func addNVIDIADriver(b *build) {
	root, dir, version := b.nvidiaDriver()
	if dir == "" {
		b.omit("libcuda.so.1", errors.New("the driver's libraries are not found"))
		return
	}
	for _, sub := range []string{"", "vdpau"} {
		b.addNVIDIALibraries(path.Join(dir, sub), path.Join(strings.TrimPrefix(dir, root), sub), version)
	}
	for _, tool := range nvidia.Binaries {
		b.addNVIDIATool(root, tool)
	}
	firmware := path.Join(root, fmt.Sprintf(nvidia.FirmwarePattern, version))
	names, err := b.host.list(path.Dir(firmware), path.Base(firmware))
	if err != nil {
		b.omit(firmware, err)
	}
	for _, name := range names {
		b.bindAt(path.Join(path.Dir(firmware), name), path.Join(strings.TrimPrefix(path.Dir(firmware), root), name))
	}
}

var libcuda = text.Lazy(`^libcuda\.so\.(\d+(?:\.\d+)+)$`)

// nvidiaDriver finds the root of the driver, the directory of its libraries and its
// version, which is what libcuda.so.1 leads to: what the kernel says belongs to another
// version after an update without a reboot.
func (b *build) nvidiaDriver() (root, dir, version string) {
	for _, root := range nvidia.DriverRoots {
		root = strings.TrimSuffix(root, "/")
		for _, lib := range append(slices.Clone(libraryDirs), "/lib64", "/lib") {
			found, err := b.host.follow(path.Join(root, lib, "libcuda.so.1"))
			if err != nil {
				continue
			}
			if m := libcuda.FindStringSubmatch(path.Base(found)); m != nil {
				return root, path.Join(root, lib), m[1]
			}
		}
	}
	return "", "", ""
}

// addNVIDIALibraries mounts the libraries in dir to target, and each once more under every
// name that is a link to it there: the soname.
func (b *build) addNVIDIALibraries(dir, target, version string) {
	names, err := b.host.list(dir, "lib*.so*")
	if err != nil {
		return // the second directory is optional
	}
	suffix := strings.TrimPrefix(fmt.Sprintf(nvidia.LibraryPattern, version), "lib*")
	for _, name := range names {
		found, err := b.host.follow(path.Join(dir, name))
		if err != nil || !strings.HasSuffix(found, suffix) {
			continue // not the driver's
		}
		b.addMount(bind(b.host.forEngine(found), path.Join(target, name)))
	}
}

func (b *build) addNVIDIATool(root, tool string) {
	for _, dir := range []string{"/usr/bin", "/bin", "/sw/bin"} {
		if b.bindAt(path.Join(root, dir, tool), path.Join("/usr/bin", tool)) {
			return
		}
	}
	b.omit(tool, errors.New("not beside the driver"))
}

// bindAt mounts a file of the host, if it is there, to another path.
func (b *build) bindAt(name, target string) bool {
	found, err := b.host.follow(name)
	if err != nil {
		return false
	}
	b.addMount(bind(b.host.forEngine(found), target))
	return true
}

// addInstances adds the MIG instances of a card: its own node and one for each of the two
// rights, to the GPU instance and to the compute instance.
func (b *build) addInstances(d gpu.Device, card []*specs.DeviceNode) {
	if len(d.Instances) == 0 {
		return
	}
	minors, err := b.capMinors()
	if err != nil {
		b.omit("MIG instances of card "+d.UUID, err)
		return
	}
	for _, i := range d.Instances {
		nodes, err := b.instanceNodes(d, i, minors)
		if err == nil {
			err = checkName(i.UUID)
		}
		if err != nil {
			b.omit("MIG instance "+i.UUID, err)
			continue
		}
		b.made.Spec.Devices = append(b.made.Spec.Devices, specs.Device{
			Name: i.UUID, ContainerEdits: specs.ContainerEdits{DeviceNodes: append(slices.Clone(card), nodes...)},
		})
	}
}

func (b *build) instanceNodes(d gpu.Device, i gpu.Instance, minors map[string]int) ([]*specs.DeviceNode, error) {
	if i.UUID == "" || i.GI == nil || i.CI == nil || d.Minor == nil {
		return nil, errors.New("the driver does not say which rights it needs")
	}
	gi := fmt.Sprintf("gpu%d/gi%d", *d.Minor, *i.GI)
	var nodes []*specs.DeviceNode
	for _, right := range []string{gi + "/access", fmt.Sprintf("%s/ci%d/access", gi, *i.CI)} {
		minor, ok := minors[right]
		if !ok {
			return nil, fmt.Errorf("%s does not list %s", nvidia.CapMinors, right)
		}
		node, err := b.host.node(fmt.Sprintf(nvidia.CapNode, minor))
		if err != nil {
			return nil, fmt.Errorf("device node "+nvidia.CapNode+": %w", minor, err)
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}

func (b *build) capMinors() (map[string]int, error) {
	data, err := b.host.read(nvidia.CapMinors)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", nvidia.CapMinors, err)
	}
	return parseCapMinors(data), nil
}

// parseCapMinors reads lines like "gpu0/gi1/ci0/access 13". Others are left out.
func parseCapMinors(data []byte) map[string]int {
	minors := map[string]int{}
	for scan := bufio.NewScanner(bytes.NewReader(data)); scan.Scan(); {
		name, number, ok := strings.Cut(scan.Text(), " ")
		if minor, err := strconv.ParseUint(number, 10, 20); ok && err == nil {
			minors[name] = int(minor)
		}
	}
	return minors
}
