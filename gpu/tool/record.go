package tool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

// Recorder runs commands with another Runner and keeps what they did; Write
// makes a recording of it that Replay reads. A command that is run twice is kept
// once, as it was the first time. It is safe for concurrent use.
type Recorder struct {
	runner Runner

	mu       sync.Mutex
	commands []Recorded
	mask     mask
}

// NewRecorder returns a Recorder of what runner does.
func NewRecorder(runner Runner) *Recorder { return &Recorder{runner: runner} }

// Find implements Runner.
func (r *Recorder) Find(name string) (string, error) { return r.runner.Find(name) }

// Run implements Runner. A command that is not installed is not kept.
func (r *Recorder) Run(ctx context.Context, cmd Command) (Result, error) {
	res, err := r.runner.Run(ctx, cmd)
	rec := Recorded{Result: res, Input: cmd.Input}
	if _, ok := errors.AsType[*TimeoutError](err); ok {
		rec.Error = errTimeout
	} else if _, ok := errors.AsType[*HungError](err); ok {
		rec.Error = errHung
	} else if err != nil {
		return res, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	known := func(have Recorded) bool { return slices.Equal(have.Argv, res.Argv) && have.Input == cmd.Input }
	if !slices.ContainsFunc(r.commands, known) {
		r.commands = append(r.commands, rec)
	}
	return res, err
}

// Mask makes Write replace these words wherever they stand: serial numbers that
// the caller knows. Write finds the machine's name and the serials that outputs
// label as such by itself.
func (r *Recorder) Mask(words ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range words {
		r.mask.add(w, maskSerial)
	}
}

// Write writes the recording to dir, which is made if need be and must not hold
// a recording yet.
func (r *Recorder) Write(dir string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("write recording: %w", err)
	}
	r.learn()
	m := manifest{Version: manifestVersion}
	for i, c := range r.commands {
		entry := manifestEntry{
			Argv: c.Argv, Input: c.Input, ExitCode: c.ExitCode, DurationMS: c.Duration.Milliseconds(), Error: c.Error,
		}
		base := fmt.Sprintf("%02d-%s", i+1, fileName(c.Argv))
		var err error
		if entry.Stdout, err = r.writeOutput(dir, base+".out", c.Stdout); err != nil {
			return err
		}
		if entry.Stderr, err = r.writeOutput(dir, base+".err", c.Stderr); err != nil {
			return err
		}
		m.Commands = append(m.Commands, entry)
	}
	raw, err := yaml.Marshal(m)
	if err != nil {
		return fmt.Errorf("write recording: %w", err)
	}
	return writeNew(filepath.Join(dir, ManifestName), raw)
}

// learn adds what the outputs themselves give away.
func (r *Recorder) learn() {
	if host, err := os.Hostname(); err == nil {
		r.mask.add(host, maskHost)
	}
	for _, c := range r.commands {
		for _, out := range [][]byte{c.Stdout, c.Stderr} {
			for _, serial := range serials(c.Argv, out) {
				r.mask.add(serial, maskSerial)
			}
		}
	}
}

// writeOutput writes a masked output; an empty one makes no file.
func (r *Recorder) writeOutput(dir, name string, out []byte) (string, error) {
	if len(out) == 0 {
		return "", nil
	}
	return name, writeNew(filepath.Join(dir, name), r.mask.apply(out))
}

// writeNew writes a file that must not exist: a capture never overwrites.
func writeNew(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write recording: %w", err)
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}

// fileName makes a readable file name of a command.
func fileName(argv []string) string {
	const longest = 60
	words := append([]string{filepath.Base(argv[0])}, argv[1:]...)
	name := strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
			return c
		}
		return '-'
	}, strings.Join(words, "-"))
	return name[:min(len(name), longest)]
}
