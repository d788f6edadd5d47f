package devserver

import (
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/heteroflow/node-agent/devserver/operator"
	"github.com/heteroflow/node-agent/protocol"
)

const (
	tagOperator       = "operator"
	operatorTasksPath = "/api/v1/operator/tasks"
)

type createTaskInput struct {
	Unchecked bool `query:"unchecked" doc:"Store the task as it is, in the status it carries, as a broken control plane would; refused in production."`
	Body      protocol.Task
}

type operatorTasksQuery struct {
	NodeID string `query:"node_id" doc:"Only of this node."`
	Status string `query:"status" doc:"Only in one of these statuses, a comma list."`
	Limit  int    `query:"limit" default:"100" minimum:"1" maximum:"1000" doc:"Most tasks to return."`
}

func (s *Server) registerOperatorTasks(api huma.API) {
	op := func(verb, method, path, summary string, errs ...int) huma.Operation {
		return huma.Operation{
			OperationID: verb, Method: method, Path: operatorTasksPath + path, Summary: summary,
			Tags: []string{tagOperator}, Security: byOperator, Errors: append(errs, 401, 403),
			MaxBodyBytes: maxTaskBytes, SkipValidateBody: true,
		}
	}
	huma.Register(api, op("operator-create-task", http.MethodPost, "", "Create a task: scheduled when it names a node, else pending", 409, 413, 422), s.createTask)
	huma.Register(api, op("operator-list-tasks", http.MethodGet, "", "List tasks, oldest first", 422), s.listTasks)
	huma.Register(api, op("operator-get-task", http.MethodGet, "/{id}", "Read a task with what came of it", 400, 404),
		func(ctx context.Context, in *item) (*reply[operator.Task], error) {
			return s.taskState(in.ID, func() (operator.Task, error) { return s.store.Task(ctx, in.ID) })
		})
	huma.Register(api, op("operator-task-history", http.MethodGet, "/{id}/history", "Read a task's timeline", 400, 404), s.taskHistory)
	deletion := op("operator-delete-task", http.MethodDelete, "/{id}", "Delete a task; its node stops what it holds", 400, 404)
	deletion.DefaultStatus = http.StatusNoContent
	huma.Register(api, deletion, s.deleteTask)
	huma.Register(api, op("operator-assign-task", http.MethodPost, "/{id}/assign", "Give a task to a node, with a new generation", 400, 404, 422),
		func(ctx context.Context, in *itemWith[operator.Assignment]) (*reply[operator.Task], error) {
			if !protocol.ValidNodeID(in.Body.NodeID) {
				return nil, newError(http.StatusUnprocessableEntity, "node_id: %q is no node id", clip(in.Body.NodeID))
			}
			return s.taskState(in.ID, func() (operator.Task, error) { return s.store.Assign(ctx, in.ID, in.Body.NodeID) })
		})
	for action, summary := range map[operator.Action]string{
		operator.ActionStop:   "Stop a task: running to stopping, not started to cancelled",
		operator.ActionSleep:  "Stop a running task and keep its container",
		operator.ActionWake:   "Start the kept container of a sleeping task again",
		operator.ActionCancel: "Cancel a task that has not ended",
	} {
		huma.Register(api, op("operator-"+string(action)+"-task", http.MethodPost, "/{id}/"+string(action), summary, 400, 404, 422),
			func(ctx context.Context, in *item) (*reply[operator.Task], error) {
				return s.taskState(in.ID, func() (operator.Task, error) { return s.store.Steer(ctx, in.ID, action) })
			})
	}
}

// taskState answers with the task that get returns.
func (s *Server) taskState(id string, get func() (operator.Task, error)) (*reply[operator.Task], error) {
	if err := checkTaskID(id); err != nil {
		return nil, err
	}
	t, err := get()
	if err != nil {
		return nil, s.fail(err)
	}
	return answer(forOperator(t)), nil
}

func (s *Server) createTask(ctx context.Context, in *createTaskInput) (*reply[operator.Task], error) {
	t := in.Body
	if t.ID == "" {
		t.ID = newID()
	}
	switch {
	case !in.Unchecked:
		t.Status, t.Generation = protocol.StatusPending, 0
		if t.NodeID != "" {
			t.Status, t.Generation = protocol.StatusScheduled, 1
		}
		if err := t.Validate(); err != nil {
			return nil, newError(http.StatusUnprocessableEntity, "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
		}
	case s.config.Production:
		return nil, newError(http.StatusForbidden, "unchecked tasks are refused in production")
	}
	return s.taskState(t.ID, func() (operator.Task, error) { return s.store.CreateTask(ctx, t) })
}

func (s *Server) listTasks(ctx context.Context, in *operatorTasksQuery) (*reply[operator.Tasks], error) {
	var statuses []protocol.TaskStatus
	for word := range strings.SplitSeq(in.Status, ",") {
		if word != "" {
			statuses = append(statuses, protocol.TaskStatus(word))
		}
	}
	if len(statuses) > maxStatuses {
		return nil, newError(http.StatusUnprocessableEntity, "%d statuses, at most %d are taken", len(statuses), maxStatuses)
	}
	tasks, err := s.store.Tasks(ctx, in.NodeID, statuses, in.Limit)
	if err != nil {
		return nil, s.fail(err)
	}
	for i := range tasks {
		tasks[i] = forOperator(tasks[i])
	}
	return answer(operator.Tasks{Tasks: tasks}), nil
}

func (s *Server) taskHistory(ctx context.Context, in *item) (*reply[operator.History], error) {
	if err := checkTaskID(in.ID); err != nil {
		return nil, err
	}
	events, err := s.store.History(ctx, in.ID)
	if err != nil {
		return nil, s.fail(err)
	}
	return answer(operator.History{Events: events}), nil
}

func (s *Server) deleteTask(ctx context.Context, in *item) (*struct{}, error) {
	if err := checkTaskID(in.ID); err != nil {
		return nil, err
	}
	if err := s.store.DeleteTask(ctx, in.ID); err != nil {
		return nil, s.fail(err)
	}
	return nil, nil
}
