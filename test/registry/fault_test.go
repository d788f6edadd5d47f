package registry

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

func TestSlowTakesTheTimeItsRateAsksFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Registry
		r.Slow(Any, 1000)
		body := make([]byte, 5000)
		handler := r.faults[0].wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if n, err := w.Write(body); n != len(body) || err != nil {
				t.Errorf("wrote %d bytes, %v", n, err)
			}
		}))
		start := time.Now()
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v2/", nil))
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("took %s, want 5s", took)
		}
		if answer.Body.Len() != len(body) {
			t.Errorf("sent %d bytes, want %d", answer.Body.Len(), len(body))
		}
	})
}

func TestScopeNamesTheRepository(t *testing.T) {
	tests := []struct{ method, path, want string }{
		{http.MethodGet, "/v2/team/app/manifests/v1", "repository:team/app:pull"},
		{http.MethodPut, "/v2/team/app/manifests/v1", "repository:team/app:pull,push"},
		{http.MethodHead, "/v2/app/blobs/sha256:00", "repository:app:pull"},
		{http.MethodGet, "/v2/", ""},
	}
	for _, tt := range tests {
		t.Run(tt.method+" "+tt.path, func(t *testing.T) {
			if got := scope(httptest.NewRequestWithContext(t.Context(), tt.method, tt.path, nil)); got != tt.want {
				t.Errorf("scope %q, want %q", got, tt.want)
			}
		})
	}
}
