package protocol

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestPathsNameTheResourcesOfTheProtocol(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{TaskPath("a.b-c_1"), "/api/v1/tasks/a.b-c_1"},
		{TaskPath("a/b"), "/api/v1/tasks/a%2Fb"},
		{TaskPath("a?b#c d"), "/api/v1/tasks/a%3Fb%23c%20d"},
		{TaskPath(""), "/api/v1/tasks/-"},
		{TaskPath(".."), "/api/v1/tasks/-"},
		{CheckpointResumePath("x"), "/api/v1/tasks/x/checkpoint-resume"},
		{RequestsPath(ChannelFiles), "/api/v1/agent/file-requests"},
		{RequestsPath(ChannelSlices), "/api/v1/agent/slice-requests"},
		{RequestPath(ChannelImages, "r1"), "/api/v1/agent/image-requests/r1"},
		{TasksQuery("n 1", 20, StatusScheduled, StatusRunning).Encode(), "limit=20&node_id=n+1&status=scheduled%2Crunning"},
		{RequestsQuery("n", 5, RequestPending).Encode(), "limit=5&node_id=n&status=pending"},
		{WakeQuery("n", "7", 25).Encode(), "cursor=7&node_id=n&wait=25"},
	} {
		if c.got != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
	}
}

func TestNoIdentifierLeavesItsSegment(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/tasks/{id}", func(http.ResponseWriter, *http.Request) {})
	for _, id := range []string{"", ".", "..", "../nodes", "a/../../b", "a//b", "%2e%2e", "a\x00b", "a\r\nHost: x"} {
		r := httptest.NewRequest(http.MethodGet, "http://plane"+TaskPath(id), http.NoBody)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			t.Errorf("id %q: %s was answered with %d %s", id, TaskPath(id), w.Code, w.Header().Get("Location"))
		}
	}
}
