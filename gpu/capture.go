package gpu

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/heteroflow/node-agent/gpu/pci"
	"github.com/heteroflow/node-agent/gpu/text"
	"github.com/heteroflow/node-agent/gpu/tool"
)

// captureSysfs is the directory of a capture that holds the PCI facts, laid out
// like /sys.
const captureSysfs = "sys"

// Capture runs what the detectors run, and the further commands they name,
// through rec, on which the detectors must have been made, and writes the
// recording and the PCI facts to dir. Tools that are not installed leave no
// trace; failures of tools are what a capture is for. sysfs is "" when the bus
// shows cards that are not the agent's to see (in a container).
func Capture(ctx context.Context, rec *tool.Recorder, detectors []Detector, sysfs, dir string) error {
	for _, d := range detectors {
		for _, ask := range []func(context.Context) (Report, error){d.Inventory, d.Collect} {
			rep, _ := ask(ctx) // whatever went wrong is in the recording
			for _, dev := range rep.Devices {
				rec.Mask(dev.Serial)
			}
		}
		for _, argv := range d.Commands() {
			if ctx.Err() != nil {
				return fmt.Errorf("capture: %w", context.Cause(ctx))
			}
			_, _ = rec.Run(ctx, tool.Command{Name: argv[0], Args: argv[1:]}) // as above
		}
	}
	if err := rec.Write(dir); err != nil {
		return err
	}
	if sysfs == "" {
		return nil
	}
	cards, err := pci.Scan(sysfs)
	if err != nil {
		return err
	}
	return pci.Copy(cards, filepath.Join(dir, captureSysfs))
}

// Replay says what a capture means: what the detectors, which must have been
// made on replay, find in it instead of the machine, completed by the recorded
// commands of their tools that they did not ask for. dir is the capture's
// directory, for its PCI facts.
func Replay(ctx context.Context, replay *tool.Replay, detectors []Detector, dir string) (Snapshot, error) {
	cfg := Config{Sysfs: filepath.Join(dir, captureSysfs), SeesAllCards: true}
	if _, err := os.Stat(cfg.Sysfs); errors.Is(err, os.ErrNotExist) {
		cfg.Sysfs, cfg.SeesAllCards = dir, false // a directory without a bus: no testimony
	} else if err != nil {
		return Snapshot{}, fmt.Errorf("replay %s: %w", dir, err)
	}
	for _, d := range detectors {
		cfg.Detectors = append(cfg.Detectors, replayed{d, replay})
	}
	r, err := NewRegistry(cfg)
	if err != nil {
		return Snapshot{}, err
	}
	return r.Detect(ctx, tool.DefaultDeadline), nil
}

// replayed is a detector on a recording, which may have been made by hand or by
// another version of the agent.
type replayed struct {
	Detector

	replay *tool.Replay
}

// Inventory implements Detector.
func (d replayed) Inventory(ctx context.Context) (Report, error) {
	rep, err := d.Detector.Inventory(ctx)
	if err != nil && !errors.Is(err, tool.ErrNotInstalled) {
		return rep, err
	}
	parts := []Parsed{{
		GPUs: rep.Devices, Stats: rep.Stats, Failures: rep.Failures, CollectorError: rep.CollectorError,
		Topology: rep.Topology, Capabilities: rep.Capabilities,
	}}
	for _, c := range d.replay.Unasked() {
		if d.owns(c) {
			parts = append(parts, Understand(c.Result, d.Parse))
		}
	}
	// The output that lists most cards numbers them.
	slices.SortStableFunc(parts[1:], func(a, b Parsed) int { return cmp.Compare(len(b.GPUs), len(a.GPUs)) })
	if len(parts) == 1 {
		return rep, err
	}
	all := Combine(d.Vendor(), parts...)
	if len(all.Devices) > 0 && rep.CollectorError == nil {
		all.CollectorError = nil // of a command that this version of the tool does not have
	}
	return all, nil
}

// owns reports whether a recorded command, which may stand behind others (docker
// run …, sudo), is one of the vendor's tools. What it printed must be in a form
// that the vendor's parser knows: others may use the same name (xpu-smi). Only
// the tool's first name is the vendor's alone, and under it a failure in words
// that nobody knows is the vendor's, too.
func (d replayed) owns(c tool.Recorded) bool {
	commands := d.Commands()
	names := make([]string, len(commands))
	for i, argv := range commands {
		names[i] = argv[0]
	}
	if _, named := text.ToolArgs(c.Argv, names...); !named {
		return false
	}
	out := c.Output()
	if len(bytes.TrimSpace(out)) > 0 {
		if _, err := d.Parse(c.Argv, c.ExitCode, out); err == nil {
			return true
		}
	}
	return text.ToolName(c.Argv[0]) == names[0] && c.ExitCode != 0 && c.Error == ""
}
