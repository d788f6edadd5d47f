package checkpoint

import (
	"errors"
	"path"
	"regexp"
	"strings"
)

// checkpointsDir is where both Lightning's and NeMo's ModelCheckpoint saves below the
// directory of a run.
const checkpointsDir = "checkpoints"

const unfinishedSuffix = "-unfinished"

func probeLightning(d *dir) (Found, error) {
	return d.orBelow(checkpointsDir, func(d *dir) (Found, error) {
		return d.probeFiles(func(name string) bool { return strings.HasSuffix(name, ".ckpt") })
	})
}

// probeNeMo finds NeMo 2 directories and, like Lightning, .ckpt files. NeMo puts an empty
// file <name>-unfinished beside a checkpoint while it saves it.
func probeNeMo(d *dir) (Found, error) {
	return d.orBelow(checkpointsDir, func(d *dir) (Found, error) {
		mine := false
		for _, name := range d.names() {
			if strings.HasSuffix(name, unfinishedSuffix) && d.hasFile(name) {
				mine = true
			}
		}
		directories, err := d.nemoDirectories()
		if err != nil {
			return Found{}, err
		}
		if len(directories) == 0 && !mine {
			return Found{}, errNotMine
		}
		return d.probeFiles(func(name string) bool { return directories[name] || strings.HasSuffix(name, ".ckpt") })
	})
}

func (d *dir) nemoDirectories() (map[string]bool, error) {
	found := make(map[string]bool)
	for _, name := range d.names() {
		if !d.hasDir(name) {
			continue
		}
		weights, err := d.exists(path.Join(name, "weights"))
		if err != nil {
			return nil, err
		}
		trainer, err := d.exists(path.Join(name, "context"))
		if err != nil {
			return nil, err
		}
		if weights && trainer {
			found[name] = true
		}
	}
	return found, nil
}

// orBelow asks rule about d, and about its sub-directory name if d holds nothing of it.
func (d *dir) orBelow(name string, rule func(*dir) (Found, error)) (Found, error) {
	found, err := rule(d)
	if !errors.Is(err, errNotMine) || !d.hasDir(name) {
		return found, err
	}
	err = d.in(name, func(sub *dir) (err error) {
		found, err = rule(sub)
		return err
	})
	return found, err
}

// probeFiles chooses among the entries of d that are checkpoints by themselves.
func (d *dir) probeFiles(is func(name string) bool) (Found, error) {
	var cs []candidate
	for _, name := range d.names() {
		if !is(name) {
			continue
		}
		_, mtime, err := d.sizeAndTime(name)
		if err != nil {
			return Found{}, err
		}
		cs = append(cs, candidate{name: name, step: firstGroup(stepNumber, name), mtime: mtime})
	}
	if len(cs) == 0 {
		return Found{}, errNotMine
	}
	return d.choose(newestFirst(cs), "it is whole and nothing marks it unfinished", func(c candidate) error {
		if _, marked := d.entries[unfinishedMarker(c.name)]; marked {
			return errors.New("its -unfinished marker is there")
		}
		if d.hasDir(c.name) {
			return d.in(c.name, lightningDirComplete)
		}
		return d.inFile(c.name, checkTorch)
	})
}

// lightningDirComplete checks a checkpoint that is a directory: NeMo 2's weights, or what
// Lightning's model-parallel strategies write.
func lightningDirComplete(d *dir) error {
	if d.hasDir("weights") {
		return d.in("weights", func(weights *dir) error {
			if weights.hasFile("metadata.json") {
				return distCheckpointComplete(weights)
			}
			return dcpComplete(weights)
		})
	}
	if d.hasFile(deepSpeedLatest) { // Lightning's DeepSpeed strategy
		tag, err := d.deepSpeedTag()
		if err != nil {
			return err
		}
		return d.in(tag, deepSpeedComplete)
	}
	if err := d.torchWhole("meta.pt"); err != nil {
		return err
	}
	return dcpComplete(d)
}

// unfinishedMarker is the marker's name (nemo/lightning/pytorch/callbacks/model_checkpoint.py).
func unfinishedMarker(name string) string {
	return strings.TrimSuffix(strings.TrimSuffix(name, ".ckpt"), "-EMA") + unfinishedSuffix
}

var (
	torchFile = regexp.MustCompile(`\.(?:pt|pth|bin|ckpt|tar)$`)
	// One file of many, or one that holds no model.
	torchPart = regexp.MustCompile(`rank|shard|-[0-9]+-of-[0-9]+|^(?:optim|scheduler|scaler|rng_state|training_args)`)
)

// probeTorch is for scripts that call torch.save: one file is one checkpoint, and a whole
// archive is the evidence.
func probeTorch(d *dir) (Found, error) {
	var cs []candidate
	for _, name := range d.names() {
		if !torchFile.MatchString(name) || torchPart.MatchString(strings.ToLower(name)) || !d.hasFile(name) {
			continue
		}
		_, mtime, err := d.sizeAndTime(name)
		if err != nil {
			return Found{}, err
		}
		stem := name
		for torchFile.MatchString(stem) { // model_5.pth.tar
			stem = torchFile.ReplaceAllString(stem, "")
		}
		cs = append(cs, candidate{name: name, step: firstGroup(endNumber, stem), mtime: mtime})
	}
	if len(cs) == 0 {
		return Found{}, errNotMine
	}
	return d.choose(newestFirst(cs), "it is a whole torch file", func(c candidate) error { return d.inFile(c.name, checkTorch) })
}
