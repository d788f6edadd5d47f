package docker

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/api/types/registry"
	"github.com/moby/moby/api/types/system"

	"github.com/heteroflow/node-agent/runtime"
)

func TestWhereTheDaemonWouldTakeAnImageFrom(t *testing.T) {
	service := &registry.ServiceConfig{
		InsecureRegistryCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")},
		IndexConfigs: map[string]*registry.IndexInfo{
			"docker.io": {Secure: true}, "lab.example:5000": {Secure: false}, "10.0.0.7": {Secure: true},
		},
		Mirrors: []string{"https://mirror.example/", "http://cache.example:8080", "https://proxy.example/with/path", "::"},
	}
	type place struct {
		Host             string
		Insecure, Secret bool
	}
	cases := map[string]struct {
		service *registry.ServiceConfig
		want    []place
	}{
		"app":                      {service, []place{{"mirror.example", false, false}, {"cache.example:8080", true, false}, {"index.docker.io", false, true}}},
		"reg.example/app:v1":       {service, []place{{"reg.example", false, true}}},
		"lab.example:5000/app":     {service, []place{{"lab.example:5000", true, true}}},
		"127.0.0.1:5000/app":       {service, []place{{"127.0.0.1:5000", true, true}}},
		"[::1]:5000/app":           {service, []place{{"[::1]:5000", true, true}}},
		"localhost:5000/app":       {service, []place{{"localhost:5000", true, true}}},
		"10.0.0.7/app":             {service, []place{{"10.0.0.7", false, true}}},
		"192.168.1.1:5000/app":     {service, []place{{"192.168.1.1:5000", false, true}}},
		"127.0.0.1:5000/quiet/app": {nil, []place{{"127.0.0.1:5000", false, true}}},
	}
	for ref, tc := range cases {
		t.Run(ref, func(t *testing.T) {
			named, err := runtime.ParseReference(ref)
			if err != nil {
				t.Fatal(err)
			}
			var got []place
			for _, s := range sources(named, tc.service, &runtime.RegistryAuth{Username: "u", Password: "p"}) {
				config, err := s.auth.Authorization()
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, place{s.host, s.insecure, config.Password == "p"})
				if _, err := s.reference(named); err != nil {
					t.Error(err)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A registry with a private address that is not configured as insecure is never spoken to
// in the clear, whatever answers there.
func TestCredentialsAreNotSentInTheClear(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{}, 100)
	server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked <- struct{}{} })}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}()
	named, err := runtime.ParseReference(listener.Addr().String() + "/app:v1")
	if err != nil {
		t.Fatal(err)
	}
	auth := &runtime.RegistryAuth{Username: "u", Password: "word-mark"}
	_, _, err = published(t.Context(), sources(named, nil, auth), named)
	if err == nil || strings.Contains(err.Error(), "word-mark") {
		t.Errorf("got %v", err)
	}
	if len(asked) > 0 {
		t.Errorf("asked in the clear, %d times", len(asked))
	}
}

func TestWhereImagesAreIsKnownOrNot(t *testing.T) {
	dir := t.TempDir()
	store := [][2]string{{"driver-type", "io.containerd.snapshotter.v1"}}
	cases := map[string]struct {
		info       system.Info
		containerd string
		want       string
	}{
		"below the daemon's root":                 {system.Info{DockerRootDir: dir, DriverStatus: [][2]string{{"Backing Filesystem", "extfs"}}}, "/none", dir},
		"in containerd's store on the same disk":  {system.Info{DockerRootDir: dir, DriverStatus: store}, dir, dir},
		"in containerd's store on another":        {system.Info{DockerRootDir: dir, DriverStatus: store}, "/proc", ""},
		"in containerd's store, wherever that is": {system.Info{DockerRootDir: dir, DriverStatus: store}, "/none", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := imageDir(tc.info, tc.containerd); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestLayersAreSharedFromTheLowestOn(t *testing.T) {
	cases := map[string]struct {
		here, wanted []string
		want         int
	}{
		"nothing here":            {nil, []string{"a"}, 0},
		"the same image":          {[]string{"a", "b"}, []string{"a", "b"}, 2},
		"one based on it":         {[]string{"a"}, []string{"a", "b"}, 1},
		"its base":                {[]string{"a", "b", "c"}, []string{"a", "b"}, 2},
		"the same on another one": {[]string{"x", "b"}, []string{"a", "b"}, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := common(tc.here, tc.wanted); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}
