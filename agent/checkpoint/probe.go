// Package checkpoint finds the newest complete checkpoint of a training task, so that a
// task that starts again goes on where it was.
//
// A checkpoint is chosen only on evidence that it is complete: the mark its framework
// writes last, and every file that the mark, the index or the names of the others call
// for. The newest directory is often the one that was being written when the node died.
// Without evidence nothing is chosen and the task starts from the beginning.
//
// What counts as evidence:
//
//	mark         a file .heteroflow-complete in a directory, or <file>.heteroflow-complete
//	             beside a file, written by the job itself after everything else; it may hold
//	             the step in decimal digits
//	megatron     latest_checkpointed_iteration.txt and, in the iteration it names, metadata.json
//	             with shards, .metadata, or a full grid of mp_rank directories. With the tracker
//	             missing or broken: the highest iteration that has metadata.json
//	deepspeed    latest and, in the tag it names, full grids of model and optimizer shards
//	tensorflow   the state file "checkpoint" and all files of the prefix it names
//	orbax        commit_success.txt; or _CHECKPOINT_METADATA under a final name, except on FUSE,
//	             where object stores without atomic rename are found
//	huggingface  trainer_state.json with the directory's own step, and all weight files
//	nemo         weights/ and context/ with a finished distributed checkpoint, no -unfinished
//	             marker beside it; .ckpt files as for lightning
//	lightning    a whole .ckpt file, or a .ckpt directory with meta.pt and .metadata
//	dcp          .metadata and shards, or a complete model.safetensors.index.json
//	torch        a whole zip file as torch.save writes it
//
// The probed directory is the one the framework was told to save into; its tree is not
// searched further than these layouts go. NeMo 1's mp_rank_XX/*.ckpt and .nemo archives
// are not recognised. What names and sizes cannot show is not seen: that the highest rank
// is missing from every shard set, or that a file of the right size holds wrong bytes.
//
// The package reads only, through the path fence, follows no symbolic link below the
// directory, unpickles nothing, is bounded in entries, bytes and by its context, and starts
// no goroutines. A dead network mount blocks it like any reader: the context is looked at
// between reads, not during one.
package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/heteroflow/node-agent/agent/pathfence"
)

// Found is what a probe decided.
type Found struct {
	Path      string // of the checkpoint, relative to the directory, "." for itself; "" if none was chosen
	Framework string // whose rule decided; "" if none applied
	Step      *int64 // nil: not known
	Reason    string // why it was chosen or why none was: one line for people
}

// rule is how one framework's checkpoints are found.
type rule struct {
	name  string
	probe func(*dir) (Found, error)
}

// errNotMine is returned by a rule that sees nothing of its framework.
var errNotMine = errors.New("nothing of this framework")

// rules in the order in which they are asked when the framework is not known: own marks
// first, then frameworks with a pointer file, then those that are told by their layout,
// the most specific first. The first that recognises its framework decides, also when it
// finds nothing complete: a later rule knows less about these files.
var rules = []rule{
	{"mark", probeMark},
	{"megatron", probeMegatron},
	{"deepspeed", probeDeepSpeed},
	{"tensorflow", probeTensorFlow},
	{"orbax", probeOrbax},
	{"huggingface", probeHuggingFace},
	{"nemo", probeNeMo},
	{"lightning", probeLightning},
	{"dcp", probeDCP},
	{"torch", probeTorch},
}

// aliases are the rules for what users call their framework. The own mark is asked first
// for all of them.
var aliases = map[string][]string{
	"megatron": {"megatron"}, "megatron-lm": {"megatron"}, "megatron-core": {"megatron"}, "mcore": {"megatron"},
	"deepspeed":   {"deepspeed", "huggingface"},
	"huggingface": {"huggingface", "deepspeed"}, "transformers": {"huggingface", "deepspeed"}, "hf": {"huggingface", "deepspeed"},
	"pytorch": {"dcp", "torch"}, "torch": {"dcp", "torch"}, "fsdp": {"dcp", "torch"}, "torchtitan": {"dcp"}, "dcp": {"dcp"},
	"lightning": {"lightning"}, "pytorch-lightning": {"lightning"},
	"nemo": {"nemo", "megatron"},
	"jax":  {"orbax"}, "flax": {"orbax"}, "orbax": {"orbax"},
	"tensorflow": {"tensorflow"}, "tf": {"tensorflow"}, "keras": {"tensorflow"},
}

// rulesFor picks the rules of a framework, all of them when it is unknown.
func rulesFor(framework string) []rule {
	name := strings.ToLower(strings.ReplaceAll(strings.TrimSpace(framework), "_", "-"))
	wanted, ok := aliases[name]
	if !ok {
		return rules
	}
	chosen := []rule{rules[0]}
	for _, want := range wanted {
		i := slices.IndexFunc(rules, func(r rule) bool { return r.name == want })
		chosen = append(chosen, rules[i])
	}
	return chosen
}

// Probe looks for the newest complete checkpoint in hostDir. framework is what the task
// says, empty or unknown text means any. A directory that does not exist holds none.
// Errors: those of the fence; ErrTooLarge; the context's; a directory that cannot be read.
// With an error nothing is known, and starting from the beginning is the safe answer.
func Probe(ctx context.Context, fence *pathfence.Fence, hostDir, framework string) (Found, error) {
	root, rel, err := fence.OpenRoot(hostDir, pathfence.Read)
	if errors.Is(err, fs.ErrNotExist) || err == nil && rel != "." {
		return Found{Reason: "there is no checkpoint directory yet"}, closeRoot(root)
	}
	if err != nil {
		return Found{}, fmt.Errorf("probe checkpoints: %w", err)
	}
	found, err := probe(ctx, root, framework)
	if err := errors.Join(err, root.Close()); err != nil {
		return Found{}, fmt.Errorf("probe checkpoints in %s: %w", hostDir, err)
	}
	return found, nil
}

func closeRoot(root *os.Root) error {
	if root == nil {
		return nil
	}
	return root.Close()
}

func probe(ctx context.Context, root *os.Root, framework string) (Found, error) {
	d, err := openDir(root, ".", newBudget(ctx))
	if err != nil {
		return Found{}, err
	}
	for _, r := range rulesFor(framework) {
		found, err := r.probe(d)
		switch {
		case errors.Is(err, errNotMine):
			continue
		case err != nil:
			return Found{}, fmt.Errorf("%s: %w", r.name, err)
		}
		found.Framework = r.name
		return found, nil
	}
	return Found{Reason: "no checkpoint of a known kind in the directory"}, nil
}
