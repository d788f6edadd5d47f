package specfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	lib "tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/heteroflow/node-agent/gpu/cdi/spec"
)

// StaticDir is where administrators put specs. Engines read it, too, and prefer the
// directory of generated ones, /var/run/cdi.
const StaticDir = lib.DefaultStaticDir

// Installed reads the spec files in directories, as engines do: of a device in several
// directories, that in the last one counts. The agent's own are those in the directory own.
// A directory that does not exist has none.
func Installed(own string, dirs ...string) ([]File, error) {
	var files []File
	seen := map[string]bool{}
	for _, dir := range dirs {
		resolved, err := filepath.EvalSymlinks(dir)
		if errors.Is(err, fs.ErrNotExist) || err == nil && seen[resolved] {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read CDI specs: %w", err)
		}
		seen[resolved] = true
		entries, err := os.ReadDir(resolved)
		if err != nil {
			return nil, fmt.Errorf("read CDI specs: %w", err)
		}
		for _, e := range entries {
			if ext := filepath.Ext(e.Name()); e.IsDir() || ext != ".json" && ext != ".yaml" {
				continue
			}
			f := File{Path: filepath.Join(dir, e.Name())}
			if filepath.Clean(dir) == filepath.Clean(own) {
				f.Vendor, _ = vendorOf(e.Name())
			}
			f.read()
			files = append(files, f)
		}
	}
	return files, nil
}

// read reads the file. The rules for what is not the agent's own are those of CDI alone.
func (f *File) read() {
	if f.Data, f.Err = content(f.Path); f.Err != nil {
		return
	}
	if f.Vendor != "" {
		f.Spec, f.Err = spec.Parse(f.Data)
		return
	}
	f.Spec, f.Err = spec.Decode(f.Data)
}

// content is that of a file. Its path is not in the error, but beside it.
func content(name string) ([]byte, error) {
	file, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe must not hold us
	if err != nil {
		return nil, cause(err)
	}
	defer func() { _ = file.Close() }() // it was only read
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(errors.New("not a regular file"), err)
	}
	data, err := io.ReadAll(io.LimitReader(file, spec.MaxBytes+1))
	switch {
	case err != nil:
		return nil, cause(err)
	case len(data) > spec.MaxBytes:
		return nil, fmt.Errorf("more than %d bytes", spec.MaxBytes)
	}
	return data, nil
}

func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
