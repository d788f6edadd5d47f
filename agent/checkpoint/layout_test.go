package checkpoint

import "testing"

func TestHuggingFace(t *testing.T) {
	full := tree{
		trainerState: `{"global_step": 100, "log_history": [{"loss": NaN, "grad_norm": -Infinity, "s": "NaN \" Infinity"}]}`, "model.safetensors": weights,
		"optimizer.pt": torch, "scheduler.pt": torch, "rng_state_0.pth": torch, "training_args.bin": torch,
	}
	sharded := full.without("model.safetensors").with(safetensorsIndex, `{"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}}`).
		with("model-00001-of-00002.safetensors", weights).with("model-00002-of-00002.safetensors", weights)
	older := under("checkpoint-50", full.with(trainerState, `{"global_step": 50}`))
	at := func(files tree) tree { return merge(older, under("checkpoint-100", files)) }
	deepspeed := full.without("model.safetensors").without("optimizer.pt").with("latest", "global_step100").with("global_step100/mp_rank_00_model_states.pt", torch)
	fsdp := merge(full.without("model.safetensors"), under("pytorch_model_fsdp_0", dcpShards))
	runProbes(t, "huggingface", []probeCase{
		{name: "one weight file", tree: at(full), path: "checkpoint-100", step: 100, framework: "transformers"},
		{name: "numbers are not compared as text", tree: merge(at(full), under("checkpoint-9", full.with(trainerState, `{"global_step": 9}`))), path: "checkpoint-100", step: 100},
		{name: "sharded weights", tree: at(sharded), path: "checkpoint-100", step: 100},
		{name: "an adapter", tree: at(full.without("model.safetensors").with("adapter_model.safetensors", weights)), path: "checkpoint-100", step: 100},
		{name: "old weight files", tree: at(full.without("model.safetensors").with("pytorch_model.bin", torch)), path: "checkpoint-100", step: 100},
		{name: "saved without optimizer", tree: at(full.without("optimizer.pt")), path: "checkpoint-100", step: 100},
		{name: "DeepSpeed inside", tree: at(deepspeed), path: "checkpoint-100", step: 100, framework: "deepspeed"},
		{name: "FSDP inside", tree: at(fsdp), path: "checkpoint-100", step: 100},
		{name: "no trainer state yet", tree: at(full.without(trainerState)), path: "checkpoint-50", step: 50, reason: `"trainer_state.json" is missing`},
		{name: "a trainer state cut off", tree: at(full.with(trainerState, `{"global_step": 100, "log`)), path: "checkpoint-50", step: 50, reason: "parse"},
		{name: "a trainer state without step", tree: at(full.with(trainerState, `{}`)), path: "checkpoint-50", step: 50},
		{name: "a trainer state of another step", tree: at(full.with(trainerState, `{"global_step": 99}`)), path: "checkpoint-50", step: 50, reason: "of step 99"},
		{name: "a missing shard", tree: at(sharded.without("model-00002-of-00002.safetensors")), path: "checkpoint-50", step: 50, reason: "model-00002-of-00002.safetensors"},
		{name: "a shard cut off", tree: at(sharded.with("model-00001-of-00002.safetensors", weights[:len(weights)-1])), path: "checkpoint-50", step: 50, reason: "cut off"},
		{name: "weights that grew", tree: at(full.with("model.safetensors", weights+"x")), path: "checkpoint-50", step: 50},
		{name: "no weights", tree: at(full.without("model.safetensors")), path: "checkpoint-50", step: 50, reason: "no weights"},
		{name: "an optimizer cut off", tree: at(full.with("optimizer.pt", cutTorch)), path: "checkpoint-50", step: 50, reason: "optimizer.pt"},
		{name: "an index that leads out", tree: at(sharded.with(safetensorsIndex, `{"weight_map":{"a":"../checkpoint-50/model.safetensors"}}`)), path: "checkpoint-50", step: 50},
		{name: "an index of nothing", tree: at(sharded.with(safetensorsIndex, `{"weight_map":{}}`)), path: "checkpoint-50", step: 50},
		{name: "DeepSpeed inside is incomplete", tree: at(deepspeed.with("latest", "")), path: "checkpoint-50", step: 50},
		{name: "FSDP inside is incomplete", tree: at(fsdp.without("pytorch_model_fsdp_0/.metadata")), path: "checkpoint-50", step: 50},
		{name: "staging directories", tree: merge(older, under("tmp-checkpoint-100", full), under("checkpoint-100.tmp", full)), path: "checkpoint-50", step: 50},
		{name: "a link to weights is not followed", tree: at(full.with("model.safetensors", "->../checkpoint-50/model.safetensors")), path: "checkpoint-50", step: 50},
		{name: "a link to a checkpoint is not followed", tree: merge(older, tree{"checkpoint-100": "->checkpoint-50"}), path: "checkpoint-50", step: 50},
		{name: "nothing complete", tree: under("checkpoint-100", full.with("optimizer.pt", "")), reason: "no complete checkpoint"},
	})
}

func TestDCP(t *testing.T) {
	steps := merge(under("step-90", dcpShards), under("step-100", dcpShards))
	runProbes(t, "dcp", []probeCase{
		{name: "the highest step", tree: steps, path: "step-100", step: 100, framework: "pytorch"},
		{name: "the directory itself", tree: dcpShards, path: ".", step: -1},
		{name: "names without numbers, by age", tree: merge(under("a", dcpShards), under("b", dcpShards)), later: []string{"a/.metadata"}, path: "a", step: -1},
		{name: "Hugging Face weights of torchtitan", tree: tree{"step-5/" + safetensorsIndex: `{"weight_map":{"a":"m.safetensors"}}`, "step-5/m.safetensors": weights}, path: "step-5", step: 5},
		{name: "no .metadata yet", tree: steps.without("step-100/.metadata"), path: "step-90", step: 90, reason: `".metadata" is missing`},
		{name: "an empty .metadata", tree: steps.with("step-100/.metadata", ""), path: "step-90", step: 90, reason: "empty"},
		{name: "a .metadata cut off", tree: steps.with("step-100/.metadata", cutPickle), path: "step-90", step: 90, reason: "cut off"},
		{name: "no shard", tree: steps.without("step-100/__0_0.distcp"), path: "step-90", step: 90, reason: "no shard"},
		{name: "a link named latest is not followed", tree: merge(under("step-90", dcpShards), under("step-100", dcpShards.without(".metadata")), tree{"latest": "->step-100"}), path: "step-90", step: 90},
	})
}

func TestLightning(t *testing.T) {
	dirCkpt := under("epoch=1-step=300.ckpt", dcpShards, tree{"meta.pt": torch})
	files := tree{"epoch=0-step=90.ckpt": torch, "epoch=1-step=200.ckpt": torch}
	runProbes(t, "lightning", []probeCase{
		{name: "the highest step", tree: files, path: "epoch=1-step=200.ckpt", step: 200},
		{name: "last.ckpt when it is not older", tree: files.with("last.ckpt", torch), later: []string{"last.ckpt"}, path: "last.ckpt", step: -1},
		{name: "last.ckpt when it is older", tree: files.with("last.ckpt", torch), later: []string{"epoch=1-step=200.ckpt"}, path: "epoch=1-step=200.ckpt", step: 200},
		{name: "the newer of two last", tree: tree{"last.ckpt": torch, "last-v1.ckpt": torch}, later: []string{"last-v1.ckpt"}, path: "last-v1.ckpt", step: -1},
		{name: "a directory", tree: merge(files, dirCkpt), path: "epoch=1-step=300.ckpt", step: 300},
		{name: "a DeepSpeed directory", tree: tree{"step=5.ckpt/latest": "checkpoint", "step=5.ckpt/checkpoint/mp_rank_00_model_states.pt": torch}, path: "step=5.ckpt", step: 5},
		{name: "in the checkpoints directory of a run", tree: under("checkpoints", files), path: "checkpoints/epoch=1-step=200.ckpt", step: 200},
		{name: "a file cut off", tree: files.with("epoch=1-step=200.ckpt", cutTorch), path: "epoch=0-step=90.ckpt", step: 90, reason: "cut off"},
		{name: "an old torch file has no evidence", tree: files.with("epoch=1-step=200.ckpt", oldTorch), path: "epoch=0-step=90.ckpt", step: 90, reason: "cannot be tested"},
		{name: "a directory without meta.pt", tree: merge(files, dirCkpt.without("epoch=1-step=300.ckpt/meta.pt")), path: "epoch=1-step=200.ckpt", step: 200, reason: "meta.pt"},
	})
}

func TestNeMo(t *testing.T) {
	step := func(name string) tree {
		return under(name, under("weights", dcpShards.with("metadata.json", distMeta)), tree{"context/model.yaml": "x"})
	}
	both := merge(step("m--step=100"), step("m--step=200-last"))
	runProbes(t, "nemo", []probeCase{
		{name: "the highest step", tree: both, path: "m--step=200-last", step: 200, framework: "NeMo"},
		{name: "in the checkpoints directory", tree: under("checkpoints", both), path: "checkpoints/m--step=200-last", step: 200},
		{name: "an unfinished marker", tree: both.with("m--step=200-last-unfinished", ""), path: "m--step=100", step: 100, reason: "-unfinished"},
		{name: "the marker of a file, its suffixes left out", tree: tree{"a-step=2-EMA.ckpt": torch, "a-step=2-unfinished": "", "a-step=1.ckpt": torch}, path: "a-step=1.ckpt", step: 1},
		{name: "weights without metadata", tree: both.without("m--step=200-last/weights/.metadata"), path: "m--step=100", step: 100},
		{name: "weights in plain DCP", tree: both.without("m--step=200-last/weights/metadata.json"), path: "m--step=200-last", step: 200},
		{name: "only unfinished ones", tree: step("m--step=1").with("m--step=1-unfinished", ""), reason: "no complete checkpoint"},
	})
}

func TestTorch(t *testing.T) {
	runProbes(t, "torch", []probeCase{
		{name: "the highest number", tree: tree{"model_9.pt": torch, "model_10.pth.tar": torch}, path: "model_10.pth.tar", step: 10},
		{name: "by age without numbers", tree: tree{"best.pt": torch, "last.pt": torch}, later: []string{"last.pt"}, path: "last.pt", step: -1},
		{name: "a file cut off by a full disk", tree: tree{"model_9.pt": torch, "model_10.pt": cutTorch}, path: "model_9.pt", step: 9, reason: "cut off"},
		{name: "an empty file", tree: tree{"model_9.pt": torch, "model_10.pt": ""}, path: "model_9.pt", step: 9, reason: "empty"},
		{name: "an old torch file has no evidence", tree: tree{"model_10.pt": oldTorch}, reason: "cannot be tested"},
		{name: "a link is not followed", tree: tree{"model_9.pt": torch, "latest.pt": "->model_9.pt"}, path: "model_9.pt", step: 9},
		{name: "a directory with such a name", tree: tree{"model_9.pt": torch, "model_10.pt/": ""}, path: "model_9.pt", step: 9},
		{name: "parts of something larger", tree: tree{"model-00001-of-00002.bin": torch, "optimizer.pt": torch, "rank_3.pt": torch}, by: "none"},
	})
}
