// Package record owns the directory the agent keeps for each containerd container:
// what its current run is, how that run ended, and the files bound into it.
//
// Three processes meet here. The agent writes run.json before it starts a task. The
// log shim, a child of containerd's shim that outlives both the agent and containerd,
// writes exit.json the moment the task ends. Whoever looks later reads both. A record
// of an exit counts only for the run it names, so a late writer of an earlier run can
// do no harm.
//
// Every file is replaced atomically. The package starts no goroutines.
package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"time"
)

// maxBytes bounds what is read of a record; ours are below 2 KiB.
const maxBytes = 64 << 10

// Run is one start of a container, written before its task is created.
type Run struct {
	ID string `json:"run"` // random; the exit names it

	// StartedAt is when the start was asked for and, once the daemon has confirmed it,
	// when that was. A run that could not be started has StartError instead.
	StartedAt  time.Time `json:"started_at,omitzero"`
	StartError string    `json:"start_error,omitempty"`
	// UnaskedOn is the kernel's id of the boot on which the run was begun, until the daemon
	// is asked to start its program; empty from then on. On another boot it says nothing:
	// what came after it may not have got to the disk.
	UnaskedOn string     `json:"unasked_on,omitempty"`
	IP        netip.Addr `json:"ip,omitzero"`

	// The bounds of the log files, for the log shim.
	LogMaxBytes int64 `json:"log_max_bytes"`
	LogMaxFiles int   `json:"log_max_files"`
}

// MayHaveRun tells whether the program of the run can have run, on what boot is now.
func (r Run) MayHaveRun(boot string) bool {
	return r.StartError == "" && (r.UnaskedOn == "" || r.UnaskedOn != boot)
}

// Exit is how a run ended, as containerd's shim tells it.
type Exit struct {
	Run        string    `json:"run"`
	Code       int       `json:"code"`
	FinishedAt time.Time `json:"finished_at"`
	OOMKilled  *bool     `json:"oom_killed,omitempty"` // nil: the cgroup could not be read
}

// Dir is the directory of one container.
type Dir string

// The files in it.
func (d Dir) run() string  { return filepath.Join(string(d), "run.json") }
func (d Dir) exit() string { return filepath.Join(string(d), "exit.json") }

// Logs is the newest log file; older ones have a number appended.
func (d Dir) Logs() string { return filepath.Join(string(d), "output.log") }

// Hosts is bound to /etc/hosts in the container.
func (d Dir) Hosts() string { return filepath.Join(string(d), "hosts") }

// ResolvConf is bound to /etc/resolv.conf in the container.
func (d Dir) ResolvConf() string { return filepath.Join(string(d), "resolv.conf") }

// Hostname is bound to /etc/hostname in the container.
func (d Dir) Hostname() string { return filepath.Join(string(d), "hostname") }

// Begin records a new run and forgets how the last one ended. Once it is synced as well,
// the container no longer looks as if it had never run after a power loss.
func (d Dir) Begin(r Run) error {
	if err := write(d.run(), r, false); err != nil {
		return err
	}
	if err := os.Remove(d.exit()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget the exit of an earlier run: %w", err)
	}
	return nil
}

// Sync makes the run begun last durable.
func (d Dir) Sync() error {
	f, err := os.Open(d.run())
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("sync %s: %w", d.run(), err)
	}
	return syncDir(string(d))
}

// Update replaces what is known of the run begun last.
func (d Dir) Update(r Run) error { return write(d.run(), r, false) }

// End records how a run ended, durably.
func (d Dir) End(e Exit) error { return write(d.exit(), e, true) }

// Run returns the current run; fs.ErrNotExist if the container never had one.
func (d Dir) Run() (Run, error) {
	var r Run
	return r, read(d.run(), &r)
}

// Exit returns how the run ended; fs.ErrNotExist if nothing is recorded of it.
func (d Dir) Exit(run string) (Exit, error) {
	var e Exit
	if err := read(d.exit(), &e); err != nil {
		return Exit{}, err
	}
	if e.Run != run {
		return Exit{}, fmt.Errorf("exit of run %s: %w", run, fs.ErrNotExist)
	}
	return e, nil
}

func read(path string, v any) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxBytes))
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("decode %s: %w", path, err)
	}
	return nil
}

func write(path string, v any, durable bool) (err error) {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(append(data, '\n'))
	if err == nil && durable {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	if durable {
		return syncDir(filepath.Dir(path))
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}
