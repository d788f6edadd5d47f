package specfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"

	"github.com/heteroflow/node-agent/gpu"
)

// Save writes the agent's own files of a directory, and tells which changed. Those of other
// vendors go, except where stays says that nothing is known of the vendor's cards.
func Save(dir string, files []File, stays func(gpu.Vendor) bool) (changed []string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // engines of other users read it
		return nil, fmt.Errorf("save CDI specs: %w", err)
	}
	current := map[gpu.Vendor]bool{}
	var errs []error
	for _, f := range files {
		current[f.Vendor] = true
		written, err := replace(f.Path, f.Data)
		if err != nil {
			errs = append(errs, fmt.Errorf("save CDI spec %s: %w", f.Path, err))
		}
		if written {
			changed = append(changed, f.Path)
		}
	}
	removed, err := removeStale(dir, func(v gpu.Vendor) bool { return !current[v] && !stays(v) })
	return append(changed, removed...), errors.Join(append(errs, err)...)
}

func replace(file string, data []byte) (written bool, err error) {
	have, err := os.ReadFile(file)
	if err == nil && bytes.Equal(have, data) {
		return false, nil
	}
	// What is in the way and cannot be read is replaced as well.
	if err := renameio.WriteFile(file, data, 0o644, renameio.WithTempDir(filepath.Dir(file)), renameio.IgnoreUmask()); err != nil {
		return false, err
	}
	return true, nil
}

// removeStale removes the agent's own files of vendors that are stale.
func removeStale(dir string, stale func(gpu.Vendor) bool) (removed []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("look for stale CDI specs: %w", err)
	}
	var errs []error
	for _, f := range entries {
		vendor, ours := vendorOf(f.Name())
		if !ours || !stale(vendor) {
			continue
		}
		file := filepath.Join(dir, f.Name())
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove stale CDI spec: %w", err))
			continue
		}
		removed = append(removed, file)
	}
	return removed, errors.Join(errs...)
}
