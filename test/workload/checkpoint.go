package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	stateFile     = "state.json"
	latestPointer = "latest"
)

// trainState is what a checkpoint holds.
type trainState struct {
	Step int     `json:"step"`
	Loss float64 `json:"loss"`
}

// checkpoints writes and reads checkpoints in a directory:
//
//	step-000005/state.json   the data
//	step-000005/COMPLETE     the mark, written after the data
//	latest                   the name of the newest complete directory
//
// Each file appears whole or not at all. A directory without the mark was being
// written when its writer died.
type checkpoints struct {
	dir  string
	mark string // name of the completion mark
}

func (c checkpoints) path(step int) string {
	return filepath.Join(c.dir, fmt.Sprintf("step-%06d", step))
}

// save writes the checkpoint and then points latest at it; the path it returns
// is complete.
func (c checkpoints) save(state trainState) (string, error) {
	path := c.path(state.Step)
	if err := os.MkdirAll(path, 0o755); err != nil {
		return "", fmt.Errorf("save step %d: %w", state.Step, err)
	}
	data, err := json.Marshal(state)
	if err != nil {
		return "", fmt.Errorf("save step %d: %w", state.Step, err)
	}
	writes := []struct {
		path string
		data []byte
	}{
		{filepath.Join(path, stateFile), data},
		{filepath.Join(path, c.mark), nil},
		{filepath.Join(c.dir, latestPointer), []byte(filepath.Base(path) + "\n")},
	}
	for _, w := range writes {
		if err := writeAtomically(w.path, w.data); err != nil {
			return "", fmt.Errorf("save step %d: %w", state.Step, err)
		}
	}
	return path, nil
}

// tear leaves what a writer that is killed in the middle leaves: half of the
// data, no mark, and latest pointing at the checkpoint before.
func (c checkpoints) tear(state trainState) error {
	path := c.path(state.Step)
	if err := os.MkdirAll(path, 0o755); err != nil {
		return fmt.Errorf("tear step %d: %w", state.Step, err)
	}
	data, err := json.Marshal(state)
	if err != nil {
		return fmt.Errorf("tear step %d: %w", state.Step, err)
	}
	if err := os.WriteFile(filepath.Join(path, stateFile), data[:len(data)/2], 0o644); err != nil {
		return fmt.Errorf("tear step %d: %w", state.Step, err)
	}
	return nil
}

// load reads the checkpoint at path, which is either a step directory or a
// directory whose latest pointer names one.
func (c checkpoints) load(path string) (trainState, error) {
	pointer, err := os.ReadFile(filepath.Join(path, latestPointer))
	switch {
	case err == nil:
		path = filepath.Join(path, filepath.Base(strings.TrimSpace(string(pointer))))
	case !errors.Is(err, fs.ErrNotExist):
		return trainState{}, fmt.Errorf("load checkpoint: %w", err)
	}
	if _, err := os.Stat(filepath.Join(path, c.mark)); err != nil {
		return trainState{}, fmt.Errorf("load checkpoint: no completion mark: %w", err)
	}
	data, err := os.ReadFile(filepath.Join(path, stateFile))
	if err != nil {
		return trainState{}, fmt.Errorf("load checkpoint: %w", err)
	}
	var state trainState
	if err := json.Unmarshal(data, &state); err != nil {
		return trainState{}, fmt.Errorf("load checkpoint %s: %w", path, err)
	}
	if state.Step < 0 {
		return trainState{}, fmt.Errorf("load checkpoint %s: step %d is negative", path, state.Step)
	}
	return state, nil
}

// writeAtomically makes path hold data, through a temporary file beside it, and
// returns when both the data and the name are on disk.
func writeAtomically(path string, data []byte) (err error) {
	dir := filepath.Dir(path)
	file, err := os.CreateTemp(dir, ".tmp-"+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	_, err = file.Write(data)
	if err == nil {
		err = file.Chmod(0o644)
	}
	if err == nil {
		err = file.Sync()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
