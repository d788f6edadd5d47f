package nvml

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/heteroflow/node-agent/gpu/nvidia"
	"github.com/heteroflow/node-agent/gpu/nvidia/nvml/wire"
	"github.com/heteroflow/node-agent/gpu/tool"
	"github.com/heteroflow/node-agent/test/fakenvml"
)

var _ nvidia.Source = (*Client)(nil)

// cardsSeen asks for a round that must be good.
func cardsSeen(t *testing.T, c *Client) nvidia.Reading {
	t.Helper()
	r, err := c.Collect(t.Context())
	if err != nil || r.CollectorError != nil {
		t.Fatalf("%v, %v", r.CollectorError, err)
	}
	return r
}

// unavailable checks that an error passes the question on, with these words.
func unavailable(t *testing.T, err error, words string) {
	t.Helper()
	if !errors.As(err, new(*UnavailableError)) || !errors.Is(err, tool.ErrNotInstalled) {
		t.Fatalf("error %v does not pass the question on", err)
	}
	if !strings.Contains(err.Error(), words) {
		t.Errorf("error %q does not say %q", err, words)
	}
}

// gone checks that a process has ended.
func gone(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d is still there: %v", pid, err)
	}
}

func TestAHelperThatHangsIsEndedAtTheDeadlineAndReplaced(t *testing.T) {
	lib := fakenvml.Build(t)
	c := client(t, lib)
	c.limits.ask = 200 * time.Millisecond
	lib.Set("cards 2")
	cardsSeen(t, c)
	pid := c.session.proc.PID()
	lib.Set("cards 2", "hang 1")
	_, err := c.Collect(t.Context())
	unavailable(t, err, "no answer in time")
	gone(t, pid)
	lib.Set("cards 2")
	after(t, c)
	if r := cardsSeen(t, c); len(r.Devices) != 2 || c.session.proc.PID() == pid {
		t.Errorf("%d cards from process %d", len(r.Devices), c.session.proc.PID())
	}
}

// after waits until the pause after a failure is over.
func after(t *testing.T, c *Client) {
	t.Helper()
	select {
	case <-time.After(time.Until(c.next)):
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}

func TestAHelperThatDiesIsReplaced(t *testing.T) {
	lib := fakenvml.Build(t)
	c := client(t, lib)
	lib.Set("cards 2", "crash 1")
	_, err := c.Collect(t.Context())
	unavailable(t, err, "it ended with status")
	lib.Set("cards 2")
	after(t, c)
	cardsSeen(t, c)

	t.Run("also when it dies between two questions", func(t *testing.T) {
		if err := syscall.Kill(c.session.proc.PID(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-c.session.proc.Done()
		_, err := c.Collect(t.Context())
		unavailable(t, err, "it ended with status 137")
		after(t, c)
		cardsSeen(t, c)
	})
}

func TestWhileTheHelperDoesNotAnswerTheNextSourceDoes(t *testing.T) {
	lib := fakenvml.Build(t)
	lib.Set("cards 2", "crash 0")
	text := &counter{}
	d := nvidia.New(tool.NewReplay(), client(t, lib), text)
	if _, err := d.Collect(t.Context()); err != nil || text.asked != 1 {
		t.Errorf("the second source was asked %d times: %v", text.asked, err)
	}
}

// counter is a source that only counts.
type counter struct{ asked int }

func (c *counter) Inventory(ctx context.Context) (nvidia.Reading, error) { return c.Collect(ctx) }

func (c *counter) Collect(context.Context) (nvidia.Reading, error) {
	c.asked++
	return nvidia.Reading{}, nil
}

// script returns a helper that is a shell script.
func script(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "helper")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

const hello = `read line; echo '{"id":1,"result":{"protocol":1,"version":"script"}}'; `

func TestAHelperThatTalksNonsenseIsNotBelieved(t *testing.T) {
	for name, c := range map[string]struct{ body, words string }{
		"it is not there":               {"", "not installed"},
		"it ends at once":               {"echo no such luck >&2; exit 3", "status 3: no such luck"},
		"it says nothing":               {"read line; exec sleep 60", "no answer in time"},
		"it prints other things":        {"echo Welcome to the helper; read line", `answers "Welcome`},
		"it answers something else":     {`read line; echo '{"id":7,"result":{}}'`, "answers request 7"},
		"it is older":                   {`read line; echo '{"id":1,"result":{"protocol":0,"version":"0.1.0"}}'`, "version 0.1.0"},
		"it finds the agent older":      {`read line; echo '{"id":1,"error":{"code":"version_mismatch","message":"protocol 2 does not go with 1"}}'`, "does not go with"},
		"it does not know the question": {hello + `read line; echo '{"id":2,"error":{"code":"bad_request","message":"unknown method"}}'; read line`, "unknown method"},
		"its answer is of another kind": {hello + `read line; echo '{"id":2,"result":[1]}'; read line`, "its answer"},
		"its answer has no end":         {hello + `read line; yes | tr -d '\n'`, "token too long"},
		"its answer stops":              {hello + `read line; printf '{"id":2,'`, "answers"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{Path: filepath.Join(t.TempDir(), "absent")}
			if c.body != "" {
				cfg.Path = script(t, c.body)
			}
			nvml := started(t, cfg)
			nvml.limits.open, nvml.limits.ask = 10*time.Second, 10*time.Second
			if strings.Contains(c.body, "sleep") {
				nvml.limits.open = 300 * time.Millisecond
			}
			_, err := nvml.Collect(t.Context())
			unavailable(t, err, c.words)
			if nvml.session != nil {
				t.Error("the helper is kept")
			}
		})
	}
}

func TestAHelperThatKeepsDyingIsStartedLessAndLessOften(t *testing.T) {
	starts := filepath.Join(t.TempDir(), "starts")
	c := started(t, Config{Path: script(t, "echo x >>"+starts)})
	c.limits = limits{open: 10 * time.Second, ask: time.Second, firstPause: time.Hour, lastPause: 3 * time.Hour}
	for range 5 {
		_, err := c.Collect(t.Context())
		unavailable(t, err, "")
	}
	if raw, err := os.ReadFile(starts); err != nil || string(raw) != "x\n" {
		t.Errorf("starts: %q, %v", raw, err)
	}
	for failures, want := range []time.Duration{time.Hour, 2 * time.Hour, 3 * time.Hour, 3 * time.Hour} {
		if got := c.limits.pause(failures); got != want {
			t.Errorf("after %d failures: %s, want %s", failures, got, want)
		}
	}
	if got := defaults.pause(1 << 30); got != defaults.lastPause {
		t.Errorf("after very many: %s", got)
	}
}

func TestTheEndOfTheCallersTimeEndsTheQuestion(t *testing.T) {
	lib := fakenvml.Build(t)
	lib.Set("cards 1", "hang 0")
	c := client(t, lib)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	if _, err := c.Collect(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, tool.ErrNotInstalled) {
		t.Errorf("error %v", err)
	}
	lib.Set("cards 1")
	cardsSeen(t, c) // and without a pause
}

func TestALibraryThatIsNotThereOrNotWholePassesTheQuestionOn(t *testing.T) {
	log, logs := observer.New(zap.InfoLevel)
	c := started(t, Config{Path: helperPath(t), Library: "/nonexistent/libnvidia-ml.so.1", Log: zap.New(log)})
	for range 3 {
		_, err := c.Collect(t.Context())
		unavailable(t, err, "libnvidia-ml.so.1")
		after(t, c)
	}
	if c.session != nil {
		t.Error("a helper without a library is kept")
	}
	if n := logs.Len(); n != 1 {
		t.Errorf("%d log lines: %v", n, logs.All())
	}
	lib := fakenvml.Build(t, "nvmlDeviceGetCount_v2")
	lib.Set("cards 1")
	_, err := client(t, lib).Collect(t.Context())
	unavailable(t, err, "nvmlDeviceGetCount_v2")
}

func TestAReplacedLibraryIsLoadedAnew(t *testing.T) {
	lib, update := fakenvml.Build(t), fakenvml.Build(t)
	lib.Set("cards 1")
	c := client(t, lib)
	cardsSeen(t, c)
	pid := c.session.proc.PID()
	lib.Set("cards 1", "init 18")
	cardsSeen(t, c) // what is loaded does not notice
	if err := os.Rename(update.Path, lib.Path); err != nil {
		t.Fatal(err)
	}
	r, err := c.Collect(t.Context())
	if err != nil || r.CollectorError == nil || r.CollectorError.Code != "lib_rm_version_mismatch" {
		t.Fatalf("%+v, %v", r.CollectorError, err)
	}
	gone(t, pid)
}

func TestXidsOutliveTheHelperThatSawThem(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "replaced")
	c := started(t, Config{Path: script(t, hello+`read line
if mkdir `+mark+`; then
  echo '{"id":2,"error":{"code":"stale","message":"other cards","xids":[{"code":79,"bus_id":"00000000:21:00.0"}]}}'
else
  echo '{"id":2,"result":{"cards":[{"index":0,"uuid":"GPU-1"}],"xids":[{"code":31}]}}'
fi
read line`)})
	r := cardsSeen(t, c)
	if len(r.Events) != 2 || *r.Events[0].Code != 79 || *r.Events[1].Code != 31 {
		t.Errorf("%+v", r.Events)
	}
}

func TestAHelperThatAlwaysWantsToBeReplacedIsNot(t *testing.T) {
	starts := filepath.Join(t.TempDir(), "starts")
	c := started(t, Config{Path: script(t, "echo x >>"+starts+"; "+hello+
		`read line; echo '{"id":2,"error":{"code":"stale","message":"other cards"}}'; read line`)})
	_, err := c.Collect(t.Context())
	unavailable(t, err, "other cards")
	if raw, err := os.ReadFile(starts); err != nil || string(raw) != "x\nx\n" {
		t.Errorf("starts: %q, %v", raw, err)
	}
}

func TestQuestionsQueue(t *testing.T) {
	lib := fakenvml.Build(t)
	lib.Set("cards 8")
	c := client(t, lib)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 5 {
				if r, err := c.Collect(t.Context()); err != nil || len(r.Devices) != 8 {
					t.Errorf("%d cards, %v", len(r.Devices), err)
				}
			}
		})
		wg.Go(func() {
			if _, err := c.CDI(t.Context(), wire.CDIParams{Hook: "/nonexistent"}); err == nil {
				t.Error("a spec without the hook")
			}
		})
	}
	wg.Wait()
}

func TestACDISpecThatCannotBeMadeSaysWhatIsMissing(t *testing.T) {
	lib := fakenvml.Build(t)
	lib.Set("cards 1")
	c := client(t, lib)
	_, err := c.CDI(t.Context(), wire.CDIParams{Hook: "/nonexistent/nvidia-cdi-hook"})
	if err == nil || !strings.Contains(err.Error(), "/nonexistent/nvidia-cdi-hook") || errors.Is(err, tool.ErrNotInstalled) {
		t.Errorf("error %v", err)
	}
	cardsSeen(t, c) // the helper is as well as before
}

func TestTheHelperIsFoundBesideTheAgent(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	beside := filepath.Join(filepath.Dir(self), Program)
	c := New(Config{})
	if got := c.path(); got != Program {
		t.Errorf("without one: %s", got)
	}
	if err := os.WriteFile(beside, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(beside) })
	if got := c.path(); got != beside {
		t.Errorf("with one: %s", got)
	}
}

func TestAnAgentInAContainerNamesTheHostsRoot(t *testing.T) {
	args := filepath.Join(t.TempDir(), "args")
	c := started(t, Config{Path: script(t, fmt.Sprintf("echo $@ >%s", args)), HostRoot: "/host"})
	_, err := c.Collect(t.Context())
	unavailable(t, err, "")
	if raw, err := os.ReadFile(args); err != nil || string(raw) != "-root /host\n" {
		t.Errorf("%q, %v", raw, err)
	}
}
