package cdi

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"

	"github.com/heteroflow/node-agent/gpu"
)

const (
	filePrefix = "heteroflow-"
	fileSuffix = ".json"
)

func fileName(v gpu.Vendor) string { return filePrefix + string(v) + fileSuffix }

// vendorOf is the vendor whose spec has a file name of ours.
func vendorOf(name string) (gpu.Vendor, bool) {
	name, ours := strings.CutPrefix(name, filePrefix)
	name, spec := strings.CutSuffix(name, fileSuffix)
	vendor, err := gpu.ParseVendor(name)
	return vendor, ours && spec && err == nil
}

// Save makes the files of the directory agree with the catalog, and tells which changed.
// A file is replaced as a whole and only when its content differs, because engines watch
// the directory. The file of a vendor that has no device any more goes, except where the
// vendor's tool fails, or the making of the spec: that says nothing of its cards.
func (c *Catalog) Save() (changed []string, err error) {
	if err := os.MkdirAll(c.dir, 0o755); err != nil { //nolint:gosec // engines of other users read it
		return nil, fmt.Errorf("save CDI specs: %w", err)
	}
	var errs []error
	for _, e := range c.vendors {
		if e.data == nil {
			continue
		}
		written, err := replace(e.file, e.data)
		if err != nil {
			errs = append(errs, fmt.Errorf("save CDI spec %s: %w", e.file, err))
		}
		if written {
			changed = append(changed, e.file)
		}
	}
	removed, err := c.removeStale()
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

func (c *Catalog) removeStale() (removed []string, err error) {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return nil, fmt.Errorf("look for stale CDI specs: %w", err)
	}
	var errs []error
	for _, f := range entries {
		vendor, ours := vendorOf(f.Name())
		if !ours || c.keeps(vendor) {
			continue
		}
		file := filepath.Join(c.dir, f.Name())
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove stale CDI spec: %w", err))
			continue
		}
		removed = append(removed, file)
	}
	return removed, errors.Join(errs...)
}

// keeps tells whether the file of a vendor stays.
func (c *Catalog) keeps(v gpu.Vendor) bool {
	if e := c.vendors[v]; e != nil && (e.data != nil || e.failed) {
		return true
	}
	for _, status := range c.snapshot.Vendors {
		if status.Vendor == v && status.Error != nil {
			return true
		}
	}
	return false
}
