package devserver

import (
	"bytes"
	"errors"
	"net/http"
	"testing"

	"github.com/heteroflow/node-agent/devserver/operator"
	"github.com/heteroflow/node-agent/protocol"
)

// agentCalls is one call of every agent operation.
var agentCalls = []struct{ method, path string }{
	{http.MethodGet, "/api/v1/tasks?node_id=n&status=scheduled"},
	{http.MethodPost, "/api/v1/tasks"},
	{http.MethodGet, "/api/v1/tasks/t1"},
	{http.MethodPut, "/api/v1/tasks/t1"},
	{http.MethodPost, "/api/v1/tasks/t1/checkpoint-resume"},
	{http.MethodPost, "/api/v1/agent/heartbeat"},
	{http.MethodGet, "/api/v1/agent/wake?node_id=n&wait=0"},
	{http.MethodGet, "/api/v1/agent/file-requests?node_id=n&status=pending"},
	{http.MethodGet, "/api/v1/agent/slice-requests?node_id=n&status=pending"},
	{http.MethodGet, "/api/v1/agent/image-requests?node_id=n&status=pending"},
	{http.MethodPut, "/api/v1/agent/file-requests/r"},
	{http.MethodPut, "/api/v1/agent/slice-requests/r"},
	{http.MethodPut, "/api/v1/agent/image-requests/r"},
}

func TestEveryAgentCallNeedsTheSystemKey(t *testing.T) {
	p := start(t)
	for _, call := range agentCalls {
		for name, key := range map[string]string{"no key": "", "a wrong key": "wrong", "the operator token": operatorToken, "a prefix of the key": systemKey[:8]} {
			t.Run(call.method+" "+call.path+" with "+name, func(t *testing.T) {
				r := p.do(call.method, call.path, `{}`, protocol.HeaderAPIKey, key)
				refused(t, r, http.StatusUnauthorized, protocol.CodeUnauthorized)
			})
		}
	}
}

func TestTheOperatorAPINeedsItsToken(t *testing.T) {
	p := start(t)
	for _, path := range []string{"/tasks", "/tasks/t1", "/nodes", "/slice-requests"} {
		r := p.do(http.MethodGet, "/api/v1/operator"+path, nil)
		refused(t, r, http.StatusUnauthorized, protocol.CodeUnauthorized)
		r = p.do(http.MethodGet, "/api/v1/operator"+path, nil, "Authorization", "Bearer "+systemKey)
		refused(t, r, http.StatusUnauthorized, protocol.CodeUnauthorized)
		r = p.do(http.MethodGet, "/api/v1/operator"+path, nil, "Authorization", operatorToken)
		refused(t, r, http.StatusUnauthorized, protocol.CodeUnauthorized)
	}
}

func TestWithoutATokenTheOperatorAPIIsOff(t *testing.T) {
	p := start(t, func(c *Config) { c.OperatorToken = "" })
	for _, header := range []string{"", "Bearer ", "Bearer x"} {
		r := p.do(http.MethodGet, "/api/v1/operator/tasks", nil, "Authorization", header)
		refused(t, r, http.StatusForbidden, protocol.CodeForbidden)
	}
}

func TestANodeListsOnlyItsOwn(t *testing.T) {
	p := start(t)
	p.create("mine", "node-1")
	p.create("theirs", "node-2")
	for _, query := range []string{"", "?node_id=node-1", "?status=scheduled", "?node_id=&status=", "?node_id=&status=scheduled"} {
		refused(t, p.do(http.MethodGet, "/api/v1/tasks"+query, nil), http.StatusForbidden, protocol.CodeForbidden)
		for _, channel := range protocol.Channels() {
			refused(t, p.do(http.MethodGet, protocol.RequestsPath(channel)+query, nil), http.StatusForbidden, protocol.CodeForbidden)
		}
	}
	refused(t, p.do(http.MethodGet, "/api/v1/agent/wake", nil), http.StatusForbidden, protocol.CodeForbidden)

	list := decode[protocol.TaskList](t, p.do(http.MethodGet, "/api/v1/tasks?node_id=node-1&status=scheduled,running", nil), http.StatusOK)
	if len(list.Tasks) != 1 || list.Tasks[0].ID != "mine" {
		t.Errorf("got %v", list.Tasks)
	}
	none := p.do(http.MethodGet, "/api/v1/tasks?node_id=preflight&status=scheduled&limit=1", nil)
	if string(none.body) != `{"tasks":[]}`+"\n" || none.status != http.StatusOK {
		t.Errorf("an empty list reads %d %s", none.status, none.body)
	}
}

func TestTheSystemKeyCreatesNoTasks(t *testing.T) {
	p := start(t)
	r := p.do(http.MethodPost, "/api/v1/tasks", protocol.Task{ID: "t1", Image: "busybox"})
	refused(t, r, http.StatusForbidden, protocol.CodeForbidden)
	if _, err := p.Task(t.Context(), "t1"); err == nil {
		t.Error("the task was created")
	}
}

func TestANodeReadsASingleTask(t *testing.T) {
	p := start(t)
	p.create("t1", "node-2")
	got := decode[protocol.Task](t, p.do(http.MethodGet, "/api/v1/tasks/t1", nil), http.StatusOK)
	if got.ID != "t1" || got.Status != protocol.StatusScheduled || got.NodeID != "node-2" || got.Generation != 1 {
		t.Errorf("got %+v", got)
	}
	refused(t, p.do(http.MethodGet, "/api/v1/tasks/none", nil), http.StatusNotFound, protocol.CodeNotFound)
	refused(t, p.do(http.MethodGet, protocol.TaskPath(""), nil), http.StatusBadRequest, protocol.CodeInvalid)
}

func TestErrorsHaveOneShapeEverywhere(t *testing.T) {
	p := start(t)
	for name, c := range map[string]struct {
		r      result
		status int
		code   string
	}{
		"an unknown route":    {p.do(http.MethodGet, "/api/v2/tasks", nil), 404, protocol.CodeNotFound},
		"the root":            {p.do(http.MethodGet, "/", nil), 404, protocol.CodeNotFound},
		"a wrong method":      {p.do(http.MethodPatch, "/api/v1/tasks/t1", nil), 405, protocol.CodeMethodNotAllowed},
		"JSON that is cut":    {p.do(http.MethodPut, "/api/v1/tasks/t1", `{"node_id":"n`), 422, protocol.CodeInvalid},
		"a JSON list":         {p.do(http.MethodPut, "/api/v1/tasks/t1", `[1]`), 422, protocol.CodeInvalid},
		"a number for a text": {p.do(http.MethodPut, "/api/v1/tasks/t1", `{"node_id":7}`), 422, protocol.CodeInvalid},
		"no body":             {p.do(http.MethodPut, "/api/v1/tasks/t1", nil), 400, protocol.CodeInvalid},
		"a bad limit":         {p.do(http.MethodGet, "/api/v1/tasks?node_id=n&status=running&limit=0", nil), 422, protocol.CodeInvalid},
		"a limit of words":    {p.do(http.MethodGet, "/api/v1/tasks?node_id=n&status=running&limit=all", nil), 422, protocol.CodeInvalid},
	} {
		t.Run(name, func(t *testing.T) { refused(t, c.r, c.status, c.code) })
	}
	if allow := p.do(http.MethodPatch, "/api/v1/tasks/t1", nil).header.Get("Allow"); allow == "" {
		t.Error("405 does not say what is allowed")
	}
}

func TestAnOperatorNeverReadsCredentials(t *testing.T) {
	p := start(t)
	const secret = "registry-password-marker"
	task := protocol.Task{ID: "t1", NodeID: "n", Image: "x", RegistryAuth: &protocol.RegistryAuth{Username: "u", Password: secret}}
	created := must(p.CreateTask(t.Context(), task))(t)
	if created.RegistryAuth.Password.Reveal() != "***" {
		t.Errorf("got %q", created.RegistryAuth.Password.Reveal())
	}
	must(p.CreateImageRequest(t.Context(), protocol.ImageRequest{
		Request: protocol.Request{ID: "r1", NodeID: "n"}, Action: protocol.ImagePull, Image: "x", RegistryAuth: task.RegistryAuth,
	}))(t)
	for _, path := range []string{"/tasks", "/tasks/t1", "/image-requests", "/image-requests/r1"} {
		r := p.do(http.MethodGet, "/api/v1/operator"+path, nil, "Authorization", "Bearer "+operatorToken)
		if r.status != http.StatusOK || bytes.Contains(r.body, []byte(secret)) {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
	// The node needs them.
	list := decode[protocol.TaskList](t, p.do(http.MethodGet, "/api/v1/tasks?node_id=n&status=scheduled", nil), http.StatusOK)
	requests := decode[protocol.RequestList[protocol.ImageRequest]](t, p.do(http.MethodGet, "/api/v1/agent/image-requests?node_id=n&status=pending", nil), http.StatusOK)
	if list.Tasks[0].RegistryAuth.Password != secret || requests.Requests[0].RegistryAuth.Password != secret {
		t.Error("the node did not get the credentials")
	}
	// A node that lost the race does not.
	lost := p.put("t1", protocol.TaskUpdate{NodeID: "other", FromStatus: protocol.StatusScheduled, Status: protocol.StatusRunning})
	if body := refused(t, lost, http.StatusConflict, protocol.CodeConflict); body.Task == nil || body.Task.RegistryAuth != nil {
		t.Errorf("the loser got %+v", body.Task)
	}
}

func TestOperatorClientTellsStatusAndCode(t *testing.T) {
	p := start(t)
	_, err := p.Task(t.Context(), "none")
	if status, ok := errors.AsType[*operator.StatusError](err); !ok || status.Status != http.StatusNotFound || status.Detail.Code != protocol.CodeNotFound {
		t.Errorf("got %v", err)
	}
}
