package recipe

import (
	"errors"
	"path"
	"slices"

	"github.com/heteroflow/node-agent/gpu/nvidia"
)

// wsl is what the card of a WSL2 machine needs.
var wsl = recipe{
	cards:  []cardNode{{pattern: nvidia.WSLNode}},
	alone:  "on WSL2 a container has all cards or none, and there are several",
	mounts: []string{nvidia.WSLLibraries, nvidia.WSLStores},
	env:    nvidiaEnv,
	more:   addWSLLibraries,
}

// addWSLLibraries mounts the libraries once more, where the linker looks by default: no
// image has their own directory in its linker's cache.
func addWSLLibraries(b *build) {
	names, err := b.host.List(nvidia.WSLLibraries, "lib*.so*")
	if err == nil && !slices.Contains(names, "libcuda.so.1") {
		err = errors.New("not in " + nvidia.WSLLibraries)
	}
	if err != nil {
		b.omit("libcuda.so.1", err)
		return
	}
	for _, dir := range libraryDirs {
		if _, err := b.host.Follow(dir); err != nil {
			continue
		}
		for _, name := range names {
			b.bindAt(path.Join(nvidia.WSLLibraries, name), path.Join(dir, name))
		}
		break
	}
	if !b.bindAt(path.Join(nvidia.WSLLibraries, "nvidia-smi"), "/usr/bin/nvidia-smi") {
		b.omit("nvidia-smi", errors.New("not in "+nvidia.WSLLibraries))
	}
}
