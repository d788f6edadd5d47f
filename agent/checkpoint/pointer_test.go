package checkpoint

import (
	"fmt"
	"strings"
	"testing"
)

func TestMegatron(t *testing.T) {
	dist := dcpShards.with("metadata.json", distMeta)
	legacy := func(ranks ...string) tree {
		out := tree{}
		for _, rank := range ranks {
			out[rank+"/model_optim_rng.pt"] = torch
		}
		return out
	}
	grid := legacy("mp_rank_00_000", "mp_rank_00_001", "mp_rank_01_000", "mp_rank_01_001")
	tracker := func(text string) tree { return tree{megatronTracker: text} }
	runProbes(t, "megatron", []probeCase{
		{name: "the iteration the tracker names", tree: merge(tracker("200"), under("iter_0000100", dist), under("iter_0000200", dist)), path: "iter_0000200", step: 200},
		{name: "a higher iteration is in progress", tree: merge(tracker("100\n"), under("iter_0000100", dist), under("iter_0000200", dist)), path: "iter_0000100", step: 100, reason: `"iter_0000200" is newer but was not finished`},
		{name: "a release", tree: merge(tracker("release"), under("release", dist)), path: "release", step: -1},
		{name: "DCP without metadata.json, by the tracker", tree: merge(tracker("100"), under("iter_0000100", dcpShards)), path: "iter_0000100", step: 100},
		{name: "a full grid of ranks", tree: merge(tracker("100"), under("iter_0000100", grid)), path: "iter_0000100", step: 100},
		{name: "a full grid in three coordinates", tree: merge(tracker("1"), under("iter_0000001", legacy("mp_rank_00_000_000", "mp_rank_00_000_001"))), path: "iter_0000001", step: 1},
		{name: "ranks saved by an old torch", tree: merge(tracker("1"), under("iter_0000001", tree{"mp_rank_00/model_optim_rng.pt": oldTorch})), path: "iter_0000001", step: 1},
		{name: "an iteration of more than seven digits", tree: merge(tracker("12345678"), under("iter_12345678", dist)), path: "iter_12345678", step: 12345678},
		{name: "another sharding backend", tree: merge(tracker("1"), under("iter_0000001", tree{"metadata.json": `{"sharded_backend":"zarr"}`, "w/.zarray": "{}"})), path: "iter_0000001", step: 1},
		{name: "an empty tracker falls back to what is finished by itself", tree: merge(tracker(""), under("iter_0000100", dist), under("iter_0000200", dcpShards)), path: "iter_0000100", step: 100, reason: "is empty"},
		{name: "a missing tracker too", tree: merge(under("iter_0000100", dist), under("iter_0000200", dist.without(".metadata"))), path: "iter_0000100", step: 100, reason: `"latest_checkpointed_iteration.txt" is missing`},
		{name: "a tracker that names a missing directory too", tree: merge(tracker("300"), under("iter_0000100", dist)), path: "iter_0000100", step: 100, reason: `"iter_0000300" is missing`},
		{name: "a tracker that is a link is not followed", tree: merge(tree{megatronTracker: "->t", "t": "200"}, under("iter_0000100", dist)), path: "iter_0000100", step: 100, reason: "symbolic link"},
		{name: "an iteration that is a link is not followed", tree: merge(tracker("100"), tree{"iter_0000100": "->real"}, under("real", dist)), reason: "symbolic link"},
		{name: "an empty tracker and no finished iteration", tree: merge(tracker(""), under("iter_0000100", grid)), reason: "no complete checkpoint"},
		{name: "a missing rank", tree: merge(tracker("100"), under("iter_0000100", grid.without("mp_rank_01_000/model_optim_rng.pt"))), reason: "rank [1 0 0] of [2 2 1] is missing"},
		{name: "a rank without its file", tree: merge(tracker("100"), under("iter_0000100", grid.without("mp_rank_01_000/model_optim_rng.pt"), tree{"mp_rank_01_000/": ""})), reason: "model_optim_rng.pt"},
		{name: "a rank cut off by a full disk", tree: merge(tracker("100"), under("iter_0000100", grid.with("mp_rank_01_001/model_optim_rng.pt", cutTorch))), reason: "cut off"},
		{name: "an optimizer file in some ranks only", tree: merge(tracker("100"), under("iter_0000100", grid.with("mp_rank_00_000/distrib_optim.pt", torch))), reason: "1 of 4 ranks"},
		{name: "metadata.json cut off", tree: merge(tracker("100"), under("iter_0000100", dist.with("metadata.json", distMeta[:30]))), reason: "metadata.json"},
		{name: "metadata.json without shards", tree: merge(tracker("100"), under("iter_0000100", tree{"metadata.json": distMeta, ".metadata": pickle, "__0_0.distcp": ""})), reason: "no shard"},
		{name: "garbage in the tracker", tree: merge(tracker("1e3"), under("iter_0000100", dcpShards)), reason: "neither an iteration nor release"},
		{name: "a tracker that leads out", tree: merge(tracker("../../etc"), under("iter_0000100", dcpShards)), reason: "no directory here"},
		{name: "a huge tracker", tree: merge(tracker(strings.Repeat("1", 5000)), under("iter_0000100", dcpShards)), reason: "more than"},
	})
}

func TestDeepSpeed(t *testing.T) {
	set := func(pattern string, ranks ...any) tree {
		out := tree{}
		for i := 0; i < len(ranks); i += 2 {
			out[fmt.Sprintf(pattern, ranks[i], ranks[i+1])] = torch
		}
		return out
	}
	const model, optim = "zero_pp_rank_%d_mp_rank_%02d_model_states.pt", "bf16_zero_pp_rank_%d_mp_rank_%02d_optim_states.pt"
	zero3 := merge(set(model, 0, 0, 1, 0), set(optim, 0, 0, 1, 0))
	zero1 := merge(tree{"mp_rank_00_model_states.pt": torch, "mp_rank_01_model_states.pt": torch}, set(optim, 0, 0, 0, 1, 1, 0, 1, 1))
	moe := merge(tree{"mp_rank_00_model_states.pt": torch}, set("layer_3_expert_%d_mp_rank_%02d_model_states.pt", 0, 0, 1, 0), set("expp_rank_%d_mp_rank_%02d_optim_states.pt", 0, 0, 1, 0))
	pipe := merge(tree{"mp_rank_00_model_states.pt": torch, "mp_rank_01_model_states.pt": torch}, set("layer_%02d-model_%02d-model_states.pt", 0, 0, 0, 1, 5, 0, 5, 1))
	at := func(files tree) tree { return merge(tree{"latest": "global_step200"}, under("global_step200", files)) }
	runProbes(t, "deepspeed", []probeCase{
		{name: "ZeRO-3", tree: at(zero3), path: "global_step200", step: 200},
		{name: "ZeRO-1 with model parallelism", tree: at(zero1), path: "global_step200", step: 200, framework: "DeepSpeed"},
		{name: "mixture of experts", tree: at(moe), path: "global_step200", step: 200},
		{name: "pipeline", tree: at(pipe), path: "global_step200", step: 200},
		{name: "pipeline without model parallelism", tree: at(tree{"mp_rank_00_model_states.pt": torch, "layer_00-model_states.pt": torch, "layer_02-model_states.pt": torch}), path: "global_step200", step: 200},
		{name: "pipeline without model parallelism, a layer cut off", tree: at(tree{"mp_rank_00_model_states.pt": torch, "layer_00-model_states.pt": torch, "layer_02-model_states.pt": cutTorch}), reason: "cut off"},
		{name: "weights only, on purpose", tree: at(tree{"mp_rank_00_model_states.pt": torch}), path: "global_step200", step: 200},
		{name: "a newer tag was not finished", tree: merge(at(zero3), under("global_step300", zero3)), path: "global_step200", step: 200},
		{name: "a tag with a name of its own", tree: merge(tree{"latest": "best\n"}, under("best", zero3)), path: "best", step: -1},
		{name: "an empty pointer", tree: at(zero3).with("latest", ""), reason: "is empty"},
		{name: "a pointer to a missing tag", tree: at(zero3).with("latest", "global_step300"), reason: `"global_step300" is missing`},
		{name: "a pointer that leads out", tree: at(zero3).with("latest", "../other"), reason: "no directory here"},
		{name: "a missing model shard", tree: at(zero3.without("zero_pp_rank_1_mp_rank_00_model_states.pt")), reason: "not saved by all"},
		{name: "a missing optimizer shard", tree: at(zero1.without("bf16_zero_pp_rank_0_mp_rank_01_optim_states.pt")), reason: "rank [0 1 0] of [2 2 1] is missing"},
		{name: "a missing model-parallel rank", tree: at(zero1.without("mp_rank_01_model_states.pt")), reason: "not saved by all"},
		{name: "more shards than expected", tree: at(merge(zero3, set(optim, 2, 0, 3, 0))), reason: "another world size"},
		{name: "only another node's ranks", tree: at(merge(set(model, 8, 0, 9, 0), set(optim, 8, 0, 9, 0))), reason: "without a shared file system"},
		{name: "a missing expert", tree: at(moe.without("layer_3_expert_0_mp_rank_00_model_states.pt")), reason: "of layer 3"},
		{name: "a missing part of a pipeline layer", tree: at(pipe.without("layer_05-model_01-model_states.pt")), reason: "layer"},
		{name: "a shard cut off", tree: at(zero3.with("zero_pp_rank_1_mp_rank_00_model_states.pt", cutTorch)), reason: "cut off"},
		{name: "an empty shard", tree: at(zero3.with("bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt", "")), reason: "empty"},
		{name: "a rank out of range", tree: at(zero3.with("zero_pp_rank_999999_mp_rank_00_model_states.pt", torch)), reason: "out of range"},
		{name: "another program's pointer", tree: merge(tree{"latest": "step-5"}, under("step-5", dcpShards)), by: "dcp", path: "step-5", step: 5},
	})
}

func TestTensorFlow(t *testing.T) {
	files := func(prefix string, n int) tree {
		out := tree{prefix + ".index": "x"}
		for i := range n {
			out[fmt.Sprintf("%s.data-%05d-of-%05d", prefix, i, n)] = "x"
		}
		return out
	}
	state := "model_checkpoint_path: \"ckpt-200\"\nall_model_checkpoint_paths: \"ckpt-50\"\nall_model_checkpoint_paths: \"ckpt-100\"\nall_model_checkpoint_paths: \"ckpt-200\"\n"
	all := merge(tree{"checkpoint": state}, files("ckpt-50", 1), files("ckpt-100", 2), files("ckpt-200", 2), files("ckpt-300", 2))
	runProbes(t, "tensorflow", []probeCase{
		{name: "the newest of the state file", tree: all, path: "ckpt-200", step: 200},
		{name: "an absolute path of the container", tree: merge(tree{"checkpoint": `model_checkpoint_path: "/checkpoint/run/ckpt-7"`}, files("ckpt-7", 1)), path: "ckpt-7", step: 7, framework: "tf"},
		{name: "one directory down", tree: merge(tree{"checkpoint": `model_checkpoint_path: "run/model[1].ckpt-7"`}, files("run/model[1].ckpt-7", 1)), path: "run/model[1].ckpt-7", step: 7},
		{name: "a missing shard falls back to an older one it lists", tree: all.without("ckpt-200.data-00000-of-00002"), path: "ckpt-100", step: 100, reason: "1 data shards"},
		{name: "a missing last shard too", tree: all.without("ckpt-200.data-00001-of-00002"), path: "ckpt-100", step: 100},
		{name: "a missing index too", tree: all.without("ckpt-200.index"), path: "ckpt-100", step: 100, reason: `"ckpt-200.index" is missing`},
		{name: "an empty index too", tree: all.with("ckpt-200.index", ""), path: "ckpt-100", step: 100},
		{name: "shards of two saves too", tree: all.with("ckpt-200.data-00000-of-00003", "x"), path: "ckpt-100", step: 100, reason: "two saves"},
		{name: "empty shards too", tree: merge(all, tree{"ckpt-200.data-00000-of-00002": "", "ckpt-200.data-00001-of-00002": ""}), path: "ckpt-100", step: 100},
		{name: "a state file cut off in the newest name", tree: all.with("checkpoint", `model_checkpoint_path: "ckpt-2`), reason: "cut off"},
		{name: "an empty state file", tree: all.with("checkpoint", ""), reason: "cut off"},
		{name: "names that lead out", tree: all.with("checkpoint", "model_checkpoint_path: \"../ckpt-200\"\nall_model_checkpoint_paths: \"a/b/c\""), reason: "names none"},
		{name: "a link is not followed", tree: all.with("ckpt-200.index", "->ckpt-300.index"), path: "ckpt-100", step: 100, reason: "symbolic link"},
		{name: "a file that only has the name", tree: tree{"checkpoint": "hello"}, by: "none"},
	})
}

func TestOrbax(t *testing.T) {
	step := func(name string, files ...string) tree {
		out := tree{name + "/default/manifest.ocdbt": "x"}
		for _, f := range files {
			out[name+"/"+f] = `{"init_timestamp_nsecs": 1, "x": NaN}`
		}
		return out
	}
	runProbes(t, "orbax", []probeCase{
		{name: "committed", tree: merge(step("100", orbaxCommit), step("200", orbaxCommit, orbaxMetadata)), path: "200", step: 200, framework: "jax"},
		{name: "renamed to its final name", tree: step("100", orbaxMetadata), path: "100", step: 100},
		{name: "with a prefix", tree: step("checkpoint_7", orbaxMetadata), path: "checkpoint_7", step: 7},
		{name: "a temporary directory is unfinished", tree: merge(step("100", orbaxMetadata), step("200.orbax-checkpoint-tmp-1700000000", orbaxMetadata)), path: "100", step: 100},
		{name: "only temporary directories", tree: step("200.orbax-checkpoint-tmp", orbaxMetadata), reason: "no complete checkpoint"},
		{name: "neither mark", tree: merge(step("100", orbaxMetadata), step("200")), path: "100", step: 100, reason: `"200" is incomplete`},
		{name: "metadata cut off", tree: step("100", orbaxMetadata).with("100/"+orbaxMetadata, `{"a`), reason: "cut off"},
	})
}
