package taskcontainer

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/heteroflow/node-agent/agent/lease"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
)

// The labels of a task's container. They hold all that a later agent needs to take the
// task over without asking anybody.
const (
	LabelTaskID     = "io.heteroflow.task-id"
	LabelNodeID     = "io.heteroflow.node-id"
	LabelGeneration = "io.heteroflow.generation"
	LabelSpec       = "io.heteroflow.spec" // JSON of supervision
)

// Supervision is the part of a task that matters once its container exists.
type Supervision struct {
	Timeout time.Duration         `json:"timeout,omitzero"` // 0: none
	Grace   time.Duration         `json:"grace"`            // between SIGTERM and SIGKILL
	Network protocol.NetworkMode  `json:"network"`
	Health  *protocol.HealthCheck `json:"health,omitempty"`
	Holds   []lease.Hold          `json:"holds,omitempty"` // the cards it has while it runs
}

// Name is the name of a task's container.
func Name(taskID string) string { return "task-" + taskID }

// OwnLabels select the containers of one node's tasks.
func OwnLabels(nodeID string) map[string]string { return map[string]string{LabelNodeID: nodeID} }

func labelsOf(t protocol.Task, s Supervision) map[string]string {
	spec, err := json.Marshal(s)
	if err != nil {
		// Durations, strings and integers always marshal.
		panic(fmt.Sprintf("marshal supervision of task %s: %v", t.ID, err))
	}
	labels := map[string]string{
		LabelTaskID:     t.ID,
		LabelNodeID:     t.NodeID,
		LabelGeneration: strconv.FormatInt(t.Generation, 10),
		LabelSpec:       string(spec),
	}
	for k, v := range t.Labels {
		if _, ours := labels[k]; !ours {
			labels[k] = v
		}
	}
	return labels
}

// Identity is what the labels of a container say.
type Identity struct {
	TaskID     string
	Generation int64
	Supervision
}

// Identify reads the labels of a container of this node. It fails on any that the agent
// did not write: such a container is not touched.
func Identify(c runtime.Container, nodeID string) (Identity, error) {
	var id Identity
	id.TaskID = c.Labels[LabelTaskID]
	switch {
	case c.Labels[LabelNodeID] != nodeID:
		return id, fmt.Errorf("container %s belongs to node %q", c.Name, c.Labels[LabelNodeID])
	case c.Name != Name(id.TaskID) || !protocol.ValidTaskID(id.TaskID):
		return id, fmt.Errorf("container %s: its label %s is %q", c.Name, LabelTaskID, id.TaskID)
	}
	var err error
	if id.Generation, err = strconv.ParseInt(c.Labels[LabelGeneration], 10, 64); err != nil {
		return id, fmt.Errorf("container %s: label %s: %w", c.Name, LabelGeneration, err)
	}
	if err := json.Unmarshal([]byte(c.Labels[LabelSpec]), &id.Supervision); err != nil {
		return id, fmt.Errorf("container %s: label %s: %w", c.Name, LabelSpec, err)
	}
	if id.Generation < 0 || id.Timeout < 0 || id.Grace < 0 || id.Network == "" {
		return id, fmt.Errorf("container %s: labels %s %q and %s %q: not what an agent writes",
			c.Name, LabelGeneration, c.Labels[LabelGeneration], LabelSpec, c.Labels[LabelSpec])
	}
	return id, nil
}
