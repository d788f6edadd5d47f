package pathfence

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// host is a small tree to fence: data and models are allowed, models only for reading,
// data/state and docker are denied, outside is neither.
type host struct {
	t   *testing.T
	dir string
}

func newHost(t *testing.T) host {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := host{t: t, dir: dir}
	for _, sub := range []string{"data/a/b", "data/state/results", "models/m", "docker/volumes", "outside/secret"} {
		if err := os.MkdirAll(h.path(sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"data/a/file", "data/state/key", "outside/file", "models/m/weights"} {
		if err := os.WriteFile(h.path(file), []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

func (h host) path(p string) string { return filepath.Join(h.dir, p) }

func (h host) link(target, name string) {
	h.t.Helper()
	if err := os.Symlink(target, h.path(name)); err != nil {
		h.t.Fatal(err)
	}
}

func (h host) bind(from, to string) {
	h.t.Helper()
	for _, dir := range []string{from, to} {
		if err := os.MkdirAll(h.path(dir), 0o700); err != nil {
			h.t.Fatal(err)
		}
	}
	h.mount(h.path(from), h.path(to), "", unix.MS_BIND)
}

func (h host) mount(source, target, fsType string, flags uintptr) {
	h.t.Helper()
	switch err := unix.Mount(source, target, fsType, flags, ""); {
	case errors.Is(err, unix.EPERM):
		h.t.Skipf("mounting needs root: %v", err)
	case err != nil:
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		if err := unix.Unmount(target, unix.MNT_DETACH); err != nil {
			h.t.Error(err)
		}
	})
}

func (h host) fence() *Fence {
	h.t.Helper()
	f, err := New(Config{
		Allow:         []string{h.path("data")},
		AllowReadOnly: []string{h.path("models")},
		Deny:          []string{h.path("data/state"), h.path("docker"), h.path("data/not-there")},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return f
}

func TestPathsInsideTheFencePass(t *testing.T) {
	h := newHost(t)
	long := "data/" + strings.Repeat(strings.Repeat("x", 250)+"/", 10)
	if err := os.MkdirAll(h.path(long), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"data/模型 \n\t\\ é", "data/with (deleted)", "data/a:b,c"} {
		if err := os.Mkdir(h.path(dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	h.link("a", "data/relative")
	h.link(h.path("models/m"), "data/to-models")
	f := h.fence()
	for _, c := range []struct {
		name, path, really, root string
		access                   Access
		file                     bool
	}{
		{name: "a directory", path: "data/a/b", really: "data/a/b", root: "data", access: Write},
		{name: "a file", path: "data/a/file", really: "data/a/file", root: "data", access: Write, file: true},
		{name: "a read-only root itself", path: "models", really: "models", root: "models"},
		{name: "a long path", path: long, really: strings.TrimSuffix(long, "/"), root: "data"},
		{name: "odd characters", path: "data/模型 \n\t\\ é", really: "data/模型 \n\t\\ é", root: "data"},
		{name: "a name that looks deleted", path: "data/with (deleted)", really: "data/with (deleted)", root: "data"},
		{name: "characters a mount option would split at", path: "data/a:b,c", really: "data/a:b,c", root: "data"},
		{name: "a link inside", path: "data/relative/b", really: "data/a/b", root: "data", access: Write},
		{name: "a link to another allowed directory", path: "data/to-models", really: "models/m", root: "models"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := f.Check(h.path(c.path), c.access)
			if err != nil {
				t.Fatal(err)
			}
			if got.Path != h.path(c.really) || got.Root != h.path(c.root) || got.Dir == c.file {
				t.Errorf("got %+v, want %s in %s", got, h.path(c.really), h.path(c.root))
			}
			if err := got.Verify(); err != nil {
				t.Error(err)
			}
		})
	}
	if got, err := f.Check(h.path("data/a")+"//./b/", Read); err != nil || got.Path != h.path("data/a/b") {
		t.Errorf("unclean path: %+v, %v", got, err)
	}
}

func TestPathsOutsideTheFenceAreDenied(t *testing.T) {
	h := newHost(t)
	h.link("/etc", "data/to-etc")
	h.link(h.path("outside"), "data/to-outside")
	h.link("../outside", "data/to-outside-relative")
	h.link("state", "data/to-state")
	h.link("/proc/self/root", "data/magic")
	h.link("/proc/self/fd/0", "data/magic-fd")
	h.link("loop", "data/loop")
	if err := os.Link(h.path("data/state/key"), h.path("data/hard")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(h.path("data/fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(socket) })
	t.Chdir(h.dir) // a socket's path is at most 107 bytes
	if err := unix.Bind(socket, &unix.SockaddrUnix{Name: "data/sock"}); err != nil {
		t.Fatal(err)
	}
	f, err := New(Config{
		Allow: []string{h.path("data")}, AllowReadOnly: []string{h.path("models")},
		Deny: []string{h.path("data/state"), h.path("data/state/key"), h.path("docker")},
	})
	if err != nil {
		t.Fatal(err)
	}
	state := h.path("data/state")
	for _, c := range []struct {
		name, path string
		access     Access
		rule       string // decided
		reason     string
	}{
		{name: "a path outside", path: h.path("outside"), reason: "volumes.allow"},
		{name: "a path outside that does not exist", path: h.path("nowhere"), reason: "volumes.allow"},
		{name: "a name with the same beginning", path: h.path("database"), reason: "volumes.allow"},
		{name: "the root", path: "/", reason: "volumes.allow"},
		{name: "a system directory", path: "/etc", reason: "volumes.allow"},
		{name: "an empty path", path: "", reason: "not absolute"},
		{name: "a relative path", path: "data/a", reason: "not absolute"},
		{name: "a step upwards", path: h.path("data") + "/../outside", reason: `".."`},
		{name: "a step upwards that stays inside", path: h.path("data/a") + "/../a", reason: `".."`},
		{name: "a NUL byte", path: h.path("data/a") + "\x00", reason: "NUL"},
		{name: "a path longer than the kernel takes", path: h.path("data/") + strings.Repeat("/x", 4096), reason: "longer"},
		{name: "a name longer than the kernel takes", path: h.path("data/" + strings.Repeat("x", 300)), reason: "cannot follow"},
		{name: "a denied directory", path: state, rule: state, reason: "it is"},
		{name: "a path beneath a denied directory", path: state + "/nothing", rule: state, reason: "beneath"},
		{name: "a directory that contains a denied one", path: h.path("data"), rule: state, reason: "contains"},
		{name: "a link to a denied directory", path: h.path("data/to-state"), rule: state, reason: "it is"},
		{name: "a link to a system directory", path: h.path("data/to-etc/ssl"), rule: "/etc", reason: "beneath"},
		{name: "a link outside", path: h.path("data/to-outside/secret"), reason: "symbolic link leads outside"},
		{name: "a relative link outside", path: h.path("data/to-outside-relative"), reason: "symbolic link leads outside"},
		{name: "a magic link to the root", path: h.path("data/magic"), rule: "proc", reason: "mounted at"},
		{name: "a magic link to the root and on", path: h.path("data/magic/etc/passwd"), rule: "/etc", reason: "beneath"},
		{name: "a link loop", path: h.path("data/loop"), reason: "cannot follow"},
		{name: "a hard link to a denied file", path: h.path("data/hard"), rule: state + "/key", reason: "it is"},
		{name: "a pipe", path: h.path("data/fifo"), reason: "a pipe"},
		{name: "a socket", path: h.path("data/sock"), reason: "a socket"},
		{name: "writing to what is only for reading", path: h.path("models/m"), access: Write, rule: h.path("models"), reason: "may only read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := f.Check(c.path, c.access)
			var denied *DeniedError
			if !errors.As(err, &denied) {
				t.Fatalf("Check = %+v, %v, want a DeniedError", got, err)
			}
			if !strings.Contains(denied.Reason, c.reason) || c.rule != "" && denied.Rule != c.rule {
				t.Errorf("rule %q, reason %q, want rule %q, reason with %q", denied.Rule, denied.Reason, c.rule, c.reason)
			}
			if denied.Path != c.path || denied.Error() == "" {
				t.Errorf("error is about %q, want %q", denied.Path, c.path)
			}
		})
	}
}

func TestADeviceIsDenied(t *testing.T) {
	h := newHost(t)
	if err := unix.Mknod(h.path("data/null"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))); err != nil {
		t.Skipf("making a device needs root: %v", err)
	}
	var denied *DeniedError
	if _, err := h.fence().Check(h.path("data/null"), Read); !errors.As(err, &denied) {
		t.Errorf("err = %v, want a DeniedError", err)
	}
}

func TestAMissingPathIsNamed(t *testing.T) {
	h := newHost(t)
	h.link("nowhere", "data/dangling")
	for _, path := range []string{"data/new", "data/a/file/below", "data/dangling"} {
		_, err := h.fence().Check(h.path(path), Write)
		var missing *MissingError
		if !errors.As(err, &missing) || missing.Path != h.path(path) || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Check(%s) = %v, want a MissingError", path, err)
		}
	}
}

func TestLinksTheOperatorMadeAreFollowed(t *testing.T) {
	h := newHost(t)
	h.link("data", "allowed") // the allowed directory is a link to where the disk is
	h.link(h.path("data/a"), "denied")
	f, err := New(Config{Allow: []string{h.path("allowed")}, Deny: []string{h.path("denied")}})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := f.Check(h.path("allowed/state"), Write); err != nil || got.Path != h.path("data/state") || got.Root != h.path("allowed") {
		t.Errorf("below an allowed link: %+v, %v", got, err)
	}
	var denied *DeniedError
	for _, path := range []string{"allowed/a", "allowed/a/b", "allowed"} {
		if _, err := f.Check(h.path(path), Read); !errors.As(err, &denied) || denied.Rule != h.path("denied") {
			t.Errorf("Check(%s) = %v, want it denied: a daemon's data moved behind a link", path, err)
		}
	}
}

func TestMountsDoNotHideWhatIsDenied(t *testing.T) {
	h := newHost(t)
	h.bind("docker", "data/bound")         // the daemon's data shown inside the fence
	h.bind("data/disk-docker", "moved")    // the daemon's data lives inside the fence
	h.bind("data/a", "data/harmless")      // nothing denied in it
	h.bind("outside", "data/other/nested") // not allowed by name, but the operator put it there
	if err := os.MkdirAll(h.path("data/proc/here"), 0o700); err != nil {
		t.Fatal(err)
	}
	h.mount("proc", h.path("data/proc/here"), "proc", 0)
	f, err := New(Config{Allow: []string{h.path("data")}, Deny: []string{h.path("docker"), h.path("moved")}})
	if err != nil {
		t.Fatal(err)
	}
	for path, rule := range map[string]string{
		"data/bound":          "docker",
		"data/bound/volumes":  "docker",
		"data/disk-docker":    "moved",
		"data/proc":           "proc",
		"data/proc/here/1/fd": "proc",
	} {
		_, err := f.Check(h.path(path), Read)
		if denied, ok := errors.AsType[*DeniedError](err); !ok {
			t.Errorf("Check(%s) = %v, want a DeniedError", path, err)
		} else if denied.Rule != rule && denied.Rule != h.path(rule) {
			t.Errorf("Check(%s) denied by %q, want %q", path, denied.Rule, rule)
		}
	}
	for _, path := range []string{"data/harmless", "data/harmless/b", "data/other", "data/other/nested/secret"} {
		if _, err := f.Check(h.path(path), Write); err != nil {
			t.Errorf("Check(%s) = %v", path, err)
		}
	}
}

func TestAMisplacedFenceIsRefused(t *testing.T) {
	for name, cfg := range map[string]Config{
		"the whole host":         {Allow: []string{"/"}},
		"a relative directory":   {Allow: []string{"data"}},
		"a step upwards":         {Allow: []string{"/data/.."}},
		"a system directory":     {Allow: []string{"/etc/heteroflow"}},
		"a denied directory":     {AllowReadOnly: []string{"/srv/state"}, Deny: []string{"/srv/state/"}},
		"an empty denied path":   {Deny: []string{""}},
		"a daemon's directory":   {Allow: []string{"/var/lib/docker"}},
		"below a denied by case": {Allow: []string{"/srv/state/volumes"}, Deny: []string{"/srv/state"}},
	} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	f, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Check("/data", Read); !errors.As(err, new(*DeniedError)) {
		t.Errorf("an empty fence let /data pass: %v", err)
	}
	if _, err := New(Config{Allow: DefaultAllow(), Deny: []string{"/var/lib/heteroflow", "/srv/x"}}); err != nil {
		t.Errorf("the default is refused: %v", err)
	}
}

func BenchmarkCheck(b *testing.B) {
	dir := b.TempDir()
	f, err := New(Config{Allow: []string{dir}})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := f.Check(dir, Write); err != nil {
			b.Fatal(err)
		}
	}
}

func TestOneMoreDirectoryCanBeDenied(t *testing.T) {
	dir := t.TempDir()
	inside := filepath.Join(dir, "docker", "volumes")
	if err := os.MkdirAll(inside, 0o700); err != nil {
		t.Fatal(err)
	}
	fence, err := New(Config{Allow: []string{dir}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fence.Check(inside, Read); err != nil {
		t.Fatalf("before: %v", err)
	}
	if _, err := fence.Denying(filepath.Join(dir, "docker")).Check(inside, Read); err == nil {
		t.Fatal("a path beneath the denied directory passed")
	}
	if _, err := fence.Check(inside, Read); err != nil {
		t.Fatalf("the fence itself changed: %v", err)
	}
}

func TestTheMountsBelowADirectoryAreThoseThatShow(t *testing.T) {
	h := newHost(t)
	for _, dir := range []string{"data/a/b", "data/a/b/inner", "data/a/twice", "data/a/over", "data/a/over/hidden", "data/a/over"} {
		if err := os.MkdirAll(h.path(dir), 0o700); err != nil {
			t.Fatal(err)
		}
		h.mount("none", h.path(dir), "tmpfs", 0)
	}
	h.mount("none", h.path("data/a/twice"), "tmpfs", 0)
	h.bind("outside", "data/a-beside") // its name begins as that of a does
	for name, want := range map[string][]string{
		"data/a":   {"data/a/b", "data/a/b/inner", "data/a/over", "data/a/twice"},
		"data/a/b": {"data/a/b/inner"},
		"models":   nil,
	} {
		got, err := h.fence().Check(h.path(name), Read)
		if err != nil {
			t.Fatal(err)
		}
		below, err := got.MountsBelow()
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			want[i] = h.path(want[i])
		}
		if !slices.Equal(below, want) {
			t.Errorf("below %s: %q, want %q", name, below, want)
		}
	}
}
