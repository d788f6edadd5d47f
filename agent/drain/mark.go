package drain

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"
	"unicode"

	"github.com/heteroflow/node-agent/agent/journal"
)

// FileName is the mark's file in the operator's directory.
const FileName = "drain.json"

const (
	maxWords = 256
	maxFile  = 4 << 10
)

// Mark is an operator's word that the node is to claim nothing new. Its presence decides;
// what it says is for people.
type Mark struct {
	User   string    `json:"user"`
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at"`
}

// Validate checks what people will read: it stands in one line of a report.
func (m Mark) Validate() error {
	var errs []error
	for what, words := range map[string]string{"user": m.User, "reason": m.Reason} {
		if len(words) > maxWords || strings.ContainsFunc(words, unicode.IsControl) {
			errs = append(errs, fmt.Errorf("%s: want one line of at most %d bytes", what, maxWords))
		}
	}
	return errors.Join(errs...)
}

// Set leaves the mark in the state directory of an agent, running or not, in place of an
// earlier one. machineID and errors are those of journal.OpenOperator.
func Set(stateDir, machineID string, m Mark) error {
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("encode drain mark: %w", err)
	}
	dir, err := journal.OpenOperator(stateDir, machineID)
	if err != nil {
		return err
	}
	return errors.Join(dir.Write(FileName, append(data, '\n')), dir.Close())
}

// Clear takes the mark away and tells whether there was one.
func Clear(stateDir, machineID string) (bool, error) {
	dir, err := journal.OpenOperator(stateDir, machineID)
	if err != nil {
		return false, err
	}
	was, err := dir.Remove(FileName)
	return was, errors.Join(err, dir.Close())
}

// Marks is where the running agent finds the mark.
type Marks interface {
	// ReadOperator reads a file of the operator's directory; fs.ErrNotExist: there is none.
	ReadOperator(name string, limit int) ([]byte, error)
}

// read returns the mark, nil if there is none. One that cannot be read counts: the node is
// to drain, only why is not known.
func read(from Marks) (*Mark, error) {
	data, err := from.ReadOperator(FileName, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	m := &Mark{}
	if err == nil {
		err = json.Unmarshal(data, m)
	}
	if err == nil {
		err = m.Validate()
	}
	if err != nil {
		return &Mark{Reason: "the drain mark cannot be read; undrain takes it away"}, fmt.Errorf("read drain mark: %w", err)
	}
	return m, nil
}
