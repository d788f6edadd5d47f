package runtimetest

import (
	"context"
	"fmt"
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
		got := interfaceNames(s.self(t, spec))
		if len(got) < 2 || !slices.Contains(got, hostInterface(t)) {
			t.Errorf("got %q", got)
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

// hostInterface is an interface of this process that is not the loopback.
func hostInterface(t *testing.T) string {
	t.Helper()
	all, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		if i.Flags&net.FlagLoopback == 0 {
			return i.Name
		}
	}
	t.Skip("this host has no interface but the loopback")
	return ""
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

// freePort finds a port that nobody listens on. Somebody may by the time it is used.
func freePort(t *testing.T) uint16 {
	t.Helper()
	l, port := listen(t, "127.0.0.1:0")
	closeListener(t, l)
	return port
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
