package gpus

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/agent/journal"
	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
	"github.com/heteroflow/node-agent/gpu/tool"
	"github.com/heteroflow/node-agent/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node is a machine whose one tool, mthreads-gmi, lists what cards says. With
// hangs set it does not answer before its deadline.
type node struct {
	mu    sync.Mutex
	cards string
	hangs bool
}

const twoCards = "GPU 0 : MTT S80 (UUID : 11111111-0000-4000-8000-0000000000a0)\n" +
	"GPU 1 : MTT S80 (UUID : 11111111-0000-4000-8000-0000000000a1)\n"

func (n *node) set(cards string, hangs bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cards, n.hangs = cards, hangs
}

func (n *node) Find(name string) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cards == "" || name != "mthreads-gmi" {
		return "", tool.ErrNotInstalled
	}
	return "/usr/bin/" + name, nil
}

func (n *node) Run(ctx context.Context, cmd tool.Command) (tool.Result, error) {
	n.mu.Lock()
	cards, hangs := n.cards, n.hangs
	n.mu.Unlock()
	if _, err := n.Find(cmd.Name); err != nil {
		return tool.Result{}, err
	}
	if hangs {
		ctx, cancel := context.WithTimeoutCause(ctx, tool.DefaultDeadline,
			&tool.TimeoutError{Argv: cmd.Argv(), Deadline: tool.DefaultDeadline})
		defer cancel()
		<-ctx.Done()
		return tool.Result{}, context.Cause(ctx)
	}
	return tool.Result{Argv: cmd.Argv(), Stdout: []byte(cards)}, nil
}

// start opens the state in dir and lets an inventory of n run.
func start(t *testing.T, n *node, dir string, fallback bool) (i *Inventory, stop func()) {
	t.Helper()
	j, err := journal.Open(dir, journal.Options{MachineID: "m"})
	if err != nil {
		t.Fatal(err)
	}
	i, err = New(Options{
		Machine: Machine{Runner: n, Sysfs: t.TempDir(), SeesAllCards: true},
		Period:  5 * time.Second, InventoryPeriod: time.Minute, Virtual: fallback, Journal: j, Log: zap.NewNop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { i.Run(ctx); close(done) }()
	return i, func() {
		cancel()
		<-done
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}
}

func indexes(r protocol.GPUReport) string {
	var list []string
	for _, d := range r.GPUs {
		list = append(list, string(d.Type)+d.UUID[max(0, len(d.UUID)-2):])
	}
	return strings.Join(list, " ")
}

func TestACardThatVanishesOverARestartIsMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		n := &node{cards: twoCards}
		i, stop := start(t, n, dir, true)
		<-i.Ready()
		if got := i.Report(); indexes(got) != "musaa0 musaa1" || len(got.GPUCollectFailures) != 0 {
			t.Fatalf("before: %+v", got)
		}
		stop()

		first, _, _ := strings.Cut(twoCards, "\n")
		n.set(first, false)
		i, stop = start(t, n, dir, true)
		defer stop()
		<-i.Ready()
		got := i.Report()
		if indexes(got) != "musaa0" || len(got.GPUCollectFailures) != 1 ||
			got.GPUCollectFailures[0].UUID != "11111111-0000-4000-8000-0000000000a1" ||
			got.GPUCollectFailures[0].Code != gpu.CodeMissing {
			t.Errorf("after: %+v", got)
		}
	})
}

func TestAHeartbeatDoesNotWaitForATool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{cards: twoCards, hangs: true}
		i, stop := start(t, n, t.TempDir(), true)
		defer stop()
		begin := time.Now()
		if got := i.Report(); got.GPUs != nil || got.GPUStats != nil || got.GPUCapabilities != nil {
			t.Errorf("before anyone has answered: %+v", got)
		}
		if waited := time.Since(begin); waited != 0 {
			t.Errorf("it took %s", waited)
		}
		n.set(twoCards, false)
		time.Sleep(30 * time.Second)
		if got := i.Report(); indexes(got) != "musaa0 musaa1" {
			t.Errorf("after the tool recovered: %+v", got)
		}
		n.set(twoCards, true)
		time.Sleep(8 * time.Second)
		if got := i.Report(); indexes(got) != "musaa0 musaa1" {
			t.Errorf("while the last values are young: %+v", got)
		}
		time.Sleep(30 * time.Second)
		if got := i.Report(); got.GPUs != nil || got.GPUStats != nil || !strings.HasPrefix(got.GPUCollectorError, "musa: tool_") {
			t.Errorf("when they are too old: %+v", got)
		}
	})
}

func TestANodeWithoutAcceleratorHasAVirtualDeviceIfItMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, may := range []bool{true, false} {
			i, stop := start(t, &node{}, t.TempDir(), may)
			<-i.Ready()
			got := i.Report()
			stop()
			if got.GPUs == nil || got.GPUStats != nil || (indexes(got) == "virtual-0") != may {
				t.Errorf("may have one: %t, got %+v", may, got)
			}
		}
	})
}

func TestInContainer(t *testing.T) {
	docker, podman := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(docker, ".dockerenv"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(podman, "run"), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(podman, "run", ".containerenv"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		root, variable string
		want           bool
	}{
		"a host":             {t.TempDir(), "", false},
		"Docker":             {docker, "", true},
		"Podman":             {podman, "", true},
		"systemd-nspawn":     {t.TempDir(), "container", true},
		"a pod":              {t.TempDir(), "KUBERNETES_SERVICE_HOST", true},
		"some other setting": {t.TempDir(), "PATH", false},
	} {
		t.Run(name, func(t *testing.T) {
			env := func(key string) string {
				if key == c.variable {
					return "set"
				}
				return ""
			}
			if got := inContainer(c.root, env); got != c.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// Each vendor's expressions are compiled when they are first used; all of them are here.
func TestEveryPatternOfEveryVendorCompiles(t *testing.T) {
	if err := text.CompileAll(); err != nil {
		t.Fatal(err)
	}
}
