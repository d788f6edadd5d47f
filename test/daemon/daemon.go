// Package daemon tells tests whether the container daemon they need is there.
// The scripts beside it, docker.sh and containerd.sh, start one.
//
// It asks the unix socket in the daemon's own protocol and uses no client
// library. It starts nothing and runs no goroutine.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// The variables that choose a daemon and turn its absence into a failure, which
// continuous integration sets so that no test is skipped unseen. Tests' variables
// begin with HFTEST_: HETEROFLOW_ is the agent's, which refuses those it does not
// know.
const (
	DockerVariable            = "HFTEST_DOCKER"             // unix:///path
	RequireDockerVariable     = "HFTEST_REQUIRE_DOCKER"     // 1: fail, do not skip
	ContainerdVariable        = "HFTEST_CONTAINERD"         // path of the socket
	RequireContainerdVariable = "HFTEST_REQUIRE_CONTAINERD" // 1: fail, do not skip
)

// Where a daemon is expected unless a variable says otherwise. The second is
// where containerd.sh starts its private one.
const (
	DefaultDocker     = "unix:///var/run/docker.sock"
	DefaultContainerd = "/run/heteroflow-test/containerd/containerd.sock"
)

// pingTimeout is long enough for a daemon on a loaded machine, and short enough
// for a package whose every test asks a daemon that hangs.
const pingTimeout = 20 * time.Second

// RequireDocker returns the host of a Docker daemon that answers, as
// "unix:///path", or skips the test and says why.
func RequireDocker(t testing.TB) string {
	t.Helper()
	host := valueOr(DockerVariable, DefaultDocker)
	err := PingDocker(t.Context(), host)
	settle(t, err, RequireDockerVariable, "test/daemon/docker.sh start")
	return host
}

// RequireContainerd returns the socket of a containerd that answers, or skips
// the test and says why.
func RequireContainerd(t testing.TB) string {
	t.Helper()
	address := valueOr(ContainerdVariable, DefaultContainerd)
	err := PingContainerd(t.Context(), address)
	settle(t, err, RequireContainerdVariable, "test/daemon/containerd.sh start")
	return address
}

func valueOr(variable, fallback string) string {
	if value := os.Getenv(variable); value != "" {
		return value
	}
	return fallback
}

// settle skips the test for err, or fails it where the daemon is required.
func settle(t testing.TB, err error, variable, remedy string) {
	t.Helper()
	switch {
	case err == nil:
	case os.Getenv(variable) == "1":
		t.Fatalf("%v (%s=1 forbids to skip; to start one: %s)", err, variable, remedy)
	default:
		t.Skipf("%v (to start one: %s)", err, remedy)
	}
}

var errNotUnix = errors.New("only unix:///path is supported")

// PingDocker asks the Docker daemon at host, unix:///path, whether it is there.
func PingDocker(ctx context.Context, host string) error {
	path, ok := strings.CutPrefix(host, "unix://")
	if !ok || !strings.HasPrefix(path, "/") {
		return fmt.Errorf("ask Docker at %s: %w", host, errNotUnix)
	}
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	if err := pingHTTP(ctx, path); err != nil {
		return fmt.Errorf("ask Docker at %s: %w", host, err)
	}
	return nil
}

// PingContainerd asks the containerd at the socket whether it is there.
func PingContainerd(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	if err := pingGRPC(ctx, path); err != nil {
		return fmt.Errorf("ask containerd at %s: %w", path, err)
	}
	return nil
}
