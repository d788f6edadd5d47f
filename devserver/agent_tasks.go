package devserver

import (
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/heteroflow/node-agent/devserver/operator"
	"github.com/heteroflow/node-agent/protocol"
)

const tagAgent = "agent"

// maxStatuses bounds the comma list of a task list call.
const maxStatuses = 32

type agentTasksQuery struct {
	NodeID string `query:"node_id" doc:"The caller's node. Mandatory: 403 without it."`
	Status string `query:"status" doc:"Comma list of statuses. Mandatory: 403 without it."`
	Limit  int    `query:"limit" default:"20" minimum:"1" maximum:"200" doc:"Most tasks to return."`
}

func (s *Server) registerAgentTasks(api huma.API) {
	huma.Register(api, huma.Operation{
		OperationID: "list-tasks", Method: http.MethodGet, Path: protocol.TasksPath, Tags: []string{tagAgent}, Security: bySystem,
		Summary: "List a node's tasks, oldest first", Errors: []int{401, 403, 422},
	}, s.agentListTasks)
	huma.Register(api, huma.Operation{
		OperationID: "create-task-refused", Method: http.MethodPost, Path: protocol.TasksPath, Tags: []string{tagAgent}, Security: bySystem,
		Summary: "Refused: the system key creates no tasks", Errors: []int{401, 403}, SkipValidateBody: true,
	}, func(context.Context, *struct{}) (*struct{}, error) {
		return nil, newError(http.StatusForbidden, "the system key may not create tasks")
	})
	huma.Register(api, huma.Operation{
		OperationID: "get-task", Method: http.MethodGet, Path: protocol.TasksPath + "/{id}", Tags: []string{tagAgent}, Security: bySystem,
		Summary: "Read one task: the authoritative state; 404: it was deleted", Errors: []int{400, 401, 404},
	}, s.agentGetTask)
	huma.Register(api, huma.Operation{
		OperationID: "update-task", Method: http.MethodPut, Path: protocol.TasksPath + "/{id}", Tags: []string{tagAgent}, Security: bySystem,
		Summary:      "Compare and set a task's status; 409 carries the task as it is stored",
		MaxBodyBytes: maxTaskBytes, SkipValidateBody: true, Errors: []int{400, 401, 404, 409, 413, 422},
	}, s.agentUpdateTask)
	huma.Register(api, huma.Operation{
		OperationID: "report-checkpoint-resume", Method: http.MethodPost, Path: protocol.TasksPath + "/{id}/checkpoint-resume",
		Tags: []string{tagAgent}, Security: bySystem, DefaultStatus: http.StatusNoContent,
		Summary:          "Tell what the checkpoint probe of a task decided",
		SkipValidateBody: true, Errors: []int{400, 401, 404, 409, 413, 422},
	}, s.agentCheckpointResume)
}

func (s *Server) agentListTasks(ctx context.Context, in *agentTasksQuery) (*reply[protocol.TaskList], error) {
	if in.NodeID == "" || in.Status == "" {
		return nil, newError(http.StatusForbidden, "node_id and status are both mandatory: a node lists only its own tasks")
	}
	words := strings.Split(in.Status, ",")
	if len(words) > maxStatuses {
		return nil, newError(http.StatusUnprocessableEntity, "%d statuses, at most %d are taken", len(words), maxStatuses)
	}
	statuses := make([]protocol.TaskStatus, len(words))
	for i, word := range words {
		statuses[i] = protocol.TaskStatus(strings.TrimSpace(word))
	}
	stored, err := s.store.Tasks(ctx, in.NodeID, statuses, in.Limit)
	if err != nil {
		return nil, s.fail(err)
	}
	list := protocol.TaskList{Tasks: make([]protocol.Task, len(stored))}
	for i, t := range stored {
		list.Tasks[i] = t.Task
	}
	return answer(list), nil
}

func (s *Server) agentGetTask(ctx context.Context, in *item) (*reply[protocol.Task], error) {
	if err := checkTaskID(in.ID); err != nil {
		return nil, err
	}
	stored, err := s.store.Task(ctx, in.ID)
	if err != nil {
		return nil, s.fail(err)
	}
	if stored.Status.Terminal() {
		return answer(*withoutCredentials(stored.Task)), nil
	}
	return answer(stored.Task), nil
}

func (s *Server) agentUpdateTask(ctx context.Context, in *itemWith[protocol.TaskUpdate]) (*reply[protocol.Task], error) {
	if err := checkTaskID(in.ID); err != nil {
		return nil, err
	}
	if !protocol.ValidNodeID(in.Body.NodeID) {
		return nil, newError(http.StatusUnprocessableEntity, "node_id: %q is no node id", clip(in.Body.NodeID))
	}
	in.Body.LogTail = tail(in.Body.LogTail, protocol.MaxLogTailBytes)
	in.Body.ErrorMessage = head(in.Body.ErrorMessage, protocol.MaxErrorMessageBytes)
	stored, err := s.store.UpdateTask(ctx, in.ID, in.Body)
	if err != nil {
		return nil, s.fail(err)
	}
	return answer(stored.Task), nil
}

func (s *Server) agentCheckpointResume(ctx context.Context, in *itemWith[protocol.CheckpointResume]) (*struct{}, error) {
	if err := checkTaskID(in.ID); err != nil {
		return nil, err
	}
	if err := s.store.SetCheckpointResume(ctx, in.ID, in.Body); err != nil {
		return nil, s.fail(err)
	}
	return nil, nil
}

// head keeps the start of a text, tail its end, both valid UTF-8.
func head(s string, most int) string { return strings.ToValidUTF8(s[:min(len(s), most)], "") }

func tail(s string, most int) string { return strings.ToValidUTF8(s[max(0, len(s)-most):], "") }

// forOperator hides a task's credentials from an operator.
func forOperator(t operator.Task) operator.Task {
	if t.RegistryAuth == nil {
		return t
	}
	auth := *t.RegistryAuth
	for _, secret := range []*protocol.Secret{&auth.Password, &auth.IdentityToken} {
		if *secret != "" {
			*secret = protocol.Secret(secret.String())
		}
	}
	t.RegistryAuth = &auth
	return t
}
