package ocispec_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/containerd/ocispec"
)

func TestResolversTheContainerCannotReachAreLeftOut(t *testing.T) {
	cases := map[string]struct {
		host string
		mode runtime.NetworkMode
		want string
	}{
		"reachable ones stay": {"search a.example\nnameserver 10.0.0.2\noptions ndots:1", "bridge", "search a.example\nnameserver 10.0.0.2\noptions ndots:1\n"},
		"a local one goes":    {"nameserver 127.0.0.53\nnameserver 10.0.0.2\n", "bridge", "nameserver 10.0.0.2\n"},
		"only local ones":     {"nameserver 127.0.0.53\nnameserver ::1\n", "bridge", "nameserver 8.8.8.8\nnameserver 8.8.4.4\n"},
		"garbage":             {"nameserver not-an-address\n", "bridge", "nameserver 8.8.8.8\nnameserver 8.8.4.4\n"},
		"no network":          {"nameserver 127.0.0.53\n", "none", ""},
		"the host's network":  {"nameserver 127.0.0.53\n", "host", "nameserver 127.0.0.53\n"},
	}
	for name, tc := range cases {
		if got := string(ocispec.ResolvConf([]byte(tc.host), tc.mode)); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

func TestTheHostsFileNamesTheContainerOnItsOwnAddress(t *testing.T) {
	got := string(ocispec.HostsFile([]byte("host"), runtime.NetworkBridge, "task-1", netip.MustParseAddr("10.1.2.3")))
	if !strings.HasPrefix(got, "127.0.0.1\tlocalhost\n") || !strings.HasSuffix(got, "\n10.1.2.3\ttask-1\n") {
		t.Errorf("bridge: got %q", got)
	}
	if got := string(ocispec.HostsFile([]byte("host"), runtime.NetworkNone, "task-1", netip.Addr{})); strings.Contains(got, "task-1") {
		t.Errorf("none: got %q", got)
	}
	if got := string(ocispec.HostsFile([]byte("host"), runtime.NetworkHost, "task-1", netip.Addr{})); got != "host" {
		t.Errorf("host: got %q", got)
	}
}

func TestHostnamesFitTheKernelAndDNS(t *testing.T) {
	cases := map[string]runtime.Spec{
		"given":                 {Name: "n", Hostname: "given"},
		"host-name":             {Name: "n", Network: runtime.Network{Mode: runtime.NetworkHost}},
		"task-a-b-1":            {Name: "task-a_b.1"},
		strings.Repeat("a", 63): {Name: strings.Repeat("a", 128)},
		strings.Repeat("a", 60): {Name: strings.Repeat("a", 60) + "____"},
	}
	for want, s := range cases {
		if got := ocispec.Hostname(s, "host-name"); got != want {
			t.Errorf("%+v: got %q, want %q", s, got, want)
		}
	}
}
