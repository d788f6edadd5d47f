package client

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/heteroflow/node-agent/protocol"
)

// wakeMargin is how much longer than asked for a held request may take: the server
// answers when its own clock says so.
const wakeMargin = 10 * time.Second

// Heartbeat sends one heartbeat, compressed if gzip is set, which the server must have
// offered.
func (c *Client) Heartbeat(ctx context.Context, hb protocol.Heartbeat, gzip bool, timeout time.Duration) (protocol.HeartbeatReply, error) {
	var reply protocol.HeartbeatReply
	err := c.do(ctx, call{
		op: "send heartbeat", method: http.MethodPost, path: protocol.HeartbeatPath,
		body: hb, gzip: gzip, timeout: timeout,
	}, &reply)
	return reply, err
}

// Tasks lists this node's tasks in any of the statuses, oldest first, at most limit.
func (c *Client) Tasks(ctx context.Context, limit int, statuses ...protocol.TaskStatus) ([]protocol.Task, error) {
	var list protocol.TaskList
	err := c.do(ctx, call{
		op: "list tasks", method: http.MethodGet, path: protocol.TasksPath,
		query: protocol.TasksQuery(c.nodeID, limit, statuses...), timeout: c.timeout,
	}, &list)
	return list.Tasks, err
}

// Task reads the authoritative state of a task. ErrNotFound: it was deleted.
func (c *Client) Task(ctx context.Context, id string) (protocol.Task, error) {
	op := "read task " + id
	var task protocol.Task
	err := c.do(ctx, call{op: op, method: http.MethodGet, path: protocol.TaskPath(id), timeout: c.timeout}, &task)
	if err != nil {
		return protocol.Task{}, err
	}
	return task, sameTask(op, id, task)
}

// UpdateTask makes one compare-and-set and returns the task as stored. ErrConflict: it
// was not applied; the *Error may carry the task as it is.
func (c *Client) UpdateTask(ctx context.Context, id string, update protocol.TaskUpdate) (protocol.Task, error) {
	op := fmt.Sprintf("set task %s from %s to %s", id, update.FromStatus, update.Status)
	update.NodeID = c.nodeID
	var task protocol.Task
	err := c.do(ctx, call{op: op, method: http.MethodPut, path: protocol.TaskPath(id), body: update, timeout: c.timeout}, &task)
	if err != nil {
		return protocol.Task{}, err
	}
	return task, sameTask(op, id, task)
}

// Wake holds a request until something waits for this node or wait has passed.
func (c *Client) Wake(ctx context.Context, cursor string, wait time.Duration) (protocol.WakeReply, error) {
	var reply protocol.WakeReply
	err := c.do(ctx, call{
		op: "hold wake request", method: http.MethodGet, path: protocol.WakePath,
		query:   protocol.WakeQuery(c.nodeID, cursor, int(wait.Seconds())),
		timeout: wait + wakeMargin,
	}, &reply)
	return reply, err
}

// sameTask guards against an answer that is JSON but about something else.
func sameTask(op, id string, task protocol.Task) error {
	if task.ID == id && task.Status != "" {
		return nil
	}
	return &Error{Op: op, Status: http.StatusOK, class: ErrRetryable, Message: fmt.Sprintf("the answer is not about this task: id %q, status %q", task.ID, task.Status)}
}
