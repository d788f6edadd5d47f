package recipe

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/cdi/hostfs"
	"github.com/heteroflow/node-agent/gpu/nvidia"
	"github.com/heteroflow/node-agent/gpu/text"
)

// nvidiaEnv keeps NVIDIA's runtime from adding cards, and CUDA from reordering them.
var nvidiaEnv = []string{
	nvidia.VisibleEnv + "=" + nvidia.VisibleNone,
	nvidia.OrderEnv + "=" + nvidia.OrderBus,
}

// nvidiaPlatform is the recipe of a machine that has no PCI driver of NVIDIA's; nil: it has.
func nvidiaPlatform(h hostfs.FS, devices []gpu.Device) *recipe {
	if _, err := h.DeviceNode(nvidia.WSLNode); err == nil {
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
	names, err := b.host.List(path.Dir(firmware), path.Base(firmware))
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
			found, err := b.host.Follow(path.Join(root, lib, "libcuda.so.1"))
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
	names, err := b.host.List(dir, "lib*.so*")
	if err != nil {
		return // the second directory is optional
	}
	suffix := strings.TrimPrefix(fmt.Sprintf(nvidia.LibraryPattern, version), "lib*")
	for _, name := range names {
		found, err := b.host.Follow(path.Join(dir, name))
		if err != nil || !strings.HasSuffix(found, suffix) {
			continue // not the driver's
		}
		b.addMount(b.host.Bind(found, path.Join(target, name)))
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
	found, err := b.host.Follow(name)
	if err != nil {
		return false
	}
	b.addMount(b.host.Bind(found, target))
	return true
}
