package registry

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
)

const tokenPath = "/token"

// access decides who may use the registry. Without a username everyone may.
type access struct {
	username, password string
	bearer             bool
	realm              string

	mu     sync.Mutex
	tokens map[string]bool
}

// require lets a request through to next or answers it with a challenge.
func (a *access) require(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !a.allows(req) {
			a.challenge(w, req)
			return
		}
		next.ServeHTTP(w, req)
	})
}

func (a *access) allows(req *http.Request) bool {
	if a.username == "" {
		return true
	}
	if !a.bearer {
		return a.knows(req)
	}
	token, ok := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	a.mu.Lock()
	defer a.mu.Unlock()
	return ok && a.tokens[token]
}

// knows tells whether the request carries the right name and password.
func (a *access) knows(req *http.Request) bool {
	username, password, ok := req.BasicAuth()
	return ok && username == a.username &&
		subtle.ConstantTimeCompare([]byte(password), []byte(a.password)) == 1
}

func (a *access) challenge(w http.ResponseWriter, req *http.Request) {
	challenge := `Basic realm="test registry"`
	if a.bearer {
		challenge = fmt.Sprintf(`Bearer realm=%q,service="test-registry",scope=%q`, a.realm, scope(req))
	}
	w.Header().Set("WWW-Authenticate", challenge)
	writeError(w, http.StatusUnauthorized, "UNAUTHORIZED", "authentication required")
}

// scope is the access that the request needs, as the token specification of
// the distribution project writes it.
func scope(req *http.Request) string {
	path := strings.TrimPrefix(req.URL.Path, "/v2/")
	for _, kind := range []string{"/manifests/", "/blobs/", "/tags/"} {
		if repository, _, ok := strings.Cut(path, kind); ok {
			if isRead(req) {
				return "repository:" + repository + ":pull"
			}
			return "repository:" + repository + ":pull,push"
		}
	}
	return ""
}

// serveToken exchanges credentials for a token. It knows the GET form only;
// clients that try the OAuth2 POST first fall back on 405.
func (a *access) serveToken(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodGet {
		writeError(w, http.StatusMethodNotAllowed, "UNSUPPORTED", "only GET gives tokens")
		return
	}
	if !a.knows(req) {
		writeError(w, http.StatusUnauthorized, "UNAUTHORIZED", "incorrect username or password")
		return
	}
	token := rand.Text()
	a.mu.Lock()
	if a.tokens == nil {
		a.tokens = map[string]bool{}
	}
	a.tokens[token] = true
	a.mu.Unlock()
	body := fmt.Sprintf(`{"token":%q,"expires_in":300}`, token)
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(body)) // a client that went away is not our concern
}

// expire makes every token handed out so far worthless.
func (a *access) expire() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.tokens)
}

// writeError answers as the distribution specification says errors look.
func writeError(w http.ResponseWriter, status int, code, message string) {
	type item struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	body, err := json.Marshal(map[string][]item{"errors": {{code, message}}})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that went away is not our concern
}
