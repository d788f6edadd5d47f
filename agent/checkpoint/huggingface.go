package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
)

// The Hugging Face Trainer stages a checkpoint or, in other versions, writes in place; in
// both trainer_state.json comes last (transformers, Trainer._save_checkpoint).
const trainerState = "trainer_state.json"

var hfCheckpoint = regexp.MustCompile(`^checkpoint-([0-9]{1,18})$`)

func probeHuggingFace(d *dir) (Found, error) {
	var cs []candidate
	mine := false
	for _, name := range d.names() {
		step := firstGroup(hfCheckpoint, name)
		if step == nil || !d.hasDir(name) {
			continue
		}
		cs = append(cs, candidate{name: name, step: step})
		saved, err := d.exists(path.Join(name, trainerState))
		if err != nil {
			return Found{}, err
		}
		mine = mine || saved
	}
	if !mine {
		return Found{}, errNotMine
	}
	return d.choose(newestFirst(cs), trainerState+", written last, has its step, and its weights are whole", func(c candidate) error {
		return d.in(c.name, func(in *dir) error { return trainerComplete(in, *c.step) })
	})
}

func trainerComplete(d *dir, step int64) error {
	data, err := d.read(trainerState, maxJSON)
	if err != nil {
		return err
	}
	saved, err := parseTrainerState(data)
	if err != nil {
		return err
	}
	if saved != step {
		return fmt.Errorf("%s is of step %d", trainerState, saved)
	}
	if err := d.modelComplete(); err != nil {
		return err
	}
	for _, name := range d.names() {
		if d.hasFile(name) && (strings.HasSuffix(name, ".pt") || strings.HasSuffix(name, ".pth")) {
			if err := d.torchWhole(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// modelComplete checks the weights in whichever of the forms they were saved, and all of
// the forms that are there.
func (d *dir) modelComplete() error {
	forms := 0
	for _, index := range []string{safetensorsIndex, torchIndex} {
		if d.hasFile(index) {
			forms++
			if err := d.indexedWeightsComplete(index); err != nil {
				return err
			}
		}
	}
	for _, name := range []string{"model.safetensors", "pytorch_model.bin", "adapter_model.safetensors", "adapter_model.bin", "pytorch_model_fsdp.bin"} {
		if d.hasFile(name) {
			forms++
			if err := d.weightsWhole(name); err != nil {
				return err
			}
		}
	}
	for _, name := range d.names() {
		if d.hasDir(name) && strings.HasPrefix(name, "pytorch_model_fsdp_") {
			forms++
			if err := d.in(name, dcpComplete); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	if d.hasFile(deepSpeedLatest) {
		forms++
		tag, err := d.deepSpeedTag()
		if err != nil {
			return fmt.Errorf("%q %w", deepSpeedLatest, err)
		}
		if err := d.in(tag, deepSpeedComplete); err != nil {
			return fmt.Errorf("%s: %w", tag, err)
		}
	}
	if forms == 0 {
		return errors.New("no weights in a known form")
	}
	return nil
}

func parseTrainerState(data []byte) (step int64, err error) {
	var state struct {
		GlobalStep *int64 `json:"global_step"`
	}
	if err := json.Unmarshal(pythonJSON(data), &state); err != nil {
		return 0, fmt.Errorf("parse %s: %w", trainerState, err)
	}
	if state.GlobalStep == nil {
		return 0, fmt.Errorf("%s has no global_step", trainerState)
	}
	return *state.GlobalStep, nil
}
