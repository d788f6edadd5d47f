package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"
)

// Orbax saves to <step>.orbax-checkpoint-tmp[-timestamp] and renames it when done. Where
// rename is not atomic it writes commit_success.txt last; newer versions always do.
const (
	orbaxTemporary = ".orbax-checkpoint-tmp"
	orbaxCommit    = "commit_success.txt"
	orbaxMetadata  = "_CHECKPOINT_METADATA"
)

var orbaxStep = regexp.MustCompile(`^(?:[A-Za-z][A-Za-z0-9-]*_)?([0-9]{1,18})$`)

func probeOrbax(d *dir) (Found, error) {
	var cs []candidate
	mine := false
	for _, name := range d.names() {
		if !d.hasDir(name) {
			continue
		}
		if strings.Contains(name, orbaxTemporary) {
			mine = true
			continue
		}
		step := firstGroup(orbaxStep, name)
		if step == nil {
			continue
		}
		cs = append(cs, candidate{name: name, step: step})
		for _, sign := range []string{orbaxCommit, orbaxMetadata} {
			signed, err := d.exists(path.Join(name, sign))
			if err != nil {
				return Found{}, err
			}
			mine = mine || signed
		}
	}
	if !mine {
		return Found{}, errNotMine
	}
	return d.choose(newestFirst(cs), "Orbax committed it", func(c candidate) error { return d.in(c.name, orbaxComplete) })
}

func orbaxComplete(d *dir) error {
	if d.hasFile(orbaxCommit) {
		return nil
	}
	data, err := d.read(orbaxMetadata, maxJSON)
	if err != nil {
		return fmt.Errorf("no %s, and %w", orbaxCommit, err)
	}
	if !json.Valid(pythonJSON(data)) {
		return fmt.Errorf("%s is cut off or damaged", orbaxMetadata)
	}
	fuse, err := d.onFUSE()
	if err != nil {
		return err
	}
	if fuse {
		return errors.New("no " + orbaxCommit + " on a FUSE file system, where a rename may not be atomic")
	}
	return nil
}

// onFUSE tells whether a process, not the kernel, serves the directory's file system.
func (d *dir) onFUSE() (bool, error) {
	f, err := d.root.Open(".")
	if err != nil {
		return false, err
	}
	var st unix.Statfs_t
	err = unix.Fstatfs(int(f.Fd()), &st)
	return st.Type == unix.FUSE_SUPER_MAGIC, errors.Join(err, f.Close())
}
