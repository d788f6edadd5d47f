// Package registry is how a pull reaches a registry: which hosts stand for it, with what
// trust and credentials, how many bytes have come, and what its refusals mean. It takes
// its configuration from the same directory as containerd (certs.d: mirrors, private CAs,
// plain http), read anew for each pull.
//
// Credentials go to the registry they were given for and to nobody else: a mirror is
// asked without. They live as long as one Session. The package runs no goroutines of its
// own; a Session's connections have theirs until it is closed.
package registry

import (
	"context"
	"net/http"
	"strings"
	"sync"

	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/remotes/docker/config"
	"github.com/distribution/reference"

	"github.com/heteroflow/node-agent/runtime"
)

// Session serves one pull.
type Session struct {
	Progress *Progress

	resolver remotes.Resolver

	mu         sync.Mutex
	transports []http.RoundTripper
}

// NewSession prepares to pull ref. hostsDir is containerd's certs.d; one that is not
// there means that every registry is asked directly, over https unless it is on this
// host. report may be nil.
func NewSession(ctx context.Context, hostsDir string, ref reference.Named, auth *runtime.RegistryAuth, report func(runtime.PullProgress)) *Session {
	s := &Session{Progress: &Progress{report: report}}
	hosts := config.ConfigureHosts(ctx, config.HostOptions{
		HostDir:      config.HostDirFromRoot(hostsDir),
		Credentials:  credentials(reference.Domain(ref), auth),
		UpdateClient: s.watch,
	})
	s.resolver = docker.NewResolver(docker.ResolverOptions{Hosts: hosts})
	return s
}

// Resolver is what containerd's client pulls with.
func (s *Session) Resolver() remotes.Resolver {
	return resolver{Resolver: s.resolver, progress: s.Progress}
}

// Close ends the session's idle connections.
func (s *Session) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.transports {
		(&http.Client{Transport: t}).CloseIdleConnections()
	}
}

// watch is called for each client the session makes, for some of them twice.
func (s *Session) watch(c *http.Client) error {
	base := c.Transport
	if _, ok := base.(transport); ok {
		return nil
	}
	c.Transport = transport{base}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.transports = append(s.transports, base)
	return nil
}

// credentials answers for the registry named in the reference and for no other host.
// Without a user name containerd takes the secret for an identity token.
func credentials(domain string, auth *runtime.RegistryAuth) func(string) (string, string, error) {
	if auth == nil {
		return nil
	}
	if domain == "docker.io" {
		domain = "registry-1.docker.io"
	}
	return func(host string) (string, string, error) {
		switch {
		case !strings.EqualFold(host, domain):
			return "", "", nil
		case auth.IdentityToken != "":
			return "", auth.IdentityToken, nil
		default:
			return auth.Username, auth.Password, nil
		}
	}
}
