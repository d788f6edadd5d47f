package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/heteroflow/node-agent/protocol"
)

// Client calls the operator API. Every call is bounded by its context and by
// a timeout of 30 seconds.
type Client struct {
	base  string
	token protocol.Secret
	http  *http.Client
}

const (
	callTimeout    = 30 * time.Second
	maxAnswerBytes = 64 << 20 // a thousand tasks with their log tails
)

// NewClient returns a client of the control plane at base (http://host:port).
func NewClient(base string, token protocol.Secret) *Client {
	return &Client{base: strings.TrimSuffix(base, "/"), token: token, http: &http.Client{Timeout: callTimeout}}
}

// String names the control plane, never the token.
func (c *Client) String() string { return "operator client of " + c.base }

// StatusError is an answer that is not a success.
type StatusError struct {
	Status int // HTTP status
	Detail protocol.ErrorDetail
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("control plane answered %d %s: %s", e.Status, e.Detail.Code, e.Detail.Message)
}

// CreateTask creates a task: scheduled when it names a node, else pending. An
// empty id is given one by the server.
func (c *Client) CreateTask(ctx context.Context, t protocol.Task) (Task, error) {
	return call[Task](ctx, c, http.MethodPost, "/tasks", t)
}

// CreateTaskUnchecked stores a task as it is, in the status it carries, as a
// broken control plane would. A production server refuses it.
func (c *Client) CreateTaskUnchecked(ctx context.Context, t protocol.Task) (Task, error) {
	return call[Task](ctx, c, http.MethodPost, "/tasks?unchecked=true", t)
}

// Task reads a task.
func (c *Client) Task(ctx context.Context, id string) (Task, error) {
	return call[Task](ctx, c, http.MethodGet, taskPath(id), nil)
}

// Tasks lists at most 1000 tasks, oldest first, of one node (or of all, when
// it is empty) and in one of the statuses (or in any, when there is none).
func (c *Client) Tasks(ctx context.Context, nodeID string, statuses ...protocol.TaskStatus) ([]Task, error) {
	query := protocol.TasksQuery(nodeID, 1000, statuses...)
	list, err := call[Tasks](ctx, c, http.MethodGet, "/tasks?"+query.Encode(), nil)
	return list.Tasks, err
}

// History reads a task's timeline.
func (c *Client) History(ctx context.Context, id string) ([]Event, error) {
	history, err := call[History](ctx, c, http.MethodGet, taskPath(id)+"/history", nil)
	return history.Events, err
}

// Act stops, puts to sleep, wakes or cancels a task.
func (c *Client) Act(ctx context.Context, id string, action Action) (Task, error) {
	return call[Task](ctx, c, http.MethodPost, taskPath(id)+"/"+string(action), nil)
}

// Assign gives a task to a node with a new generation.
func (c *Client) Assign(ctx context.Context, id, nodeID string) (Task, error) {
	return call[Task](ctx, c, http.MethodPost, taskPath(id)+"/assign", Assignment{NodeID: nodeID})
}

// DeleteTask deletes a task with its timeline.
func (c *Client) DeleteTask(ctx context.Context, id string) error {
	_, err := call[struct{}](ctx, c, http.MethodDelete, taskPath(id), nil)
	return err
}

// Nodes lists the nodes by name.
func (c *Client) Nodes(ctx context.Context) ([]Node, error) {
	list, err := call[Nodes](ctx, c, http.MethodGet, "/nodes", nil)
	return list.Nodes, err
}

// Node reads a node.
func (c *Client) Node(ctx context.Context, id string) (Node, error) {
	return call[Node](ctx, c, http.MethodGet, "/nodes/"+url.PathEscape(id), nil)
}

// Drain sets whether a node claims new tasks. The node is told in the answer
// to its next heartbeat.
func (c *Client) Drain(ctx context.Context, id string, drain bool) error {
	_, err := call[struct{}](ctx, c, http.MethodPut, "/nodes/"+url.PathEscape(id)+"/drain", Drain{Drain: drain})
	return err
}

// CreateSliceRequest sends a slice request to its node.
func (c *Client) CreateSliceRequest(ctx context.Context, r protocol.SliceRequest) (RequestState, error) {
	return call[RequestState](ctx, c, http.MethodPost, requestsPath(protocol.ChannelSlices), r)
}

// CreateImageRequest sends an image request to its node.
func (c *Client) CreateImageRequest(ctx context.Context, r protocol.ImageRequest) (RequestState, error) {
	return call[RequestState](ctx, c, http.MethodPost, requestsPath(protocol.ChannelImages), r)
}

// CreateFileRequest sends a file request to its node.
func (c *Client) CreateFileRequest(ctx context.Context, r protocol.FileRequest) (RequestState, error) {
	return call[RequestState](ctx, c, http.MethodPost, requestsPath(protocol.ChannelFiles), r)
}

// Request reads a request.
func (c *Client) Request(ctx context.Context, channel protocol.Channel, id string) (RequestState, error) {
	return call[RequestState](ctx, c, http.MethodGet, requestsPath(channel)+"/"+url.PathEscape(id), nil)
}

// Requests lists at most 1000 requests of a channel, oldest first; an empty
// node or status means any.
func (c *Client) Requests(ctx context.Context, channel protocol.Channel, nodeID string, status protocol.RequestStatus) ([]RequestState, error) {
	query := protocol.RequestsQuery(nodeID, 1000, status)
	list, err := call[Requests](ctx, c, http.MethodGet, requestsPath(channel)+"?"+query.Encode(), nil)
	return list.Requests, err
}

// CancelRequest withdraws a request that nobody has claimed.
func (c *Client) CancelRequest(ctx context.Context, channel protocol.Channel, id string) (RequestState, error) {
	return call[RequestState](ctx, c, http.MethodPost, requestsPath(channel)+"/"+url.PathEscape(id)+"/cancel", nil)
}

func taskPath(id string) string { return "/tasks/" + url.PathEscape(id) }

func requestsPath(channel protocol.Channel) string { return "/" + string(channel) + "-requests" }

// call makes one request. Anything but a 2xx answer is a *StatusError.
func call[T any](ctx context.Context, c *Client, method, path string, body any) (answer T, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s operator%s: %w", strings.ToLower(method), path, err)
		}
	}()
	var payload io.Reader = http.NoBody
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return answer, err
		}
		payload = bytes.NewReader(encoded)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+"/api/v1/operator"+path, payload)
	if err != nil {
		return answer, err
	}
	req.Header.Set("Authorization", "Bearer "+c.token.Reveal())
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return answer, err
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes))
	if closeErr := resp.Body.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return answer, err
	}
	if resp.StatusCode/100 != 2 {
		return answer, statusError(resp.StatusCode, data)
	}
	if len(data) == 0 {
		return answer, nil
	}
	return answer, json.Unmarshal(data, &answer)
}

// statusError keeps the start of a body that is not the protocol's, such as a
// proxy's page.
func statusError(status int, data []byte) *StatusError {
	var body protocol.ErrorBody
	if err := json.Unmarshal(data, &body); err != nil || body.Error.Message == "" {
		body.Error = protocol.ErrorDetail{Code: "unknown", Message: string(data[:min(len(data), 512)])}
	}
	return &StatusError{Status: status, Detail: body.Error}
}
