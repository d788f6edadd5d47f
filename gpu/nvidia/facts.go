package nvidia

import "strings"

// What a container needs to use a card, for the CDI generator where NVIDIA's own
// (nvcdi) is not at hand. Paths are the host's; what is not there is left out: a
// stale or over-complete spec breaks every container. Sources: pkg/nvcdi of
// github.com/NVIDIA/nvidia-container-toolkit v1.20 and its docs/cdi.

// CardNode is the device node of a card, by Device.Minor, which is not its index. Where
// the tool does not say it, the driver does in CardInformation, which takes the PCI
// address, in a line "Device Minor: 0".
const (
	CardNode        = "/dev/nvidia%d"
	CardInformation = "/proc/driver/nvidia/gpus/%s/information"
)

// SharedNodes are needed beside any card.
var SharedNodes = []string{"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"}

// A MIG device needs its card's node and two of CapNode: of its GPU instance and
// of its compute instance, by the minors in CapMinors, whose lines read
// "gpu0/gi1/access 12" and "gpu0/gi1/ci0/access 13" (gpuN by Device.Minor).
const (
	CapNode   = "/dev/nvidia-caps/nvidia-cap%d"
	CapMinors = "/proc/driver/nvidia-caps/mig-minors"
)

// DriverRoots are where the driver's files lie, seen from the host's root.
var DriverRoots = []string{
	"/",
	"/run/nvidia/driver",          // GPU operator's driver container
	"/home/kubernetes/bin/nvidia", // GKE COS
	"/run/opengl-driver",          // NixOS
}

// LibraryPattern matches, given the driver's version, the driver's libraries in
// the directory of libcuda.so.1 and its subdirectory vdpau. Programs find each
// by its soname (libcuda.so.1), a link beside it.
const LibraryPattern = "lib*.so.%s"

// FirmwarePattern matches, given the driver's version, the firmware of the GSP.
const FirmwarePattern = "/lib/firmware/nvidia/%s/gsp*.bin"

// Binaries are mounted from where they are found.
var Binaries = []string{
	"nvidia-smi", "nvidia-debugdump", "nvidia-persistenced", "nvidia-cuda-mps-control", "nvidia-cuda-mps-server",
}

// Sockets are mounted where they exist. The pipe directory of MPS is not among
// them: mounted into every container, it would make each a client of a daemon
// that nobody asked for.
var Sockets = []string{"/run/nvidia-persistenced/socket", "/run/nvidia-fabricmanager/socket"}

// VisibleEnv is what NVIDIA's own container runtime reads. CDI has given the
// container its cards, so it is set to VisibleNone, lest the runtime add those
// that an image asks for: CUDA images ask for all.
const (
	VisibleEnv  = "NVIDIA_VISIBLE_DEVICES"
	VisibleNone = "void"
)

// OrderEnv and OrderBus make CUDA count the cards as nvidia-smi does; by itself
// it puts the fastest first.
const (
	OrderEnv = "CUDA_DEVICE_ORDER"
	OrderBus = "PCI_BUS_ID"
)

// WSLNode is the one node of all cards on WSL2, and its mark: a container with it has
// every card. Programs load what is in WSLLibraries, which opens the driver itself by its
// full path below WSLStores. Sources: lib-wsl.go and driver-wsl.go of pkg/nvcdi, and what
// the linker's cache of such a machine says (github.com/microsoft/WSL issue 8587).
const (
	WSLNode      = "/dev/dxg"
	WSLLibraries = "/usr/lib/wsl/lib"
	WSLStores    = "/usr/lib/wsl/drivers"
)

// TegraLists say, on a Tegra system (Jetson), which nodes, files and directories of the
// host a container needs: there is no other way to know them. A line is a kind (dev, lib,
// sym, dir), a comma and a path, and may name what this system has not. The files are of
// TegraPackage. Sources: internal/platform-support/tegra of the container toolkit, and
// github.com/NVIDIA/nvidia-container-runtime issue 123.
var TegraLists = []string{
	"/etc/nvidia-container-runtime/host-files-for-container.d/devices.csv",
	"/etc/nvidia-container-runtime/host-files-for-container.d/drivers.csv",
	"/etc/nvidia-container-runtime/host-files-for-container.d/l4t.csv",
}

// TegraPackage is Ubuntu's name of the package of TegraLists. TegraRelease is mounted on
// such systems, too.
const (
	TegraPackage = "nvidia-l4t-init"
	TegraRelease = "/etc/nv_tegra_release"
)

// Integrated tells by its name whether a card is part of a Tegra SoC: "Orin (nvgpu)",
// "NVIDIA Thor". Source: pkg/nvlib/info of github.com/NVIDIA/go-nvlib.
func Integrated(model string) bool {
	return strings.Contains(model, "(nvgpu)") || strings.Contains(model, "NVIDIA Thor")
}

// OfficialCDIKind is taken by NVIDIA's own generator.
const OfficialCDIKind = "nvidia.com/gpu"
