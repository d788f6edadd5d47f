package protocol

import (
	"slices"
	"time"
)

// ModelFormat is how the weights of a model are stored.
type ModelFormat string

// The formats this release names. Others may be reported and are carried as
// they are.
const (
	FormatSafetensors ModelFormat = "safetensors"
	FormatGGUF        ModelFormat = "gguf"
	FormatPyTorch     ModelFormat = "pytorch"
	FormatONNX        ModelFormat = "onnx"
	FormatTensorRT    ModelFormat = "tensorrt"
	FormatDiffusers   ModelFormat = "diffusers"
	FormatPEFT        ModelFormat = "peft"
	FormatOllama      ModelFormat = "ollama"
)

// ModelFormats lists the formats this release names.
func ModelFormats() []ModelFormat {
	return []ModelFormat{
		FormatSafetensors, FormatGGUF, FormatPyTorch, FormatONNX,
		FormatTensorRT, FormatDiffusers, FormatPEFT, FormatOllama,
	}
}

// Known reports whether this release names the format.
func (f ModelFormat) Known() bool { return slices.Contains(ModelFormats(), f) }

// ModelSource is how a model was found.
type ModelSource string

// The sources of models.
const (
	ModelFromCache  ModelSource = "cache"  // under the model cache directory
	ModelFromScan   ModelSource = "scan"   // by the scanner elsewhere
	ModelFromEngine ModelSource = "engine" // named by a running engine
)

// ModelSources lists the sources this release knows.
func ModelSources() []ModelSource {
	return []ModelSource{ModelFromCache, ModelFromScan, ModelFromEngine}
}

// Known reports whether this release knows the source.
func (s ModelSource) Known() bool { return slices.Contains(ModelSources(), s) }

// Model is one model on a node.
type Model struct {
	Name             string      `json:"name" doc:"Name of the model."`
	Path             string      `json:"path,omitempty" doc:"Absolute path on the node; absent: only an engine named it."`
	Format           ModelFormat `json:"format,omitempty" doc:"Format of the weights."`
	Architecture     string      `json:"architecture,omitempty" doc:"Architecture, as the model's own configuration names it."`
	Parameters       *int64      `json:"parameters,omitzero" doc:"Number of parameters."`
	Quantization     string      `json:"quantization,omitempty" doc:"Quantization, as the model's own configuration names it."`
	SizeBytes        *int64      `json:"size_bytes,omitzero" doc:"Size of its files in bytes."`
	Files            *int        `json:"files,omitzero" doc:"Number of its files."`
	Complete         *bool       `json:"complete,omitzero" doc:"Whether every file is there and whole; absent: cannot be told."`
	IncompleteReason string      `json:"incomplete_reason,omitempty" doc:"What is missing."`
	Source           ModelSource `json:"source" doc:"How it was found."`
	ModifiedAt       *time.Time  `json:"modified_at,omitzero" doc:"When its newest file changed."`
}

// EngineSource is how an engine was found.
type EngineSource string

// The sources of engines.
const (
	EngineFromImage     EngineSource = "image"     // its image is on the node
	EngineFromContainer EngineSource = "container" // it is running
)

// EngineSources lists the sources this release knows.
func EngineSources() []EngineSource { return []EngineSource{EngineFromImage, EngineFromContainer} }

// Known reports whether this release knows the source.
func (s EngineSource) Known() bool { return slices.Contains(EngineSources(), s) }

// Engine is one inference engine on a node.
type Engine struct {
	Name    string       `json:"name" doc:"Name of the engine, lower case (vllm, sglang, ollama)."`
	Version string       `json:"version,omitempty" doc:"Its version; absent: not known."`
	Image   string       `json:"image,omitempty" doc:"Image reference, exactly as the node has it."`
	Source  EngineSource `json:"source" doc:"How it was found."`
	BaseURL string       `json:"base_url,omitempty" doc:"Where the running engine answers, seen from the node."`
	Models  []string     `json:"models,omitempty" doc:"Names its /v1/models gave."`
}

// PullPurpose is for whom an image is pulled.
type PullPurpose string

// The purposes of a pull.
const (
	PullForTask    PullPurpose = "task"    // to start a task
	PullForRequest PullPurpose = "request" // on an image request
)

// PullPurposes lists the purposes this release knows.
func PullPurposes() []PullPurpose { return []PullPurpose{PullForTask, PullForRequest} }

// Known reports whether this release knows the purpose.
func (p PullPurpose) Known() bool { return slices.Contains(PullPurposes(), p) }

// Pull is one image pull under way.
type Pull struct {
	Image      string      `json:"image" doc:"Image reference."`
	Purpose    PullPurpose `json:"purpose" doc:"For whom."`
	TaskID     string      `json:"task_id,omitempty" doc:"The task it is for."`
	RequestID  string      `json:"request_id,omitempty" doc:"The image request it is for."`
	BytesDone  int64       `json:"bytes_done" doc:"Bytes received."`
	BytesTotal *int64      `json:"bytes_total,omitzero" doc:"Bytes in all; absent: not known yet."`
	StartedAt  time.Time   `json:"started_at" doc:"When it began."`
}
