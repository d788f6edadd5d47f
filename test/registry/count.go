package registry

import (
	"maps"
	"net/http"
	"slices"
	"sync"
)

// counter remembers what was asked for and by whom.
type counter struct {
	mu    sync.Mutex
	paths map[string]int
	users map[string]int
}

func (c *counter) count(req *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paths == nil {
		c.paths, c.users = map[string]int{}, map[string]int{}
	}
	c.paths[req.Method+" "+req.URL.Path]++
	if username, _, ok := req.BasicAuth(); ok {
		c.users[username]++
	}
}

// Requests returns how often each "METHOD /path" was asked for.
func (r *Registry) Requests() map[string]int {
	r.requests.mu.Lock()
	defer r.requests.mu.Unlock()
	return maps.Clone(r.requests.paths)
}

// Users returns, sorted, the names that came in credentials, rejected ones
// included.
func (r *Registry) Users() []string {
	r.requests.mu.Lock()
	defer r.requests.mu.Unlock()
	return slices.Sorted(maps.Keys(r.requests.users))
}
