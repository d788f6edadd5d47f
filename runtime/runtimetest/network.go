package runtimetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/test/workload/report"
)

func (s *suite) testNetwork(t *testing.T) {
	t.Run("network host has the host's interfaces", func(t *testing.T) {
		spec := s.spec()
		spec.Network.Mode = runtime.NetworkHost
		before := hostInterfaces(t)
		got := interfaceNames(s.self(t, spec))
		lasting := 0
		for _, name := range hostInterfaces(t) { // others come and go with containers of others
			if !slices.Contains(before, name) {
				continue
			}
			lasting++
			if !slices.Contains(got, name) {
				t.Errorf("got %q, without %s", got, name)
			}
		}
		if lasting == 0 {
			t.Skip("this host has no interface but the loopback")
		}
	})
	t.Run("network none has the loopback interface alone", func(t *testing.T) {
		spec := s.spec()
		spec.Network.Mode = runtime.NetworkNone
		if got := interfaceNames(s.self(t, spec)); !slices.Equal(got, []string{"lo"}) {
			t.Errorf("got %q", got)
		}
	})
	t.Run("on a bridge a container is reached by its address and by its published port", s.published)
	t.Run("a hostname is set on a network of one's own", func(t *testing.T) {
		for _, mode := range []runtime.NetworkMode{runtime.NetworkBridge, runtime.NetworkNone, runtime.NetworkHost} {
			spec := s.spec()
			spec.Network.Mode = mode
			spec.Hostname = "worker-0.test"
			if self := s.self(t, spec); self.Hostname != spec.Hostname {
				t.Errorf("network %s: got %q", mode, self.Hostname)
			}
		}
	})
	t.Run("a port that is taken is an error and the container never ran", func(t *testing.T) {
		l, port := listen(t, ":0")
		defer closeListener(t, l)
		spec := s.spec("sleep", "10m")
		spec.Network = runtime.Network{
			Mode:  runtime.NetworkBridge,
			Ports: []runtime.Port{{Container: 8000, Host: port, Protocol: "tcp"}},
		}
		wantClass(t, s.createAndStart(t, spec), runtime.ErrStartFailed)
	})
}

func interfaceNames(self report.Self) (names []string) {
	for _, i := range self.Interfaces {
		names = append(names, i.Name)
	}
	return names
}

// hostInterfaces are the interfaces of this process that are not the loopback.
func hostInterfaces(t *testing.T) (names []string) {
	t.Helper()
	all, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		if i.Flags&net.FlagLoopback == 0 {
			names = append(names, i.Name)
		}
	}
	return names
}

func listen(t *testing.T, address string) (net.Listener, uint16) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	bound, err := netip.ParseAddrPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return l, bound.Port()
}

func closeListener(t *testing.T, l net.Listener) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// freePort finds a port that nobody listens on. It is none that the kernel gives to whoever
// asks for any (ip_local_port_range), lest somebody else has it by the time it is used.
func freePort(t *testing.T) uint16 {
	t.Helper()
	for range 100 {
		port := uint16(20_000 + rand.IntN(12_000))
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", fmt.Sprintf(":%d", port))
		if err == nil {
			closeListener(t, l)
			return port
		}
	}
	t.Fatal("there is no free port")
	return 0
}

func (s *suite) published(t *testing.T) {
	spec := s.spec("serve", "--port", "8000")
	port := freePort(t)
	spec.Network = runtime.Network{
		Mode:  runtime.NetworkBridge,
		Ports: []runtime.Port{{Container: 8000, Host: port, Protocol: "tcp"}},
	}
	c := s.start(t, spec)
	s.waitUntilServing(t, c.ID, 1)
	ip := s.inspect(t, c.ID).IP
	if !ip.IsValid() || ip.IsLoopback() {
		t.Fatalf("its address is %v", ip)
	}
	for _, address := range []string{
		netip.AddrPortFrom(ip, 8000).String(),
		fmt.Sprintf("127.0.0.1:%d", port),
	} {
		eventually(t, address+" answers", func() bool { return healthy(t.Context(), address) })
	}
	if err := s.rt.Stop(t.Context(), c.ID, patience); err != nil {
		t.Fatal(err)
	}
	if now := s.inspect(t, c.ID); now.IP.IsValid() {
		t.Errorf("stopped, it has address %v", now.IP)
	}
	// The port is free again for the next run, and published for it.
	if err := s.rt.Start(t.Context(), c.ID); err != nil {
		t.Fatal(err)
	}
	s.waitUntilServing(t, c.ID, 2)
	eventually(t, "the port answers again", func() bool { return healthy(t.Context(), fmt.Sprintf("127.0.0.1:%d", port)) })
}

func healthy(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/health", nil)
	if err != nil {
		return false
	}
	req.Close = true // leaves no idle connection behind
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
}
