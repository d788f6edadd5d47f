package executor_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/heteroflow/node-agent/protocol"
)

// plane is a control plane in memory: the task calls of the protocol with real
// compare-and-set, and troubles on order. The real client speaks to it, through a line.
type plane struct {
	t testing.TB

	mu       sync.Mutex
	tasks    map[string]*protocol.Task
	order    []string
	applied  []applied
	asked    []asked
	troubles []*trouble
	bare     bool             // a 409 does not carry the task
	twice    func(asked) bool // requests that a proxy sends twice, to give the second answer; nil: none
}

// applied is a compare-and-set that was.
type applied struct {
	ID string
	At time.Time
	protocol.TaskUpdate
}

// asked is a request as it came, whatever became of it.
type asked struct {
	Method, Path string
	At           time.Time
	Update       protocol.TaskUpdate
}

// trouble is what becomes of requests. The zero value beside which and times: no answer,
// nothing applied.
type trouble struct {
	which   func(asked) bool // nil: all
	times   int              // how many; negative: until lifted
	status  int              // answered instead
	html    bool             // by a proxy
	after   string           // Retry-After
	applied bool             // the request is done, only the answer is lost
	hangs   bool             // there is no answer until the agent waits no longer
}

func newPlane(t testing.TB) *plane { return &plane{t: t, tasks: make(map[string]*protocol.Task)} }

// add makes a task scheduled for the node.
func (p *plane) add(id, image string, change ...func(*protocol.Task)) {
	task := &protocol.Task{ID: id, Status: protocol.StatusScheduled, NodeID: nodeID, Generation: 1, Image: image}
	for _, f := range change {
		f(task)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tasks[id] == nil {
		p.order = append(p.order, id)
	}
	p.tasks[id] = task
}

// set makes the plane store something else.
func (p *plane) set(id string, change func(*protocol.Task)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p.tasks[id])
}

// answers makes conflicts bare of the task or not, and a proxy send the requests that match
// twice.
func (p *plane) answers(bare bool, twice func(asked) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bare, p.twice = bare, twice
}

func (p *plane) setStatus(id string, status protocol.TaskStatus) {
	p.set(id, func(t *protocol.Task) { t.Status = status })
}

func (p *plane) remove(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.tasks, id)
}

func (p *plane) get(id string) protocol.Task {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t := p.tasks[id]; t != nil {
		return *t
	}
	return protocol.Task{}
}

func (p *plane) status(id string) protocol.TaskStatus { return p.get(id).Status }

// trouble adds to the troubles and returns how to lift it.
func (p *plane) trouble(tr trouble) (lift func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.troubles = append(p.troubles, &tr)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		tr.times = 0
	}
}

// updates lists the compare-and-sets of a task that were applied and led to one of the
// statuses; of all statuses if none is given.
func (p *plane) updates(id string, to ...protocol.TaskStatus) []applied {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []applied
	for _, a := range p.applied {
		if a.ID == id && (len(to) == 0 || slices.Contains(to, a.Status)) {
			found = append(found, a)
		}
	}
	return found
}

// asks lists the requests that match.
func (p *plane) asks(which func(asked) bool) []asked {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []asked
	for _, a := range p.asked {
		if which(a) {
			found = append(found, a)
		}
	}
	return found
}

// reports are the requests that tell how a task ended.
func reports(a asked) bool { return a.Method == http.MethodPut && a.Update.Status.Terminal() }

// claims are the requests that claim.
func claims(a asked) bool {
	return a.Method == http.MethodPut && a.Update.FromStatus == protocol.StatusScheduled
}

// reads are the requests for one task.
func reads(id string) func(asked) bool {
	return func(a asked) bool { return a.Method == http.MethodGet && a.Path == protocol.TaskPath(id) }
}

// sets are the compare-and-sets to a status.
func sets(to protocol.TaskStatus) func(asked) bool {
	return func(a asked) bool { return a.Method == http.MethodPut && a.Update.Status == to }
}

func (p *plane) serve(req *http.Request) (answer *http.Response, lost bool) {
	a := asked{Method: req.Method, Path: req.URL.Path, At: time.Now()}
	if req.Body != nil {
		data, err := io.ReadAll(req.Body)
		if err != nil {
			p.t.Error(err)
		}
		if err := json.Unmarshal(data, &a.Update); err != nil {
			p.t.Errorf("%s %s: %v", a.Method, a.Path, err)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, a)
	w := httptest.NewRecorder()
	tr := p.nextTrouble(a)
	if tr != nil && tr.hangs {
		p.mu.Unlock()
		<-req.Context().Done()
		p.mu.Lock()
	}
	switch {
	case tr == nil, tr.applied:
		if p.twice != nil && p.twice(a) {
			p.answer(httptest.NewRecorder(), req, a)
		}
		p.answer(w, req, a)
	case tr.html:
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(tr.status)
		w.Body.WriteString("<html>nginx</html>")
	case tr.status != 0:
		w.Header().Set("Retry-After", tr.after)
		reply(w, tr.status, protocol.ErrorBody{Error: protocol.ErrorDetail{Code: "trouble", Message: "as ordered"}})
	}
	return w.Result(), tr != nil && (tr.applied || tr.status == 0)
}

func (p *plane) nextTrouble(a asked) *trouble {
	for _, tr := range p.troubles {
		if tr.times != 0 && (tr.which == nil || tr.which(a)) {
			tr.times--
			return tr
		}
	}
	return nil
}

func (p *plane) answer(w http.ResponseWriter, req *http.Request, a asked) {
	if a.Path == protocol.TasksPath {
		p.list(w, req)
		return
	}
	id := strings.TrimPrefix(a.Path, protocol.TasksPath+"/")
	task := p.tasks[id]
	switch {
	case task == nil:
		reply(w, http.StatusNotFound, protocol.ErrorBody{Error: protocol.ErrorDetail{Code: protocol.CodeNotFound, Message: id}})
	case a.Method == http.MethodGet:
		reply(w, http.StatusOK, task)
	default:
		p.update(w, task, a)
	}
}

func (p *plane) list(w http.ResponseWriter, req *http.Request) {
	query := req.URL.Query()
	statuses := strings.Split(query.Get(protocol.QueryStatus), ",")
	limit, err := strconv.Atoi(query.Get(protocol.QueryLimit))
	if err != nil || query.Get(protocol.QueryNodeID) != nodeID || statuses[0] == "" {
		p.t.Errorf("list without node, status or limit: %s", req.URL)
	}
	list := protocol.TaskList{Tasks: []protocol.Task{}}
	for _, id := range p.order {
		t := p.tasks[id]
		if t != nil && t.NodeID == nodeID && slices.Contains(statuses, string(t.Status)) && len(list.Tasks) < limit {
			list.Tasks = append(list.Tasks, *t)
		}
	}
	reply(w, http.StatusOK, list)
}

// update is the compare-and-set.
func (p *plane) update(w http.ResponseWriter, task *protocol.Task, a asked) {
	u := a.Update
	if !protocol.AgentCanTransition(u.FromStatus, u.Status) {
		p.t.Errorf("task %s: the agent asks for %s to %s", task.ID, u.FromStatus, u.Status)
	}
	if task.Status != u.FromStatus || task.NodeID != u.NodeID || u.Generation != nil && *u.Generation != task.Generation {
		body := protocol.ErrorBody{Error: protocol.ErrorDetail{Code: protocol.CodeConflict, Message: "the task is " + string(task.Status)}}
		if !p.bare {
			body.Task = task
		}
		reply(w, http.StatusConflict, body)
		return
	}
	task.Status = u.Status
	p.applied = append(p.applied, applied{task.ID, time.Now(), u})
	reply(w, http.StatusOK, task)
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	data, err := json.Marshal(body)
	if err != nil {
		panic(err) // protocol types always marshal
	}
	// A recorder takes everything.
	_, _ = w.Write(data)
}
