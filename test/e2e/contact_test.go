package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/heteroflow/node-agent/devserver"
	"github.com/heteroflow/node-agent/devserver/faults"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/test/cluster"
	"github.com/heteroflow/node-agent/test/stage"
)

// sockets returns the listening sockets of a process, as lines of the kernel's tables.
func sockets(t *testing.T, pid int) []string {
	t.Helper()
	dir := "/proc/" + strconv.Itoa(pid)
	inodes := make(map[string]bool)
	fds, err := os.ReadDir(dir + "/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		link, err := os.Readlink(filepath.Join(dir, "fd", fd.Name()))
		if inode, ok := strings.CutPrefix(link, "socket:["); err == nil && ok {
			inodes[strings.TrimSuffix(inode, "]")] = true
		}
	}
	if len(inodes) == 0 {
		t.Fatal("the process has no socket at all: nothing was looked at")
	}
	var listening []string
	// Where the inode stands, and by which value of which field a listener is known:
	// TCP_LISTEN; an unconnected UDP socket; a unix socket with __SO_ACCEPTCON.
	tables := map[string]struct {
		inode, field int
		value        string
	}{
		"tcp": {9, 3, "0A"}, "tcp6": {9, 3, "0A"}, "udp": {9, 3, "07"}, "udp6": {9, 3, "07"}, "unix": {6, 3, "00010000"},
	}
	for name, at := range tables {
		table, err := os.ReadFile(dir + "/net/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(table)) {
			f := strings.Fields(line)
			if len(f) > at.inode && inodes[f[at.inode]] && f[at.field] == at.value {
				listening = append(listening, name+": "+line)
			}
		}
	}
	return listening
}

func TestTheAgentListensOnNothing(t *testing.T) {
	w := newWorld(t, devserver.Features{})
	w.Start()
	id := w.Agent.NodeID
	w.Submit(w.Task(id, "train", "--steps", "100000", "--checkpoint-dir", "/tmp"))
	w.Prints(id, "step 2")
	if got := sockets(t, w.Agent.PID()); len(got) != 0 {
		t.Errorf("listening sockets of the agent: %q", got)
	}
	// The same look finds the control plane's in this process: it can see one.
	if got := sockets(t, os.Getpid()); len(got) == 0 {
		t.Error("not even the control plane's own socket was found")
	}
	w.Act(id, "stop")
	w.Gone(id)
}

func TestNoSecretIsWrittenAnywhere(t *testing.T) {
	w := newWorld(t, devserver.Features{})
	w.Start()
	id := w.Agent.NodeID
	w.Submit(w.Task(id+"-ok", "exit", "0"))
	w.Reaches(id+"-ok", protocol.StatusCompleted)
	w.Gone(id + "-ok")
	// Errors with the key in reach: refused calls, broken answers, a denied pull.
	w.Plane.Faults.Add(faults.Fault{Kind: faults.HTMLPage, Status: 502, Count: 2, Match: fromAgent})
	w.Plane.Faults.Add(faults.Fault{Kind: faults.Reset, Count: 2, Match: fromAgent})
	denied := w.Task(id+"-denied", "exit", "0")
	denied.Image = shared.Images().Ref("heteroflow/other:v1")
	denied.RegistryAuth = &protocol.RegistryAuth{Username: "nobody", Password: "wrong-MARK"}
	w.Submit(denied)
	w.Reaches(id+"-denied", protocol.StatusFailed)

	pid := strconv.Itoa(w.Agent.PID())
	for _, name := range []string{"cmdline", "environ"} {
		data, err := os.ReadFile("/proc/" + pid + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(data, []byte("MARK")) {
			t.Errorf("a secret in the agent's %s", name)
		}
	}
	printed := command(w, 0, "config", "print")
	if strings.Contains(printed, "MARK") || !strings.Contains(printed, "key_file") {
		t.Errorf("config print:\n%s", printed)
	}
	w.Gone(id + "-denied")
	if err := w.Agent.Stop(); err != nil {
		t.Fatal(err)
	}
	files := 0
	err := filepath.WalkDir(w.Agent.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path == w.Agent.KeyFile() || strings.HasPrefix(d.Name(), "plane.db") {
			return err
		}
		files++
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte("MARK")) {
			t.Errorf("a secret in %s", path)
		}
		return err
	})
	if err != nil || files < 2 {
		t.Fatalf("%d files looked at, %v", files, err)
	}
}

// command runs another command of the agent's binary with the same settings.
func command(w *cluster.World, wantCode int, args ...string) string {
	w.T.Helper()
	args = append(args, "--set", "server.url="+w.Agent.Server, "--set", "server.key_file="+w.Agent.KeyFile(), "--set", "state_dir="+w.Agent.StateDir())
	out, code := run(w.T, args...)
	if code != wantCode {
		w.T.Fatalf("%v: exit code %d, want %d\n%s", args, code, wantCode, out)
	}
	return out
}

func run(t *testing.T, args ...string) (output string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), shared.Binary(), args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func TestARefusedKeyIsOneErrorLineAndHealsWhenTheServerIsCorrected(t *testing.T) {
	w := newWorld(t, devserver.Features{})
	if err := w.Plane.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := w.Plane.Start(t.Context(), "the-wrong-key-0123456789"); err != nil {
		t.Fatal(err)
	}
	refused := w.Plane.Faults.Add(faults.Fault{Kind: faults.Delay, Match: fromAgent}) // counts, and delays by nothing
	w.Start()
	w.Eventually("the agent notices", func() bool { return strings.Contains(w.Agent.Log(), "refuses the system key") })
	w.Eventually("more calls are refused", func() bool { return refused.Hits() >= 8 })
	if n := strings.Count(w.Agent.Log(), `"level":"error"`); n != 1 {
		t.Errorf("%d error lines", n)
	}
	if err := w.Plane.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := w.Plane.Start(t.Context(), stage.SystemKey); err != nil {
		t.Fatal(err)
	}
	w.Beats("the key accepted", func(hb protocol.Heartbeat) bool { return hb.NodeID == w.Agent.NodeID })
	w.Submit(w.Task(w.Agent.NodeID, "exit", "0"))
	w.Reaches(w.Agent.NodeID, protocol.StatusCompleted)
	w.Gone(w.Agent.NodeID)
}

// fromAgent matches the requests of agents.
func fromAgent(r *http.Request) bool { return !strings.HasPrefix(r.URL.Path, "/api/v1/operator") }

func TestALostClaimIsLeftToTheWinner(t *testing.T) {
	w := newWorld(t, devserver.Features{NoWake: true})
	lost := w.Plane.Faults.Add(faults.Fault{Kind: faults.Status, Status: http.StatusConflict, Method: http.MethodPut, Count: 2})
	w.Start()
	w.Submit(w.Task(w.Agent.NodeID, "exit", "0"))
	w.Eventually("two claims are lost", func() bool {
		if len(w.Containers()) != 0 && lost.Hits() < 2 {
			t.Fatal("a container was made for a lost claim")
		}
		return lost.Hits() == 2
	})
	w.Reaches(w.Agent.NodeID, protocol.StatusCompleted)
	w.Gone(w.Agent.NodeID)
}

func TestBadWeatherAtTheControlPlaneLosesNothing(t *testing.T) {
	kinds := map[string]faults.Fault{
		"error 500":          {Kind: faults.Status, Status: http.StatusInternalServerError},
		"429 Retry-After":    {Kind: faults.Status, Status: http.StatusTooManyRequests, RetryAfter: "1"},
		"web pages":          {Kind: faults.HTMLPage},
		"web pages with 404": {Kind: faults.HTMLPage, Status: http.StatusNotFound},
		"garbage":            {Kind: faults.Garbage},
		"half an answer":     {Kind: faults.HalfClose},
		"lost answers":       {Kind: faults.DropResponse},
		"closed connections": {Kind: faults.Reset},
	}
	for name, fault := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, devserver.Features{})
			w.Start()
			w.Submit(w.Task(w.Agent.NodeID, "train", "--steps", "10", "--checkpoint-dir", "/tmp"))
			w.Prints(w.Agent.NodeID, "step 1")
			fault.Match, fault.Count = fromAgent, 25
			storm := w.Plane.Faults.Add(fault)
			w.Eventually("the storm has passed", func() bool { return storm.Hits() == fault.Count })
			done := w.Reaches(w.Agent.NodeID, protocol.StatusCompleted)
			if *done.Outcome.ExitCode != 0 || !strings.Contains(done.Outcome.LogTail, "step 10") {
				t.Errorf("%+v", done.Outcome)
			}
			w.Gone(w.Agent.NodeID)
			terminal := 0
			events, err := w.Plane.Operator.History(t.Context(), w.Agent.NodeID)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range events {
				if e.To.Terminal() {
					terminal++
				}
			}
			if terminal != 1 {
				t.Errorf("%d terminal transitions: %+v", terminal, events)
			}
		})
	}
}

func TestAnUndeliveredResultKeepsItsContainerAndSurvivesARestart(t *testing.T) {
	w := newWorld(t, devserver.Features{}, "report.attempts=2", "report.budget=1s")
	w.Start()
	id := w.Agent.NodeID
	down := w.Plane.Faults.Add(faults.Fault{
		Kind: faults.Status, Status: http.StatusServiceUnavailable, Method: http.MethodPut,
		Skip: 1, // the claim passes
	})
	w.Submit(w.Task(id, "exit", "--message", "kept for later", "7"))
	w.Eventually("the result is owed", func() bool { return strings.Contains(w.Agent.Log(), "result not delivered") })
	if c := w.Container(id); c.State.Alive() {
		t.Fatalf("%+v", c)
	}
	w.Agent.Kill()
	if entries, err := os.ReadDir(w.Agent.StateDir() + "/results"); err != nil || len(entries) != 1 {
		t.Fatalf("journal: %v, %v", entries, err)
	}
	w.Start()
	w.Beats("a result owed", func(hb protocol.Heartbeat) bool { return hb.UndeliveredResults != nil && *hb.UndeliveredResults == 1 })
	down.Remove()
	failed := w.Reaches(id, protocol.StatusFailed)
	if *failed.Outcome.ExitCode != 7 || !strings.Contains(failed.Outcome.LogTail, "kept for later") {
		t.Errorf("%+v", failed.Outcome)
	}
	w.Gone(id)
}

// switchboard is a unix socket that leads the world's agent to its daemon once it is opened.
func switchboard(w *cluster.World, socket string) (open func()) {
	return func() {
		w.T.Helper()
		listener, err := (&net.ListenConfig{}).Listen(w.T.Context(), "unix", socket)
		if err != nil {
			w.T.Fatal(err)
		}
		var calls sync.WaitGroup
		calls.Go(func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				calls.Go(func() { connect(w.T.Context(), conn, w.Runtime.Socket) })
			}
		})
		w.T.Cleanup(func() {
			w.Agent.Kill() // the calls are its
			listener.Close()
			calls.Wait()
		})
	}
}

func connect(ctx context.Context, conn net.Conn, target string) {
	defer conn.Close()
	to, err := (&net.Dialer{}).DialContext(ctx, "unix", target)
	if err != nil {
		return
	}
	defer to.Close()
	go func() { _, _ = io.Copy(to, conn); to.Close() }()
	_, _ = io.Copy(conn, to)
}

func TestARuntimeThatIsAbsentAtStartIsPickedUpWhenItAppears(t *testing.T) {
	w := newWorld(t, devserver.Features{})
	socket := filepath.Join(w.Agent.Dir, "docker.sock")
	open := switchboard(w, socket)
	w.Agent.Set = append(w.Agent.Set, "runtime.docker_host=unix://"+socket)
	w.Start()
	w.Submit(w.Task(w.Agent.NodeID, "exit", "0"))
	hb := w.Beats("no runtime", func(hb protocol.Heartbeat) bool { return hb.Runtime != nil })
	if hb.DockerAvailable || hb.ExecMode != protocol.ExecBareMetal || hb.Runtime.Error == "" || hb.ErrorMessage == "" || hb.LiveTaskIDs != nil {
		t.Errorf("without a runtime: %+v", hb)
	}
	w.Beats("more of them", func(hb protocol.Heartbeat) bool { return hb.Sequence > 3 })
	if task, err := w.Plane.Operator.Task(t.Context(), w.Agent.NodeID); err != nil || task.Status != protocol.StatusScheduled {
		t.Errorf("the task is %s, %v: it must not be claimed", task.Status, err)
	}
	open()
	w.Beats("a runtime", func(hb protocol.Heartbeat) bool {
		return hb.DockerAvailable && hb.ExecMode == protocol.ExecDocker && hb.ErrorMessage == ""
	})
	w.Reaches(w.Agent.NodeID, protocol.StatusCompleted)
	w.Gone(w.Agent.NodeID)
}

func TestTheBinaryIsStaticAndSaysWhatItIs(t *testing.T) {
	shared.Prepare(t)
	out, err := exec.CommandContext(t.Context(), "file", shared.Binary()).Output()
	if err != nil {
		t.Skipf("the file command is not here: %v", err)
	}
	if !bytes.Contains(out, []byte("statically linked")) {
		t.Errorf("%s", out)
	}
	if got, code := run(t, "version"); code != 0 || !strings.Contains(got, "heteroflow-agent dev (commit unknown, built unknown") {
		t.Errorf("a bare build says %q", got)
	}
}

func TestConfigurationErrorsComeAllAtOnceWithExitCode2(t *testing.T) {
	shared.Prepare(t)
	file := filepath.Join(t.TempDir(), "agent.yaml")
	if err := os.WriteFile(file, []byte("server: {url: nonsense}\nheartbeat: {period: 5}\nunknown: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"run"}, {"config", "check"}, {"config", "print"}} {
		out, code := run(t, append(command, "--config", file)...)
		if code != 2 {
			t.Errorf("%v: exit code %d", command, code)
		}
		for _, want := range []string{"server.url", "needs a unit", "unknown: no such setting"} {
			if !strings.Contains(out, want) {
				t.Errorf("%v does not say %q:\n%s", command, want, out)
			}
		}
	}
	if out, code := run(t, "frobnicate"); code != 2 || !strings.Contains(out, "unknown command") {
		t.Errorf("an unknown command: %d, %s", code, out)
	}
}

func TestStatusSaysHowTheAgentIs(t *testing.T) {
	w := newWorld(t, devserver.Features{})
	if out := command(w, 1, "status"); !strings.Contains(out, "no agent has run") {
		t.Errorf("before the first start: %s", out)
	}
	w.Start()
	w.Beats("a runtime", func(hb protocol.Heartbeat) bool { return hb.DockerAvailable })
	w.Eventually("status is good", func() bool {
		out, code := run(t, "status", "--set", "state_dir="+w.Agent.StateDir())
		return code == 0 && strings.Contains(out, "docker ") && strings.Contains(out, "(configured)") && strings.Contains(out, w.Agent.NodeID)
	})
	w.Agent.Kill()
	if out := command(w, 1, "status"); !strings.Contains(out, "does not run") {
		t.Errorf("after a kill: %s", out)
	}
}

func TestTheFirstHeartbeatRegistersANodeThatCanBeRead(t *testing.T) {
	w := newWorld(t, devserver.Features{})
	w.Start()
	// Its address is that of the heartbeat before.
	hb := w.Beats("host metrics", func(hb protocol.Heartbeat) bool {
		return hb.Sequence > 1 && hb.CPUUsagePercent != nil && hb.DockerAvailable
	})
	if hb.Hostname == "" || hb.BootID == "" || hb.InstanceID == "" || hb.MemoryTotalBytes == nil || len(hb.Disks) == 0 || hb.InternalIP != "127.0.0.1" || hb.AgentVersion != "dev" {
		data, _ := json.Marshal(hb)
		t.Errorf("%s", data)
	}
	if !slices.ContainsFunc(hb.Disks, func(d protocol.Disk) bool { return d.FreeBytes > 0 }) {
		t.Errorf("disks: %+v", hb.Disks)
	}
}
