package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
)

// Megatron-LM, megatron/training/checkpointing.py: the tracker is opened with 'w' after
// the data was written, so it can be empty after a crash, but never names unwritten data.
const megatronTracker = "latest_checkpointed_iteration.txt"

var (
	megatronIter = regexp.MustCompile(`^iter_([0-9]{7,18})$`)
	megatronRank = regexp.MustCompile(`^mp_rank_([0-9]{2,6})(?:_([0-9]{3,6}))?(?:_([0-9]{3,6}))?$`)
)

func probeMegatron(d *dir) (Found, error) {
	var iterations []candidate
	for _, name := range d.names() {
		if step := firstGroup(megatronIter, name); step != nil && d.hasDir(name) {
			iterations = append(iterations, candidate{name: name, step: step})
		}
	}
	_, tracked := d.entries[megatronTracker]
	if !tracked && len(iterations) == 0 {
		return Found{}, errNotMine
	}
	c, err := d.trackedIteration()
	if err == nil {
		err = d.in(c.name, megatronComplete)
	}
	if aborts(err) {
		return Found{}, err
	}
	if err == nil {
		var passed notes
		for _, other := range newestFirst(iterations) {
			if c.step != nil && *other.step > *c.step {
				passed.add("%q is newer but was not finished", other.name)
			}
		}
		return Found{Path: path.Join(d.path, c.name), Step: c.step, Reason: passed.after(megatronTracker + " names it and it is complete")}, nil
	}
	found, chooseErr := d.choose(newestFirst(iterations), "highest iteration with metadata.json, which is written last", func(c candidate) error {
		return d.in(c.name, distCheckpointComplete)
	})
	found.Reason += fmt.Sprintf("; %s cannot be used: %v", megatronTracker, err)
	return found, chooseErr
}

// trackedIteration reads the tracker.
func (d *dir) trackedIteration() (candidate, error) {
	text, err := d.read(megatronTracker, maxSmallText)
	if err != nil {
		return candidate{}, err
	}
	return parseTracker(text)
}

// parseTracker reads an iteration number or the word release.
func parseTracker(text []byte) (candidate, error) {
	name, err := component(text)
	if err != nil {
		return candidate{}, err
	}
	if name == "release" {
		return candidate{name: name}, nil
	}
	step, ok := parseStep([]byte(name))
	if !ok {
		return candidate{}, fmt.Errorf("says %.40q, neither an iteration nor release", name)
	}
	return candidate{name: fmt.Sprintf("iter_%07d", step), step: &step}, nil
}

// megatronComplete checks an iteration the tracker names, in any of the formats.
func megatronComplete(d *dir) error {
	if d.hasFile("metadata.json") {
		return distCheckpointComplete(d)
	}
	ranks, names, err := d.gridOf(megatronRank, d.hasDir)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return dcpComplete(d)
	}
	if err := ranks.full(); err != nil {
		return err
	}
	optimizers := 0
	for _, name := range names {
		err := d.in(name, func(rank *dir) error {
			if rank.hasFile("distrib_optim.pt") {
				optimizers++
				if err := rank.torchWhole("distrib_optim.pt"); err != nil {
					return err
				}
			}
			return rank.torchWhole("model_optim_rng.pt")
		})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if optimizers != 0 && optimizers != len(names) {
		return fmt.Errorf("distrib_optim.pt is in %d of %d ranks", optimizers, len(names))
	}
	return nil
}

// distCheckpointComplete checks a checkpoint of megatron.core.dist_checkpointing, whose
// metadata.json is written only when everything else is (serialization.py, save).
func distCheckpointComplete(d *dir) error {
	data, err := d.read("metadata.json", maxSmallText)
	if err != nil {
		return err
	}
	backend, err := parseDistMetadata(data)
	if err != nil {
		return err
	}
	if backend == "torch_dist" {
		return dcpComplete(d)
	}
	if len(d.entries) < 2 {
		return errors.New("metadata.json stands alone")
	}
	return nil
}

func parseDistMetadata(data []byte) (backend string, err error) {
	var meta struct {
		Backend string `json:"sharded_backend"`
	}
	if err := json.Unmarshal(data, &meta); err != nil {
		return "", fmt.Errorf("parse metadata.json: %w", err)
	}
	if meta.Backend == "" {
		return "", errors.New("metadata.json names no sharded_backend")
	}
	return meta.Backend, nil
}
