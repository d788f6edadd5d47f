package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"syscall"
)

// OperatorDir is the directory of what an operator has decided about this node. Commands
// write there, beside a running agent and without its lock; the agent only reads.
const OperatorDir = string(operator)

// The reasons for which a command leaves a state directory alone.
var (
	// ErrNoState: there is none, or no agent has ever run with it.
	ErrNoState = errors.New("no agent has run with this state directory")
	// ErrNotOurs: it belongs to another user or was written on another machine.
	ErrNotOurs = errors.New("not this agent's state directory")
)

// Operator is the operator's directory, opened by a command.
type Operator struct{ files directory }

// OpenOperator opens the operator's directory of an agent's state directory and creates it
// if need be. machineID is as in Options. Errors: ErrNoState or ErrNotOurs, each with what
// to do about it.
func OpenOperator(stateDir, machineID string) (_ *Operator, err error) {
	root, err := os.OpenRoot(stateDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s is not there; give this command the agent's own configuration (--config, --set state_dir=…)", ErrNoState, stateDir)
	}
	if err != nil {
		return nil, fmt.Errorf("open state directory: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	if err := checkOwned(root, stateDir, machineID); err != nil {
		return nil, err
	}
	files, err := openDirectory(root, OperatorDir)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path.Join(stateDir, OperatorDir), classify(err))
	}
	return &Operator{files}, nil
}

// checkOwned tells a state directory that an agent of this user and this machine has used
// from any other directory.
func checkOwned(root *os.Root, dir, machineID string) error {
	info, err := root.Stat(".")
	if err != nil {
		return fmt.Errorf("look at state directory: %w", err)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%w: %s belongs to the user with id %d; run this command as that user", ErrNotOurs, dir, st.Uid)
	}
	if _, err := root.Lstat(pidFile); err != nil {
		return fmt.Errorf("%w: %s has no %s; start the agent once, or give this command the agent's own configuration", ErrNoState, dir, pidFile)
	}
	data, err := directory{root}.read(path.Join(string(machine), identityKey+recordSuffix), DefaultMaxBytes)
	if errors.Is(err, fs.ErrNotExist) || machineID == "" {
		return nil // unmarked state, or a machine without an id: as for the agent itself
	}
	if err != nil {
		return fmt.Errorf("read whose state %s is: %w", dir, err)
	}
	wrote, err := machineOf(data)
	if err != nil {
		return fmt.Errorf("read whose state %s is: %w", dir, err)
	}
	if wrote != machineID {
		return fmt.Errorf("%w: %s was written on another machine (cloned disk?); start the agent, which sets that state aside, and try again", ErrNotOurs, dir)
	}
	return nil
}

// Write puts data under name, durably when it returns nil.
func (o *Operator) Write(name string, data []byte) error {
	if err := o.files.write(name, data); err != nil {
		return fmt.Errorf("write %s: %w", path.Join(o.files.root.Name(), name), classify(err))
	}
	return nil
}

// Remove deletes name, durably when it returns nil, and tells whether it was there.
func (o *Operator) Remove(name string) (bool, error) {
	_, err := o.files.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = o.files.remove(name)
	}
	if err != nil {
		return false, fmt.Errorf("remove %s: %w", path.Join(o.files.root.Name(), name), classify(err))
	}
	return true, nil
}

// Close lets go of the directory.
func (o *Operator) Close() error { return o.files.root.Close() }

// ReadOperator reads at most limit bytes of what a command has left under name. The error
// matches fs.ErrNotExist when there is nothing.
func (j *Journal) ReadOperator(name string, limit int) ([]byte, error) {
	data, err := directory{j.root}.read(path.Join(OperatorDir, name), limit)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path.Join(j.dir, OperatorDir, name), err)
	}
	return data, nil
}
