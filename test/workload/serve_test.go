package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

func healthOf(t *testing.T, s *server, method, path string) int {
	t.Helper()
	answer := httptest.NewRecorder()
	s.handler().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), method, path, nil))
	return answer.Code
}

func TestHealthFollowsTimeAndMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{started: time.Now(), readyAfter: time.Minute, unhealthyAfter: time.Hour}
		expect := func(when string, want int) {
			t.Helper()
			if got := healthOf(t, s, http.MethodGet, "/health"); got != want {
				t.Errorf("%s: status %d, want %d", when, got, want)
			}
		}
		expect("before it is ready", http.StatusServiceUnavailable)
		time.Sleep(time.Minute)
		expect("once it is ready", http.StatusOK)
		healthOf(t, s, http.MethodPost, "/admin/unhealthy")
		expect("marked unhealthy", http.StatusServiceUnavailable)
		healthOf(t, s, http.MethodPost, "/admin/healthy")
		expect("marked healthy again", http.StatusOK)
		time.Sleep(time.Hour)
		expect("after its time", http.StatusServiceUnavailable)
	})
}

func TestModelsHasTheOpenAIShape(t *testing.T) {
	s := &server{model: "m\"1", started: time.Unix(7, 0)}
	answer := httptest.NewRecorder()
	s.handler().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/models", nil))
	want := `{"object":"list","data":[{"id":"m\"1","object":"model","created":7,"owned_by":"heteroflow"}]}`
	if got := answer.Body.String(); got != want {
		t.Errorf("body = %s, want %s", got, want)
	}
}

func TestAdminNeedsPost(t *testing.T) {
	if got := healthOf(t, &server{}, http.MethodGet, "/admin/unhealthy"); got != http.StatusMethodNotAllowed {
		t.Errorf("status = %d, want %d", got, http.StatusMethodNotAllowed)
	}
}
