//go:build cgo

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

const soname = "libnvidia-ml.so.1"

// wslDir has the library of WSL2. One that a distribution's package has put
// elsewhere in such a machine does not work.
const wslDir = "/usr/lib/wsl/lib"

// libraryDirs are where drivers put the library.
var libraryDirs = []string{
	"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", // Debian, Ubuntu
	"/usr/lib64", "/usr/lib",
	"/usr/lib/x86_64-linux-gnu/nvidia/current", "/usr/lib/aarch64-linux-gnu/nvidia/current", // Debian's alternatives
	"/run/nvidia/driver/usr/lib/x86_64-linux-gnu", "/run/nvidia/driver/usr/lib/aarch64-linux-gnu", // GPU operator
	"/run/nvidia/driver/usr/lib64",
	"/home/kubernetes/bin/nvidia/lib64", // GKE COS
	"/run/opengl-driver/lib",            // NixOS
}

// places lists where the library may be, best first: WSL2's own, the host's for
// a process in a container (one that was mounted into the container may be older
// than the driver), where the loader finds it, and the usual directories.
func places(root string) []string {
	var list []string
	if _, err := os.Stat(filepath.Join(root, "/dev/dxg")); err == nil {
		list = append(list, filepath.Join(root, wslDir, soname))
	}
	var dirs []string
	for _, dir := range libraryDirs {
		dirs = append(dirs, filepath.Join(root, dir, soname))
	}
	if filepath.Clean(root) == "/" {
		return append(append(list, soname), dirs...)
	}
	return append(append(list, dirs...), soname)
}

// required are the calls without which nothing can be said, and those that
// go-nvml makes without asking. All are in every driver since 319.
var required = []string{
	"nvmlInit_v2", "nvmlShutdown", "nvmlErrorString", "nvmlSystemGetDriverVersion",
	"nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2",
}

// library is a loaded libnvidia-ml.
type library struct {
	nvml.Interface
	file    string   // it was loaded from
	symbols sync.Map // name → whether the library has it
}

// load loads the first library of the places that has the required calls. It
// stays loaded: the addresses of its functions are bound for good at first use.
func load(places []string) (*library, error) {
	var errs []error
	for _, path := range places {
		if filepath.IsAbs(path) {
			if _, err := os.Stat(path); err != nil {
				continue
			}
		}
		if err := try(path); err != nil {
			errs = append(errs, err)
			continue
		}
		return &library{Interface: nvml.New(nvml.WithLibraryPath(path))}, nil
	}
	if len(errs) == 0 {
		errs = append(errs, fmt.Errorf("%s is in none of %q", soname, places))
	}
	return nil, errors.Join(errs...)
}

// try loads a library for itself alone: the calls of one that is not taken must
// not be found later.
func try(path string) error {
	lib := dl.New(path, dl.RTLD_LAZY|dl.RTLD_LOCAL)
	if err := lib.Open(); err != nil {
		return err
	}
	for _, symbol := range required {
		if err := lib.Lookup(symbol); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", path, err), lib.Close())
		}
	}
	return nil // and not closed
}

// has tells whether the library has a call. To make one that it has not ends the
// process. NVML has to be open.
func (l *library) has(symbol string) bool {
	if known, ok := l.symbols.Load(symbol); ok {
		return known == true
	}
	ok := l.Extensions().LookupSymbol(symbol) == nil
	l.symbols.Store(symbol, ok)
	return ok
}

// lacks returns the first of the calls that the library does not have, or "".
func (l *library) lacks(symbols ...string) string {
	for _, s := range symbols {
		if !l.has(s) {
			return s
		}
	}
	return ""
}
