package docker

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	goruntime "runtime"
	"time"

	"github.com/distribution/reference"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/moby/moby/api/types/registry"

	"github.com/heteroflow/node-agent/runtime"
)

// The daemon tells nobody how large an image is before it pulls it, so its registry is
// asked here, in the daemon's stead and by what it says of its configuration: mirrors of
// Docker Hub, registries that may speak http, private authorities in its certs.d. Proxies
// are those of this process.
const (
	dialTimeout = 3 * time.Second
	certsDir    = "/etc/docker/certs.d"

	// maxAnswer is far more than a manifest or an image's configuration has.
	maxAnswer = 16 << 20
)

// source is one place where an image may be had.
type source struct {
	host     string // host[:port]
	insecure bool
	auth     authn.Authenticator
}

// sources are the registry of the reference and, before it, its mirrors, which are asked
// without credentials.
func sources(named reference.Named, service *registry.ServiceConfig, auth *runtime.RegistryAuth) []source {
	domain := reference.Domain(named)
	own := source{host: domain, insecure: insecure(domain, service), auth: authn.Anonymous}
	if auth != nil {
		own.auth = authn.FromConfig(authn.AuthConfig{Username: auth.Username, Password: auth.Password, IdentityToken: auth.IdentityToken})
	}
	if domain != "docker.io" {
		return []source{own}
	}
	own.host = name.DefaultRegistry
	var all []source
	if service != nil {
		for _, mirror := range service.Mirrors {
			if u, err := url.Parse(mirror); err == nil && u.Host != "" && (u.Path == "" || u.Path == "/") {
				all = append(all, source{host: u.Host, insecure: u.Scheme == "http" || insecure(u.Host, service), auth: authn.Anonymous})
			}
		}
	}
	return append(all, own)
}

// insecure tells whether the daemon would speak http, or with whoever answers, to a host.
func insecure(host string, service *registry.ServiceConfig) bool {
	if service == nil {
		return false
	}
	if index := service.IndexConfigs[host]; index != nil {
		return !index.Secure
	}
	bare := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		bare = h
	}
	if bare == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(bare)
	if err != nil {
		return false
	}
	for _, network := range service.InsecureRegistryCIDRs {
		if network.Contains(addr) {
			return true
		}
	}
	return false
}

// published asks the sources in turn for the image's layers, as they are packed and as the
// digests by which the daemon knows them unpacked.
func published(ctx context.Context, from []source, named reference.Named) (layers []v1.Descriptor, diffIDs []string, err error) {
	var errs []error
	for _, s := range from {
		layers, diffIDs, err := s.published(ctx, named)
		if err == nil {
			return layers, diffIDs, nil
		}
		errs = append(errs, fmt.Errorf("ask %s for the image's size: %w", s.host, err))
	}
	return nil, nil, errors.Join(errs...)
}

func (s source) published(ctx context.Context, named reference.Named) ([]v1.Descriptor, []string, error) {
	ref, err := s.reference(named)
	if err != nil {
		return nil, nil, err
	}
	transport := s.transport(reference.Domain(named))
	defer transport.base.CloseIdleConnections()
	image, err := remote.Image(ref, remote.WithContext(ctx), remote.WithTransport(transport), remote.WithAuth(s.auth),
		remote.WithPlatform(v1.Platform{OS: "linux", Architecture: goruntime.GOARCH}))
	if err != nil {
		return nil, nil, err
	}
	manifest, err := image.Manifest()
	if err != nil {
		return nil, nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, nil, err
	}
	diffIDs := make([]string, len(config.RootFS.DiffIDs))
	for i, id := range config.RootFS.DiffIDs {
		diffIDs[i] = id.String()
	}
	return manifest.Layers, diffIDs, nil
}

func (s source) reference(named reference.Named) (name.Reference, error) {
	var options []name.Option
	if s.insecure {
		options = append(options, name.Insecure)
	}
	repository, err := name.NewRepository(s.host+"/"+reference.Path(named), options...)
	if err != nil {
		return nil, err
	}
	if digested, ok := named.(reference.Digested); ok {
		return repository.Digest(digested.Digest().String()), nil
	}
	if tagged, ok := named.(reference.Tagged); ok {
		return repository.Tag(tagged.Tag()), nil
	}
	return nil, fmt.Errorf("%w: %s has neither a tag nor a digest", runtime.ErrInvalid, named)
}

// guarded keeps to https unless the daemon does not, lest credentials travel in the clear,
// and reads no more of an answer than it can be.
type guarded struct {
	base     *http.Transport
	insecure bool
}

func (s source) transport(domain string) guarded {
	base := &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
		DialContext:     (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSClientConfig: &tls.Config{RootCAs: authorities(domain), InsecureSkipVerify: s.insecure}, //nolint:gosec // the daemon is configured so for this registry
	}
	return guarded{base, s.insecure}
}

var errPlainHTTP = errors.New("the registry is not among those that the daemon speaks http with")

// RoundTrip implements http.RoundTripper.
func (g guarded) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" && !g.insecure {
		return nil, errPlainHTTP
	}
	resp, err := g.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	resp.Body = bounded{io.LimitReader(resp.Body, maxAnswer), resp.Body}
	return resp, nil
}

type bounded struct {
	io.Reader
	io.Closer
}

// authorities are the system's and the daemon's own for a registry; nil: the system's.
func authorities(domain string) *x509.CertPool {
	files, err := filepath.Glob(filepath.Join(certsDir, filepath.Base(domain), "*.crt"))
	if err != nil || len(files) == 0 {
		return nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	for _, file := range files {
		if pem, err := os.ReadFile(file); err == nil {
			pool.AppendCertsFromPEM(pem)
		}
	}
	return pool
}
