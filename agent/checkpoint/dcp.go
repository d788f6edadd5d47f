package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// PyTorch distributed checkpoints: every rank writes __R_N.distcp, then the coordinator
// writes .metadata (torch.distributed.checkpoint, FileSystemWriter.finish).
const dcpMetadata = ".metadata"

func probeDCP(d *dir) (Found, error) {
	var cs []candidate
	// A weight index in the directory itself is a model, not a checkpoint of one.
	if d.hasFile(dcpMetadata) || d.hasShards() {
		cs = append(cs, candidate{name: "."})
	}
	for _, name := range d.names() {
		if !d.hasDir(name) {
			continue
		}
		c, mine, err := d.dcpCandidate(name)
		if err != nil {
			return Found{}, err
		}
		if mine {
			cs = append(cs, c)
		}
	}
	if len(cs) == 0 {
		return Found{}, errNotMine
	}
	return d.choose(newestFirst(cs), "its .metadata or weight index, written last, and its shards are there", func(c candidate) error {
		if c.name == "." {
			return dcpComplete(d)
		}
		return d.in(c.name, func(in *dir) error {
			if !in.hasFile(dcpMetadata) && in.hasFile(safetensorsIndex) {
				return in.indexedWeightsComplete(safetensorsIndex)
			}
			return dcpComplete(in)
		})
	})
}

// dcpCandidate tells whether the directory name holds a checkpoint, finished or not. Only
// one that looks unfinished is listed.
func (d *dir) dcpCandidate(name string) (c candidate, mine bool, err error) {
	c = candidate{name: name, step: firstGroup(endNumber, name)}
	_, c.mtime, err = d.sizeAndTime(path.Join(name, dcpMetadata))
	if err == nil || aborts(err) {
		return c, true, err
	}
	if mine, err = d.exists(path.Join(name, safetensorsIndex)); mine || err != nil {
		return c, mine, err
	}
	err = d.in(name, func(in *dir) error {
		mine = in.hasShards()
		return nil
	})
	if aborts(err) {
		return c, false, err
	}
	return c, mine, nil // a directory that cannot be read holds nothing to resume from
}

func (d *dir) hasShards() bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(d.entries)), isShard)
}

func isShard(name string) bool { return strings.HasSuffix(name, ".distcp") }

// dcpComplete checks the mark and that there are shards. A single shard may well be empty:
// the writer opens a file for each of its threads.
func dcpComplete(d *dir) error {
	if err := d.inFile(dcpMetadata, checkPickle); err != nil {
		return err
	}
	for _, name := range d.names() {
		if !isShard(name) || !d.hasFile(name) {
			continue
		}
		size, _, err := d.sizeAndTime(name)
		if err != nil {
			return err
		}
		if size > 0 {
			return nil
		}
	}
	return errors.New("no shard (*.distcp) with content is there")
}

// checkPickle tests that a pickle begins and ends like one: protocol mark and STOP.
func checkPickle(f *file) error {
	if f.size < 3 {
		return errors.New("empty: it was cut off")
	}
	first, err := f.at(0, 1)
	if err != nil {
		return err
	}
	last, err := f.at(f.size-1, 1)
	if err != nil {
		return err
	}
	if first[0] != 0x80 || last[0] != '.' {
		return errors.New("cut off or damaged: no whole pickle")
	}
	return nil
}

const (
	safetensorsIndex = "model.safetensors.index.json"
	torchIndex       = "pytorch_model.bin.index.json"
)

// indexedWeightsComplete checks every file a weight index names.
func (d *dir) indexedWeightsComplete(index string) error {
	data, err := d.read(index, maxJSON)
	if err != nil {
		return err
	}
	files, err := parseWeightIndex(data)
	if err != nil {
		return fmt.Errorf("%s: %w", index, err)
	}
	for _, name := range files {
		if err := d.weightsWhole(name); err != nil {
			return err
		}
	}
	return nil
}

// parseWeightIndex lists the files of an index, each a plain name.
func parseWeightIndex(data []byte) ([]string, error) {
	var index struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(data, &index); err != nil {
		return nil, fmt.Errorf("parse: %w", err)
	}
	files := make(map[string]struct{})
	for _, name := range index.WeightMap {
		if _, err := component([]byte(name)); err != nil {
			return nil, fmt.Errorf("weight_map %w", err)
		}
		files[name] = struct{}{}
	}
	if len(files) == 0 {
		return nil, errors.New("names no weight file")
	}
	return slices.Sorted(maps.Keys(files)), nil
}

// weightsWhole tests one weight file by its kind.
func (d *dir) weightsWhole(name string) error {
	if strings.HasSuffix(name, ".safetensors") {
		return d.inFile(name, checkSafetensors)
	}
	return d.torchWhole(name)
}
