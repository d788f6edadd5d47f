//go:build cgo

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/NVIDIA/nvidia-container-toolkit/pkg/nvcdi"
	"github.com/NVIDIA/nvidia-container-toolkit/pkg/nvcdi/spec"
	"github.com/NVIDIA/nvidia-container-toolkit/pkg/nvcdi/transform/root"
	"github.com/sirupsen/logrus"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/heteroflow/node-agent/gpu/nvidia"
	"github.com/heteroflow/node-agent/gpu/nvidia/nvml/wire"
)

const defaultHook = "/usr/bin/nvidia-cdi-hook"

// mpsPipes is the pipe directory of MPS. NVIDIA's generator mounts it into every
// container when it is there, which makes each a client of a daemon that nobody
// asked for.
const mpsPipes = "/tmp/nvidia-mps"

// usedByCDI are the calls that NVIDIA's generator makes without asking.
var usedByCDI = []string{
	"nvmlDeviceGetHandleByUUID", "nvmlDeviceGetUUID", "nvmlDeviceGetIndex", "nvmlDeviceGetMinorNumber",
	"nvmlDeviceGetPciInfo_v3", "nvmlDeviceIsMigDeviceHandle", "nvmlDeviceGetDeviceHandleFromMigDeviceHandle",
	"nvmlDeviceGetGpuInstanceId", "nvmlDeviceGetComputeInstanceId", "nvmlDeviceGetMaxMigDeviceCount",
	"nvmlDeviceGetMigDeviceHandleByIndex", "nvmlDeviceGetName", "nvmlDeviceGetBrand",
}

func noSpec(format string, args ...any) *wire.Error {
	return &wire.Error{Code: wire.CodeCDI, Message: "no CDI spec from NVIDIA's generator: " + fmt.Sprintf(format, args...)}
}

func (h *helper) cdi(raw json.RawMessage) (any, *wire.Error) {
	p, failure := params[wire.CDIParams](raw)
	if failure != nil {
		return nil, failure
	}
	if failure := h.ready(); failure != nil {
		return nil, failure
	}
	if p.Hook == "" {
		p.Hook = defaultHook
	}
	if p.Root == "" {
		p.Root = "/"
	}
	hook, err := os.Stat(filepath.Join(p.Root, p.Hook))
	if err != nil || !hook.Mode().IsRegular() || hook.Mode()&0o111 == 0 {
		return nil, noSpec("%s is not an executable on the host: install the NVIDIA container toolkit", p.Hook)
	}
	answer, err := h.generate(p)
	if err != nil {
		return nil, noSpec("%v", err)
	}
	return answer, nil
}

// generate makes the spec, card by card: one that fails must not take the others
// with it.
func (h *helper) generate(p wire.CDIParams) (wire.CDI, error) {
	answer := wire.CDI{Absent: map[string]string{}}
	log := logrus.New() // to standard error
	log.SetLevel(logrus.ErrorLevel)
	byIndex, err := nvcdi.NewDeviceNamer(nvcdi.DeviceNameStrategyIndex)
	if err != nil {
		return answer, err
	}
	byUUID, err := nvcdi.NewDeviceNamer(nvcdi.DeviceNameStrategyUUID)
	if err != nil {
		return answer, err
	}
	driver, dev := h.roots(p)
	mode := h.mode(dev)
	if missing := h.lib.lacks(usedByMode[mode]...); missing != "" {
		return answer, fmt.Errorf("the driver's library has no %s", missing)
	}
	options := []nvcdi.Option{
		nvcdi.WithLogger(log), nvcdi.WithMode(mode), nvcdi.WithNvmlLib(h.lib.Interface),
		nvcdi.WithDriverRoot(driver), nvcdi.WithDevRoot(dev), nvcdi.WithNVIDIACDIHookPath(p.Hook),
		nvcdi.WithDeviceNamers(byIndex, byUUID),
		// It would open the driver a second time, by another library.
		nvcdi.WithFeatureFlags(nvcdi.FeatureDisableNvsandboxUtils),
	}
	if mode == nvcdi.ModeCSV {
		lists, err := tegraLists(p.Root)
		if err != nil {
			return answer, err
		}
		options = append(options, nvcdi.WithCSVFiles(lists))
	}
	generator, err := nvcdi.New(options...)
	if err != nil {
		return answer, err
	}
	devices, err := h.devicesOf(generator, mode, p.Devices, answer.Absent)
	if err != nil {
		return answer, err
	}
	common, err := generator.GetCommonEdits()
	if err != nil {
		return answer, err
	}
	common.Mounts = slices.DeleteFunc(common.Mounts, func(m *specs.Mount) bool { return m.ContainerPath == mpsPipes })
	made, err := spec.New(spec.WithVendor(p.Vendor), spec.WithClass(p.Class),
		spec.WithDeviceSpecs(devices), spec.WithEdits(*common.ContainerEdits))
	if err != nil {
		return answer, err
	}
	if filepath.Clean(p.Root) != "/" {
		onHost := root.New(root.WithRoot(p.Root), root.WithTargetRoot("/"), root.WithRelativeTo("host"))
		if err := onHost.Transform(made.Raw()); err != nil {
			return answer, err
		}
		linksOnHost(made.Raw(), p.Root)
	}
	answer.Spec, err = json.Marshal(made.Raw())
	return answer, err
}

// linksOnHost makes the links of a hook the host's. Those of a Tegra system's lists are left
// below root by the transformation of paths.
func linksOnHost(s *specs.Spec, root string) {
	for _, hook := range s.ContainerEdits.Hooks {
		for i, arg := range hook.Args {
			if target, link, ok := strings.Cut(arg, "::"); ok {
				hook.Args[i] = target + "::" + strings.TrimPrefix(link, filepath.Clean(root))
			}
		}
	}
}

// roots are the directories, as this process sees them, below which the driver's
// files and its device nodes lie: those of the loaded library, unless p has them.
// A driver in a container has its files there, and nodes there or on the host.
func (h *helper) roots(p wire.CDIParams) (driver, dev string) {
	for _, r := range nvidia.DriverRoots {
		below := filepath.Join(p.Root, r) + "/"
		if p.DriverRoot == "" && r != "/" && strings.HasPrefix(h.lib.file, below) {
			p.DriverRoot = r
		}
	}
	driver = filepath.Join(p.Root, p.DriverRoot)
	if p.DevRoot != "" {
		return driver, filepath.Join(p.Root, p.DevRoot)
	}
	if _, err := os.Stat(filepath.Join(driver, "dev/nvidiactl")); err != nil {
		return driver, p.Root
	}
	return driver, driver
}

// devicesOf describes the devices that are asked for, or all there are.
func (h *helper) devicesOf(generator nvcdi.Interface, mode nvcdi.Mode, uuids []string, absent map[string]string) ([]specs.Device, error) {
	if n, _ := h.lib.DeviceGetCount(); mode == nvcdi.ModeWsl || mode == nvcdi.ModeCSV && n == 1 {
		return h.onlyCard(generator, uuids, absent)
	}
	if len(uuids) == 0 {
		return generator.GetDeviceSpecsByID("all")
	}
	var devices []specs.Device
	for _, uuid := range uuids {
		made, err := generator.GetDeviceSpecsByID(uuid)
		if err != nil {
			absent[uuid] = err.Error()
			continue
		}
		devices = append(devices, made...)
	}
	if len(devices) == 0 {
		return nil, fmt.Errorf("none of %d devices can be described: %v", len(uuids), absent)
	}
	return devices, nil
}
