package checkpoint

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"strings"
)

// DeepSpeed, runtime/engine.py: rank 0 writes the tag's name to "latest" after all ranks
// have saved. The file is not replaced atomically, so it can be empty.
const deepSpeedLatest = "latest"

// shards is a kind of file of which there is one for each rank.
type shards struct {
	kind string // as people know the names
	re   *regexp.Regexp
}

// Names of shards (engine.py, _get_ckpt_name, _get_zero_ckpt_name, _get_expert_ckpt_name;
// pipe/module.py, ckpt_layer_path).
var (
	dsModel     = shards{"mp_rank_*_model_states.pt", regexp.MustCompile(`^mp_rank_([0-9]{2,6})_model_states\.pt$`)}
	dsZeroModel = shards{"zero_pp_rank_*_model_states.pt", regexp.MustCompile(`^zero_pp_rank_([0-9]{1,6})_mp_rank_([0-9]{2,6})_model_states\.pt$`)}
	dsZeroOptim = shards{"zero_pp_rank_*_optim_states.pt", regexp.MustCompile(`^(?:bf16_|fp16_)?zero_pp_rank_([0-9]{1,6})_mp_rank_([0-9]{2,6})_optim_states\.pt$`)}
	dsExpOptim  = shards{"expp_rank_*_optim_states.pt", regexp.MustCompile(`^expp_rank_([0-9]{1,6})_mp_rank_([0-9]{2,6})_optim_states\.pt$`)}
	dsExpert    = shards{"layer_*_expert_*_model_states.pt", regexp.MustCompile(`^layer_([0-9]{1,6})_expert_([0-9]{1,6})_mp_rank_([0-9]{2,6})_model_states\.pt$`)}
	dsPipeline  = shards{"layer_*-model_*-model_states.pt", regexp.MustCompile(`^layer_([0-9]{2,6})-model_([0-9]{2,6})-model_states\.pt$`)}
)

var errNoShards = errors.New("no model shards (*_model_states.pt)")

func probeDeepSpeed(d *dir) (Found, error) {
	if !d.hasFile(deepSpeedLatest) {
		return Found{}, errNotMine
	}
	tag, err := d.deepSpeedTag()
	if err == nil {
		err = d.in(tag, deepSpeedComplete)
	}
	switch {
	case errors.Is(err, errNoShards):
		return Found{}, errNotMine // another program's "latest"
	case aborts(err):
		return Found{}, err
	case err != nil:
		// Other tags may be whole, but nothing says so: a missing highest rank does not
		// show in names, and only "latest" is written after the shards.
		var passed notes
		passed.add("%q: %v", deepSpeedLatest, err)
		return Found{Reason: passed.after("no complete checkpoint")}, nil
	}
	return Found{Path: path.Join(d.path, tag), Step: firstGroup(endNumber, tag), Reason: `"latest" names it and its shards are complete`}, nil
}

func (d *dir) deepSpeedTag() (string, error) {
	text, err := d.read(deepSpeedLatest, maxSmallText)
	if err != nil {
		return "", err
	}
	return component(text)
}

// deepSpeedComplete checks a tag's shards: every set of ranks is full, and the sets that
// belong together are equal.
func deepSpeedComplete(d *dir) error {
	sets := make(map[shards]grid)
	for _, set := range []shards{dsModel, dsZeroModel, dsZeroOptim, dsExpOptim} {
		g, _, err := d.gridOf(set.re, d.hasFile)
		if err != nil {
			return err
		}
		if len(g) == 0 {
			continue
		}
		if err := g.full(); err != nil {
			return fmt.Errorf("shards %s: %w", set.kind, err)
		}
		sets[set] = g
	}
	model, zeroModel, zeroOptim := sets[dsModel], sets[dsZeroModel], sets[dsZeroOptim]
	switch {
	case model == nil && zeroModel == nil:
		return errNoShards
	case zeroModel != nil && zeroOptim != nil && !maps.Equal(zeroModel, zeroOptim):
		return fmt.Errorf("model shards for ranks %v, optimizer shards for ranks %v: not saved by all, or over a checkpoint of another world size", zeroModel.size(), zeroOptim.size())
	case zeroModel == nil && zeroOptim != nil && zeroOptim.size()[1] != len(model):
		return fmt.Errorf("model shards for %d model-parallel ranks, optimizer shards for %d: not saved by all, or over a checkpoint of another world size", len(model), zeroOptim.size()[1])
	}
	if err := d.layersComplete(); err != nil {
		return err
	}
	return d.statesWhole()
}

// statesWhole tests every shard file.
func (d *dir) statesWhole() error {
	for _, name := range d.names() {
		if !strings.HasSuffix(name, "_states.pt") {
			continue
		}
		if err := d.torchWhole(name); err != nil {
			return err
		}
	}
	return nil
}

// layersComplete checks shards that are saved layer by layer. Layers without weights have
// no file, so the layers need not be consecutive, but the ranks of each are all there and
// the same for all.
func (d *dir) layersComplete() error {
	for _, set := range []shards{dsExpert, dsPipeline} {
		layers := make(map[string]grid)
		for _, name := range d.names() {
			m := set.re.FindStringSubmatch(name)
			if m == nil || !d.hasFile(name) {
				continue
			}
			if layers[m[1]] == nil {
				layers[m[1]] = make(grid)
			}
			if err := layers[m[1]].add(m[2:]); err != nil {
				return err
			}
		}
		var first grid
		for layer, g := range layers {
			if err := g.full(); err != nil {
				return fmt.Errorf("shards %s of layer %s: %w", set.kind, layer, err)
			}
			if first == nil {
				first = g
			}
			if set == dsPipeline && !maps.Equal(first, g) {
				return fmt.Errorf("shards %s: layer %s has ranks %v, another %v", set.kind, layer, g.size(), first.size())
			}
		}
	}
	return nil
}
