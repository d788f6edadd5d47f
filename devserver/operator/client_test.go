package operator

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/heteroflow/node-agent/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "operator-token-marker"

func answering(t *testing.T, status int, body string) *Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token || strings.Contains(r.URL.String(), token) {
			t.Errorf("request %s with %q", r.URL, r.Header.Get("Authorization"))
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	client := NewClient(server.URL+"/", token)
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		server.Close()
	})
	return client
}

func TestAnAnswerThatIsNotTheServersBecomesAReadableError(t *testing.T) {
	for name, c := range map[string]struct {
		status  int
		body    string
		want    string
		refusal bool
	}{
		"the protocol's error":     {409, `{"error":{"code":"conflict","message":"is running"}}`, "409 conflict: is running", true},
		"a proxy's page":           {502, "<html>bad gateway</html>", "502 unknown: <html>bad gateway", true},
		"an empty error":           {500, "", "500 unknown", true},
		"JSON of another shape":    {404, `{"message":"x"}`, `404 unknown: {"message":"x"}`, true},
		"a page instead of a task": {200, "<html>", "invalid character '<'", false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := answering(t, c.status, c.body).Task(t.Context(), "t1")
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "/tasks/t1") {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if status, ok := errors.AsType[*StatusError](err); ok != c.refusal || ok && status.Status != c.status {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestAnAnswerWithoutABodyIsASuccess(t *testing.T) {
	client := answering(t, http.StatusNoContent, "")
	if err := client.DeleteTask(t.Context(), "t1"); err != nil {
		t.Error(err)
	}
	if err := client.Drain(t.Context(), "n", true); err != nil {
		t.Error(err)
	}
}

func TestAnIdentifierCannotLeaveItsPath(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if want := "/api/v1/operator/tasks/..%2F..%2Fnodes%3Fx"; r.URL.EscapedPath() != want {
			t.Errorf("got %s, want %s", r.URL.EscapedPath(), want)
		}
		_, _ = w.Write([]byte("{}"))
	}))
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		server.Close()
	})
	if _, err := NewClient(server.URL, token).Task(t.Context(), "../../nodes?x"); err != nil {
		t.Error(err)
	}
}

func TestPrintingAClientDoesNotShowItsToken(t *testing.T) {
	if NewClient("http://plane", protocol.Secret(token)).String() != "operator client of http://plane" {
		t.Error("the client does not name its control plane")
	}
}
