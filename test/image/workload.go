package image

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

const workloadPackage = "github.com/heteroflow/node-agent/test/workload"

// binaries holds the workload built for each architecture. Only successes are
// kept, so that one caller's cancelled context does not fail the next.
type binaries struct {
	mu     sync.Mutex
	byArch map[string][]byte
}

var workloads = binaries{byArch: map[string][]byte{}}

func (b *binaries) get(ctx context.Context, arch string) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if program, ok := b.byArch[arch]; ok {
		return program, nil
	}
	program, err := buildWorkload(ctx, arch)
	if err != nil {
		return nil, fmt.Errorf("build workload for %s: %w", arch, err)
	}
	b.byArch[arch] = program
	return program, nil
}

func buildWorkload(ctx context.Context, arch string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "workload-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "workload")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", program, workloadPackage)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	if output, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %w: %s", err, bytes.TrimSpace(output))
	}
	return os.ReadFile(program)
}
