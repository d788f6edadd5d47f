package protocol

// CheckpointResume tells the server what the checkpoint probe of a training
// task decided. That it could not be delivered never stops a task.
type CheckpointResume struct {
	NodeID         string `json:"node_id" doc:"The caller's node; must be the task's."`
	CheckpointPath string `json:"checkpoint_path" doc:"Directory that was probed, as the task names it."`
	Found          bool   `json:"found" doc:"Whether a complete checkpoint was chosen."`
	ResumeFrom     string `json:"resume_from,omitempty" doc:"The chosen checkpoint, as the container sees it."`
	Framework      string `json:"framework,omitempty" doc:"Framework whose rules were used."`
	Step           *int64 `json:"step,omitzero" doc:"Training step of the checkpoint; absent: not known."`
	Reason         string `json:"reason,omitempty" doc:"Why it was chosen, or why none was."`
}
