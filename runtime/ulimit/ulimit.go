// Package ulimit decides the process limits of a task's container: what GPU work wants,
// within what the container daemon may give. Docker's containers and containerd's get the
// same by it. It only reads, and starts no goroutines.
package ulimit

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/heteroflow/node-agent/runtime/peer"
)

// Limits are hard and soft alike.
type Limits struct {
	OpenFiles    uint64
	LockedMemory uint64 // bytes; Unlimited is unlimited
}

// Unlimited is the kernel's RLIM_INFINITY.
const Unlimited = math.MaxUint64

// Wanted is what GPU work wants: frameworks pin host memory for transfers and map many
// files, and run out of both under the usual limits of 64 KiB to 8 MiB and 1024.
var Wanted = Limits{OpenFiles: 1 << 20, LockedMemory: Unlimited}

// Of returns what GPU work wants, within what the daemon of that process id may give: it
// can raise nothing above its own hard limits without CAP_SYS_RESOURCE, and a container
// that is to have more fails at start. With an error it is Wanted.
func Of(daemonPID int) (Limits, error) {
	privileged, err := mayRaise(daemonPID)
	if err != nil || privileged {
		return Wanted, err
	}
	got := Wanted
	for _, l := range []struct {
		resource int
		value    *uint64
	}{{unix.RLIMIT_NOFILE, &got.OpenFiles}, {unix.RLIMIT_MEMLOCK, &got.LockedMemory}} {
		var r unix.Rlimit
		if err := unix.Prlimit(daemonPID, l.resource, nil, &r); err != nil {
			return Wanted, fmt.Errorf("read limits of process %d: %w", daemonPID, err)
		}
		*l.value = min(*l.value, r.Max)
	}
	return got, nil
}

// mayRaise tells whether a process has CAP_SYS_RESOURCE. That of a rootless daemon counts in
// its own user namespace only, to which limits do not belong.
func mayRaise(pid int) (bool, error) {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	status, err := os.ReadFile(filepath.Join(proc, "status"))
	if err != nil {
		return false, err
	}
	mapped, err := os.ReadFile(filepath.Join(proc, "uid_map"))
	if err != nil {
		return false, err
	}
	for line := range bytes.Lines(status) {
		if value, ok := bytes.CutPrefix(line, []byte("CapEff:")); ok {
			set, err := strconv.ParseUint(string(bytes.TrimSpace(value)), 16, 64)
			return set&(1<<unix.CAP_SYS_RESOURCE) != 0 && isWhole(mapped), err
		}
	}
	return false, fmt.Errorf("process %d: no CapEff in its status", pid)
}

// isWhole tells the first user namespace by its map: every id is itself.
func isWhole(uidMap []byte) bool {
	return slices.EqualFunc(bytes.Fields(uidMap), []string{"0", "0", "4294967295"}, func(got []byte, want string) bool { return string(got) == want })
}

// OfSocket is Of for the daemon that listens on a unix socket: the kernel says who that is.
// Where systemd listens for the daemon it is systemd, whose rights a system's daemon has.
func OfSocket(path string) (Limits, error) {
	pid, err := peer.Of(path)
	if err != nil {
		return Wanted, err
	}
	return Of(pid)
}
