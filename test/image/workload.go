package image

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

const workloadPackage = "github.com/heteroflow/node-agent/test/workload"

// rootLayers holds the layer with the workload for each architecture. Only
// successes are kept, so that one caller's cancelled context does not fail the
// next.
type rootLayers struct {
	mu     sync.Mutex
	byArch map[string]v1.Layer
}

var roots = rootLayers{byArch: map[string]v1.Layer{}}

func (r *rootLayers) get(ctx context.Context, arch string) (v1.Layer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if root, ok := r.byArch[arch]; ok {
		return root, nil
	}
	program, err := buildWorkload(ctx, arch)
	if err != nil {
		return nil, fmt.Errorf("build workload for %s: %w", arch, err)
	}
	root, err := layer(gzip.DefaultCompression, rootFiles(program))
	if err != nil {
		return nil, fmt.Errorf("build root layer for %s: %w", arch, err)
	}
	r.byArch[arch] = root
	return root, nil
}

func buildWorkload(ctx context.Context, arch string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "workload-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a temporary directory: nothing depends on it
	program := filepath.Join(dir, "workload")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", program, workloadPackage)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	if output, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %w: %s", err, bytes.TrimSpace(output))
	}
	return os.ReadFile(program)
}
