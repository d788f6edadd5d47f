package daemon

import (
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// listen answers the first byte on every connection to a new socket with answer and keeps it open
// until the test ends; with no answer it is a daemon that hangs.
func listen(t *testing.T, answer string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	t.Cleanup(func() {
		listener.Close()
		running.Wait()
	})
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer conn.Close()
				_, _ = conn.Read(make([]byte, 1))   // a server answers what it was asked
				_, _ = io.WriteString(conn, answer) // the other side may be gone, which it notices itself
				_, _ = io.Copy(io.Discard, conn)    // ends with the connection
			})
		}
	})
	return path
}

// dead returns a socket file that nobody listens on.
func dead(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

const (
	httpOK       = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK"
	httpBroken   = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"
	grpcGreeting = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
)

func TestPingTellsADaemonFromWhatIsNone(t *testing.T) {
	tests := []struct {
		name   string
		socket func(t *testing.T) string
		docker string // part of the error; empty for an answer
		grpc   string
	}{
		{"Docker", func(t *testing.T) string { return listen(t, httpOK) }, "", "does not speak gRPC"},
		{"a Docker that is broken", func(t *testing.T) string { return listen(t, httpBroken) }, "500", "does not speak gRPC"},
		{"containerd", func(t *testing.T) string { return listen(t, grpcGreeting) }, "deadline exceeded", ""},
		{"a daemon that hangs", func(t *testing.T) string { return listen(t, "") }, "deadline exceeded", "timeout"},
		{"a socket that was left over", dead, "connection refused", "connection refused"},
		{"no socket", func(*testing.T) string { return "/nonexistent/s" }, "no such file", "no such file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			socket := tt.socket(t)
			ctx, cancel := context.WithTimeout(t.Context(), enough(tt.docker))
			defer cancel()
			wantError(t, "Docker", PingDocker(ctx, "unix://"+socket), tt.docker)
			ctx, cancel = context.WithTimeout(t.Context(), enough(tt.grpc))
			defer cancel()
			wantError(t, "containerd", PingContainerd(ctx, socket), tt.grpc)
		})
	}
}

// enough is how long a ping may take that ends as wanted: where it is time that ends it, not
// long.
func enough(want string) time.Duration {
	if want == "deadline exceeded" || want == "timeout" {
		return time.Second
	}
	return time.Minute
}

func wantError(t *testing.T, daemon string, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("asked as %s: %v, want %q", daemon, err, want)
	}
}

func TestDockerHostMustBeAUnixSocket(t *testing.T) {
	for _, host := range []string{"tcp://127.0.0.1:2375", "/var/run/docker.sock", "unix://relative"} {
		wantError(t, host, PingDocker(t.Context(), host), "only unix:///path")
	}
}

// recorder is a test that records how it ended. Skipf and Fatalf end the
// goroutine, as those of a real test do.
type recorder struct {
	testing.TB
	outcome string
}

func (r *recorder) Helper()                        {}
func (r *recorder) Skipf(format string, a ...any)  { r.end("skip: ", format, a) }
func (r *recorder) Fatalf(format string, a ...any) { r.end("fail: ", format, a) }
func (r *recorder) end(how, format string, a []any) {
	r.outcome = how + fmt.Sprintf(format, a...)
	runtime.Goexit()
}

// outcome runs require as a test of its own and returns how that ended.
func outcome(t *testing.T, require func(testing.TB) string) string {
	r := &recorder{TB: t}
	var ran sync.WaitGroup
	ran.Go(func() { r.outcome = "answers: " + require(r) })
	ran.Wait()
	return r.outcome
}

func TestRequireAnswersSkipsOrFails(t *testing.T) {
	tests := []struct {
		name     string
		docker   bool // else containerd
		there    bool
		required string
		want     string
	}{
		{"a Docker that is there", true, true, "", "answers: unix:///"},
		{"a Docker that is there and required", true, true, "1", "answers: unix:///"},
		{"no Docker", true, false, "", "skip: ask Docker at unix:///"},
		{"no Docker though it is required", true, false, "1", "fail: ask Docker at unix:///"},
		{"a containerd that is there", false, true, "", "answers: /"},
		{"no containerd", false, false, "", "skip: ask containerd at /"},
		{"no containerd though it is required", false, false, "1", "fail: ask containerd at /"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			socket, answer := "/nonexistent/s", grpcGreeting
			if tt.docker {
				answer = httpOK
			}
			if tt.there {
				socket = listen(t, answer)
			}
			require, required := RequireContainerd, RequireContainerdVariable
			t.Setenv(ContainerdVariable, socket)
			if tt.docker {
				require, required = RequireDocker, RequireDockerVariable
				t.Setenv(DockerVariable, "unix://"+socket)
			}
			t.Setenv(required, tt.required)
			if got := outcome(t, require); !strings.HasPrefix(got, tt.want) {
				t.Errorf("outcome %q, want it to start with %q", got, tt.want)
			}
		})
	}
}
