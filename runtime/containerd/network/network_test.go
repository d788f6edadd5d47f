package network_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/containerd/network"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const bridge = "hf-net-test"

var pluginDirs = []string{"/usr/lib/cni", "/opt/cni/bin"}

func newNetwork(t *testing.T) (*network.Network, network.Config) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("networks can be made by root only")
	}
	if _, err := exec.LookPath("iptables"); err != nil {
		t.Skip("the plugins need iptables: ", err)
	}
	if !slices.ContainsFunc(pluginDirs, func(dir string) bool { _, err := os.Stat(filepath.Join(dir, "bridge")); return err == nil }) {
		t.Skip("the CNI plugins are not installed: apt-get install containernetworking-plugins")
	}
	c := network.Config{PluginDirs: pluginDirs, RunDir: t.TempDir(), Bridge: bridge, Subnet: netip.MustParsePrefix("10.213.240.0/29")}
	n, err := network.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ids, err := n.IDs()
		for _, id := range ids {
			err = errors.Join(err, n.Down(context.Background(), id))
		}
		if err != nil {
			t.Error(err)
		}
		if out, err := exec.Command("ip", "link", "delete", bridge).CombinedOutput(); err != nil && !strings.Contains(string(out), "Cannot find device") {
			t.Errorf("delete bridge: %v: %s", err, out)
		}
	})
	return n, c
}

// ours is a packet filter rule of this test's: other agents' networks on the machine, as another
// test's that runs meanwhile, have other subnets and other containers.
var ours = regexp.MustCompile(`10\.213\.240\.|id: \\?"(one|c[0-9])\\?"`)

// traces is everything a container's network leaves on the host: packet filter rules,
// interfaces on the bridge, leased addresses, namespaces and cached results.
func traces(t *testing.T, c network.Config) []string {
	t.Helper()
	var found []string
	rules, err := exec.Command("iptables-save").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(rules)) {
		if ours.MatchString(line) {
			found = append(found, line)
		}
	}
	ports, err := filepath.Glob("/sys/class/net/" + bridge + "/brif/*")
	if err != nil {
		t.Fatal(err)
	}
	found = append(found, ports...)
	for _, pattern := range []string{"netns/*", "ipam/heteroflow/10.*", "cni/results/*"} {
		files, err := filepath.Glob(filepath.Join(c.RunDir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, files...)
	}
	return found
}

// wantLeft waits until there is no more than before: the kernel takes down what is in a network
// namespace some time after the last name of it is gone.
func wantLeft(t *testing.T, c network.Config, before []string) {
	t.Helper()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(time.Minute); ; <-again.C {
		after := traces(t, c)
		if slices.Equal(after, before) {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("left behind: %q", after)
			return
		}
	}
}

func TestUpAndDownLeaveNothing(t *testing.T) {
	n, c := newNetwork(t)
	before := traces(t, c)
	ports := []runtime.Port{{Container: 80, Host: 28080, Protocol: "tcp"}, {Container: 53, Host: 28053, Protocol: "udp"}}
	ip, err := n.Up(t.Context(), "one", ports)
	if err != nil {
		t.Fatal(err)
	}
	if !c.Subnet.Contains(ip) {
		t.Errorf("address %s is not in %s", ip, c.Subnet)
	}
	if up := traces(t, c); len(up) < len(before)+5 {
		t.Errorf("while it is up there is only %q: the test sees too little", up)
	}
	for range 2 {
		if err := n.Down(t.Context(), "one"); err != nil {
			t.Fatal(err)
		}
	}
	wantLeft(t, c, before)
}

// inNamespace runs a program in a network namespace.
func inNamespace(t *testing.T, path string, program ...string) {
	t.Helper()
	if out, err := exec.Command("nsenter", append([]string{"--net=" + path}, program...)...).CombinedOutput(); err != nil {
		t.Fatalf("%q: %v: %s", program, err, out)
	}
}

func TestWhatACrashLeftIsTakenDown(t *testing.T) {
	cases := map[string]func(t *testing.T, n *network.Network, c network.Config){
		"the results were not written yet": func(t *testing.T, _ *network.Network, c network.Config) {
			if err := os.RemoveAll(filepath.Join(c.RunDir, "cni")); err != nil {
				t.Fatal(err)
			}
		},
		"the results were half written": func(t *testing.T, _ *network.Network, c network.Config) {
			files, err := filepath.Glob(filepath.Join(c.RunDir, "cni/results/*"))
			if err != nil || len(files) != 1 {
				t.Fatal(files, err)
			}
			if err := os.Truncate(files[0], 50); err != nil {
				t.Fatal(err)
			}
		},
		"somebody removed the namespace": func(t *testing.T, n *network.Network, _ network.Config) {
			if err := errors.Join(unix.Unmount(n.Path("one"), unix.MNT_DETACH), os.Remove(n.Path("one"))); err != nil {
				t.Fatal(err)
			}
		},
		"somebody unmounted the namespace before the results were written": func(t *testing.T, n *network.Network, c network.Config) {
			if err := errors.Join(unix.Unmount(n.Path("one"), unix.MNT_DETACH), os.RemoveAll(filepath.Join(c.RunDir, "cni"))); err != nil {
				t.Fatal(err)
			}
		},
		"a teardown was cut off when interface and address were gone": func(t *testing.T, n *network.Network, c network.Config) {
			inNamespace(t, n.Path("one"), "ip", "link", "delete", "eth0")
			leases, err := filepath.Glob(filepath.Join(c.RunDir, "ipam/heteroflow/10.*"))
			if err != nil || len(leases) != 1 {
				t.Fatal(leases, err)
			}
			if err := os.Remove(leases[0]); err != nil {
				t.Fatal(err)
			}
		},
		"somebody changed the address": func(t *testing.T, n *network.Network, _ network.Config) {
			inNamespace(t, n.Path("one"), "ip", "address", "flush", "dev", "eth0")
			inNamespace(t, n.Path("one"), "ip", "address", "add", "10.213.240.6/29", "dev", "eth0")
		},
	}
	for name, crash := range cases {
		t.Run(name, func(t *testing.T) {
			n, c := newNetwork(t)
			before := traces(t, c)
			if _, err := n.Up(t.Context(), "one", []runtime.Port{{Container: 80, Host: 28080, Protocol: "tcp"}}); err != nil {
				t.Fatal(err)
			}
			crash(t, n, c)
			ids, err := n.IDs()
			if err != nil || !slices.Equal(ids, []string{"one"}) {
				t.Fatalf("found %v, %v", ids, err)
			}
			if err := n.Down(t.Context(), "one"); err != nil {
				t.Fatal(err)
			}
			wantLeft(t, c, before)
		})
	}
}

func TestASecondUpReplacesTheFirst(t *testing.T) {
	n, c := newNetwork(t)
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := n.Up(t.Context(), "one", nil); err != nil {
			t.Fatal(err)
		}
		if now, err := os.Readlink("/proc/self/ns/net"); err != nil || now != own {
			t.Fatalf("this process has moved from %s to %s, %v", own, now, err)
		}
	}
	if leases, err := filepath.Glob(filepath.Join(c.RunDir, "ipam/heteroflow/10.*")); err != nil || len(leases) != 1 {
		t.Errorf("leases: %v, %v, want one", leases, err)
	}
}

func TestAFailedUpLeavesNothing(t *testing.T) {
	n, c := newNetwork(t)
	before := traces(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := n.Up(ctx, "one", nil); err == nil {
		t.Fatal("no error")
	}
	// The subnet has 5 addresses; the 6th container gets none.
	var err error
	for i := 0; err == nil && i < 9; i++ {
		_, err = n.Up(t.Context(), fmt.Sprintf("c%d", i), nil)
	}
	if err == nil || !strings.Contains(err.Error(), "no IP addresses available") {
		t.Errorf("a full subnet: %v", err)
	}
	ids, idsErr := n.IDs()
	if idsErr != nil || len(ids) != 5 {
		t.Errorf("%d containers have a network, %v, want the 5 that were given one", len(ids), idsErr)
	}
	for _, id := range ids {
		if err := n.Down(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	wantLeft(t, c, before)
}

func TestManyAtOnceGetDifferentAddresses(t *testing.T) {
	n, _ := newNetwork(t)
	var mu sync.Mutex
	seen := map[netip.Addr]bool{}
	var wg sync.WaitGroup
	for i := range 5 {
		wg.Go(func() {
			ip, err := n.Up(t.Context(), fmt.Sprintf("c%d", i), []runtime.Port{{Container: 80, Host: uint16(28100 + i), Protocol: "tcp"}})
			mu.Lock()
			defer mu.Unlock()
			if err != nil || seen[ip] {
				t.Errorf("c%d: %s, %v", i, ip, err)
			}
			seen[ip] = true
		})
	}
	wg.Wait()
}

func TestAPublishedPortReachesTheNamespace(t *testing.T) {
	n, _ := newNetwork(t)
	if _, err := n.Up(t.Context(), "one", []runtime.Port{{Container: 80, Host: 28081, Protocol: "tcp"}}); err != nil {
		t.Fatal(err)
	}
	// A stranger's listener in the container's namespace: this test binary, re-executed.
	server := exec.CommandContext(t.Context(), "nsenter", "--net="+n.Path("one"), os.Args[0], "-test.run=^TestHelperServe$")
	server.Env = append(os.Environ(), "HF_TEST_SERVE=0.0.0.0:80")
	ready, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Process.Kill(); _ = server.Wait() }()
	if _, err := ready.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", "127.0.0.1:28081")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	answer := make([]byte, 16)
	if k, err := conn.Read(answer); err != nil || string(answer[:k]) != "hello" {
		t.Errorf("got %q, %v", answer[:k], err)
	}
}

// TestHelperServe is no test: it is the listener of the one above.
func TestHelperServe(t *testing.T) {
	address := os.Getenv("HF_TEST_SERVE")
	if address == "" {
		t.Skip("only run by TestAPublishedPortReachesTheNamespace")
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stdout.WriteString("r"); err != nil {
		t.Fatal(err)
	}
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_, err = conn.Write([]byte("hello"))
	if err := errors.Join(err, conn.Close(), l.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestAPortThatIsTakenIsRefused(t *testing.T) {
	n, c := newNetwork(t)
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tcp.Close() }()
	udp, err := net.ListenPacket("udp6", "[::]:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = udp.Close() }()
	before := traces(t, c)
	tcpPort := netip.MustParseAddrPort(tcp.Addr().String()).Port()
	udpPort := netip.MustParseAddrPort(udp.LocalAddr().String()).Port()
	for _, port := range []runtime.Port{{Container: 80, Host: tcpPort, Protocol: "tcp"}, {Container: 80, Host: udpPort, Protocol: "udp"}} {
		if _, err := n.Up(t.Context(), "one", []runtime.Port{port}); !errors.Is(err, network.ErrPortTaken) {
			t.Errorf("%+v: got %v", port, err)
		}
	}
	wantLeft(t, c, before)

	shared := []runtime.Port{{Container: 80, Host: 28090, Protocol: "tcp"}}
	var wg sync.WaitGroup
	errs := make([]error, 2)
	for i := range errs {
		wg.Go(func() { _, errs[i] = n.Up(t.Context(), fmt.Sprintf("c%d", i), shared) })
	}
	wg.Wait()
	if won, lost := errors.Join(errs...) != nil, errs[0] == nil || errs[1] == nil; !won || !lost {
		t.Errorf("two containers at once: got %v, want one of them to be refused", errs)
	}
	if _, err := n.Up(t.Context(), "c2", []runtime.Port{{Container: 80, Host: 28090, Protocol: "udp"}}); err != nil {
		t.Errorf("the same number of another protocol: %v", err)
	}
}

func TestAMissingPluginIsNamedWithItsPackage(t *testing.T) {
	n, err := network.New(network.Config{PluginDirs: []string{t.TempDir()}, RunDir: t.TempDir(), Bridge: bridge, Subnet: netip.MustParsePrefix("10.213.240.0/29")})
	if err != nil {
		t.Fatal(err)
	}
	_, err = n.Up(t.Context(), "one", nil)
	if !errors.Is(err, network.ErrPluginMissing) || !strings.Contains(err.Error(), "containernetworking-plugins") {
		t.Errorf("got %v", err)
	}
	if ids, err := n.IDs(); err != nil || len(ids) != 0 {
		t.Errorf("left behind: %v, %v", ids, err)
	}
}

func TestNewRefusesWhatCannotBeANetwork(t *testing.T) {
	good := network.Config{RunDir: t.TempDir(), Bridge: bridge, Subnet: netip.MustParsePrefix("10.213.240.0/29")}
	for name, spoil := range map[string]func(*network.Config){
		"no subnet":      func(c *network.Config) { c.Subnet = netip.Prefix{} },
		"an IPv6 subnet": func(c *network.Config) { c.Subnet = netip.MustParsePrefix("fd00::/64") },
		"one address":    func(c *network.Config) { c.Subnet = netip.MustParsePrefix("10.0.0.1/32") },
		"no bridge name": func(c *network.Config) { c.Bridge = "" },
		"a long name":    func(c *network.Config) { c.Bridge = "sixteen-letters-" },
	} {
		c := good
		spoil(&c)
		if _, err := network.New(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
