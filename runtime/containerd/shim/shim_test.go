package shim_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	cgroup1 "github.com/containerd/cgroups/v3/cgroup1/stats"
	taskv2 "github.com/containerd/containerd/api/runtime/task/v2"
	taskv3 "github.com/containerd/containerd/api/runtime/task/v3"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"github.com/containerd/ttrpc"
	"github.com/containerd/typeurl/v2"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/heteroflow/node-agent/runtime/containerd/shim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ended is when the task of the fake shims ended.
var ended = time.Date(2026, 11, 29, 12, 0, 0, 123456789, time.UTC)

// state is what the fake shims know: one task, its exit and its metrics.
type state struct {
	code    uint32
	metrics *anypb.Any
}

func (s state) wait(ctx context.Context, id string) error {
	switch id {
	case "task-1":
		return nil
	case "runs":
		<-ctx.Done()
		return ctx.Err()
	case "odd":
		return errors.New("the shim is not well")
	default:
		return errgrpc.ToGRPCf(errdefs.ErrNotFound, "container %s", id)
	}
}

// The fakes of both versions, on ttrpc's own server and the generated messages.
type fakeV2 struct {
	taskv2.TTRPCTaskService
	state
}

func (f fakeV2) Wait(ctx context.Context, r *taskv2.WaitRequest) (*taskv2.WaitResponse, error) {
	return &taskv2.WaitResponse{ExitStatus: f.code, ExitedAt: timestamppb.New(ended)}, f.wait(ctx, r.ID)
}

func (f fakeV2) Stats(ctx context.Context, r *taskv2.StatsRequest) (*taskv2.StatsResponse, error) {
	return &taskv2.StatsResponse{Stats: f.metrics}, f.wait(ctx, r.ID)
}

type fakeV3 struct {
	taskv3.TTRPCTaskService
	state
}

func (f fakeV3) Wait(ctx context.Context, r *taskv3.WaitRequest) (*taskv3.WaitResponse, error) {
	return &taskv3.WaitResponse{ExitStatus: f.code, ExitedAt: timestamppb.New(ended)}, f.wait(ctx, r.ID)
}

func (f fakeV3) Stats(ctx context.Context, r *taskv3.StatsRequest) (*taskv3.StatsResponse, error) {
	return &taskv3.StatsResponse{Stats: f.metrics}, f.wait(ctx, r.ID)
}

// versions are how the shims of containerd's releases are found and spoken to.
var versions = map[string]struct {
	file, content string
	register      func(*ttrpc.Server, state)
}{
	"1.6": {"address", "unix://SOCKET", registerV2},
	"1.7": {"bootstrap.json", `{"version":2,"address":"unix://SOCKET","protocol":"ttrpc"}`, registerV2},
	"2":   {"bootstrap.json", `{"version":3,"address":"unix://SOCKET","protocol":"ttrpc"}`, registerV3},
}

func registerV2(s *ttrpc.Server, what state) { taskv2.RegisterTTRPCTaskService(s, fakeV2{state: what}) }

func registerV3(s *ttrpc.Server, what state) { taskv3.RegisterTTRPCTaskService(s, fakeV3{state: what}) }

// listen returns a socket in a bundle that names it in the file.
func listen(t *testing.T, file, content string) (bundle string, l net.Listener) {
	t.Helper()
	bundle = t.TempDir()
	socket := filepath.Join(bundle, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // a server may have closed it
	if err := os.WriteFile(filepath.Join(bundle, file), []byte(strings.ReplaceAll(content, "SOCKET", socket)), 0o600); err != nil {
		t.Fatal(err)
	}
	return bundle, l
}

// dial connects, and lets go at the test's end.
func dial(t *testing.T, bundle string) *shim.Client {
	t.Helper()
	c, err := shim.Dial(t.Context(), bundle)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// eachVersion runs a test against a shim of each version.
func eachVersion(t *testing.T, what state, test func(*testing.T, *shim.Client)) {
	for name, version := range versions {
		t.Run(name, func(t *testing.T) {
			bundle, l := listen(t, version.file, version.content)
			server, err := ttrpc.NewServer()
			if err != nil {
				t.Fatal(err)
			}
			version.register(server, what)
			served := make(chan error, 1)
			go func() { served <- server.Serve(context.Background(), l) }()
			t.Cleanup(func() {
				if err := server.Close(); err != nil {
					t.Error(err)
				}
				if err := <-served; !errors.Is(err, ttrpc.ErrServerClosed) {
					t.Error(err)
				}
			})
			test(t, dial(t, bundle))
		})
	}
}

func TestAnExitIsReadAsTheShimTellsIt(t *testing.T) {
	for _, code := range []uint32{0, 7, 137, 1<<32 - 1} {
		eachVersion(t, state{code: code}, func(t *testing.T, c *shim.Client) {
			got, at, err := c.Wait(t.Context(), "task-1")
			if err != nil || got != int(code) || !at.Equal(ended) {
				t.Errorf("got %d at %v, %v, want %d at %v", got, at, err, code, ended)
			}
		})
	}
}

func TestATaskTheShimDoesNotKnowCanBeAskedForAgain(t *testing.T) {
	eachVersion(t, state{code: 3}, func(t *testing.T, c *shim.Client) {
		for range 3 {
			if _, _, err := c.Wait(t.Context(), "another"); !errdefs.IsNotFound(err) || !strings.Contains(err.Error(), "container another") {
				t.Errorf("got %v, want not found and the shim's words", err)
			}
		}
		if _, err := c.OOMKills(t.Context(), "another"); !errdefs.IsNotFound(err) {
			t.Errorf("metrics: got %v", err)
		}
		if code, _, err := c.Wait(t.Context(), "task-1"); err != nil || code != 3 {
			t.Errorf("afterwards: %d, %v", code, err)
		}
	})
}

func TestAnotherErrorOfTheShimIsNotTakenForNotFound(t *testing.T) {
	eachVersion(t, state{}, func(t *testing.T, c *shim.Client) {
		if _, _, err := c.Wait(t.Context(), "odd"); err == nil || errdefs.IsNotFound(err) || !strings.Contains(err.Error(), "the shim is not well") {
			t.Errorf("got %v", err)
		}
	})
}

func TestKillsForWantOfMemoryAreReadOutOfTheMetrics(t *testing.T) {
	metrics, err := typeurl.MarshalAnyToProto(&cgroup1.Metrics{MemoryOomControl: &cgroup1.MemoryOomControl{OomKill: 2}})
	if err != nil {
		t.Fatal(err)
	}
	eachVersion(t, state{metrics: metrics}, func(t *testing.T, c *shim.Client) {
		if got, err := c.OOMKills(t.Context(), "task-1"); err != nil || got != 2 {
			t.Errorf("got %d, %v, want 2", got, err)
		}
	})
	eachVersion(t, state{}, func(t *testing.T, c *shim.Client) {
		if got, err := c.OOMKills(t.Context(), "task-1"); err == nil {
			t.Errorf("without metrics: got %d and no error", got)
		}
	})
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	eachVersion(t, state{}, func(t *testing.T, c *shim.Client) {
		ctx, cancel := context.WithCancel(t.Context())
		waited := make(chan error, 1)
		go func() {
			_, _, err := c.Wait(ctx, "runs")
			waited <- err
		}()
		cancel()
		if err := <-waited; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

func TestAShimThatSpeaksSomethingElseIsAnError(t *testing.T) {
	head := func(length, stream, kind byte) string {
		return string([]byte{0, 0, 0, length, 0, 0, 0, stream, kind, 0})
	}
	cases := map[string]string{
		"nothing":                   "",
		"half a head":               head(0, 1, 2)[:5],
		"a head without its answer": head(9, 1, 2),
		"an answer to another call": head(0, 3, 2),
		"a request":                 head(0, 1, 1),
		"a frame without bound":     "\x7f" + head(0, 1, 2)[1:],
		"no message":                head(1, 1, 2) + "\xff",
		"a status that is none":     head(3, 1, 2) + "\x0a\x01\xff",
		"an exit that is none":      head(3, 1, 2) + "\x12\x01\xff",
		"a time that is none":       head(5, 1, 2) + "\x12\x03\x12\x01\xff",
	}
	for name, answer := range cases {
		t.Run(name, func(t *testing.T) {
			bundle, l := listen(t, "address", "SOCKET\n")
			answered := make(chan error, 1)
			go func() { answered <- answerOnce(l, answer) }()
			_, _, err := dial(t, bundle).Wait(t.Context(), "task-1")
			if err == nil || errdefs.IsNotFound(err) {
				t.Errorf("got %v", err)
			}
			if err := <-answered; err != nil {
				t.Error(err)
			}
		})
	}
}

func answerOnce(l net.Listener, answer string) error {
	conn, err := l.Accept()
	if err != nil {
		return err
	}
	_, readErr := conn.Read(make([]byte, 1024))
	_, err = conn.Write([]byte(answer))
	return errors.Join(readErr, err, conn.Close())
}

func TestABundleWithoutAShimThatCanBeReachedSaysWhatIsWrong(t *testing.T) {
	cases := map[string]struct{ file, content, want string }{
		"nothing":          {"other", "", "no such file"},
		"no JSON":          {"bootstrap.json", "{", "decode bootstrap.json"},
		"another protocol": {"bootstrap.json", `{"version":3,"address":"unix:///x","protocol":"grpc"}`, `"grpc"`},
		"nobody listens":   {"address", "unix:///nonexistent/socket", "dial shim"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			bundle := t.TempDir()
			if err := os.WriteFile(filepath.Join(bundle, tc.file), []byte(tc.content), 0o600); err != nil {
				t.Fatal(err)
			}
			c, err := shim.Dial(t.Context(), bundle)
			if err == nil {
				t.Fatal(c.Close())
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q in it", err, tc.want)
			}
		})
	}
}
