package pathfence

import (
	"errors"
	"os"
	"strings"
	"testing"
)

func TestOpenRootStopsAtTheNearestDirectory(t *testing.T) {
	h := newHost(t)
	h.link("/etc/new", "data/a/dangling")
	f := h.fence()
	for _, c := range []struct{ name, path, root, rel string }{
		{"a directory", "data/a", "data/a", "."},
		{"a file", "data/a/file", "data/a", "file"},
		{"a missing file", "data/a/new", "data/a", "new"},
		{"missing directories", "data/a/x/y/z", "data/a", "x/y/z"},
		{"below a dangling link", "data/a/dangling/z", "data/a", "dangling/z"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root, rel, err := f.OpenRoot(h.path(c.path), Write)
			if err != nil {
				t.Fatal(err)
			}
			if root.Name() != h.path(c.root) || rel != c.rel {
				t.Errorf("root %s, rel %s, want %s, %s", root.Name(), rel, h.path(c.root), c.rel)
			}
			if err := root.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestARootCannotBeLeft(t *testing.T) {
	h := newHost(t)
	h.link("/etc/new", "data/a/dangling")
	h.link(h.path("outside"), "data/a/link")
	root, rel, err := h.fence().OpenRoot(h.path("data/a/dangling"), Write)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	for _, name := range []string{rel, "link/file", "../state/key"} {
		if f, err := root.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600); err == nil {
			t.Errorf("%s was opened: %s", name, f.Name())
			_ = f.Close()
		}
	}
}

func TestOpenRootRefusesWhatCheckRefuses(t *testing.T) {
	h := newHost(t)
	h.link(h.path("outside"), "data/a/link")
	f := h.fence()
	for _, path := range []string{"data", "data/state/x", "outside/file", "data/a/link/file", "models/../models"} {
		if root, rel, err := f.OpenRoot(h.dir+"/"+path, Write); !errors.As(err, new(*DeniedError)) {
			t.Errorf("OpenRoot(%s) = %v, %q, %v, want a DeniedError", path, root, rel, err)
		}
	}
	empty, err := New(Config{Allow: []string{h.path("not-there")}})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := empty.OpenRoot(h.path("not-there/x"), Write); !errors.As(err, new(*MissingError)) {
		t.Errorf("missing allowed directory: %v, want a MissingError", err)
	}
}

func FuzzCheck(f *testing.F) {
	for _, seed := range []string{"/a/b", "", "/../outside/file", "/link/file", "//./a", "/state/key", "/a\x00", "/magic/etc", "/" + strings.Repeat("x/", 3000)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		h := newHost(t)
		h.link(h.path("outside"), "data/link")
		h.link("/proc/self/root", "data/magic")
		fence := h.fence()
		if got, err := fence.Check(h.path("data")+path, Write); err == nil {
			if !Within(got.Path, h.path("data")) || Within(got.Path, h.path("data/state")) || got.Path == h.path("data") {
				t.Errorf("Check(%q) passed %q", path, got.Path)
			}
		}
		if root, _, err := fence.OpenRoot(h.path("data")+path, Write); err == nil {
			if !Within(root.Name(), h.path("data/a")) {
				t.Errorf("OpenRoot(%q) opened %q", path, root.Name())
			}
			if err := root.Close(); err != nil {
				t.Error(err)
			}
		}
		if _, err := fence.Check(path, Write); err == nil {
			t.Errorf("Check(%q) passed, although nothing of it is inside", path)
		}
	})
}

func FuzzParseMounts(f *testing.F) {
	f.Add([]byte("36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n"))
	f.Add([]byte("22 26 0:21 / /a\\040b\\134\\1 rw - sysfs sysfs rw\n23 22 0:4 net:[4026532281] /run/netns/x rw - nsfs nsfs rw"))
	f.Add([]byte("\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		table, err := parseMounts(data)
		if err != nil {
			return
		}
		for id, m := range table {
			if m.id != id || m.fsType == "" || m.point == "" || m.shows.path == "" {
				t.Errorf("mount %d = %+v", id, m)
			}
		}
	})
}

func TestMountinfoIsRead(t *testing.T) {
	table, err := parseMounts([]byte("36 35 98:0 /mnt1/ /a\\040b\\011\\012\\134c rw,noatime master:1 shared:2 - ext3 /dev/root rw\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := mount{id: 36, shows: place{dev: "98:0", path: "/mnt1"}, point: "/a b\t\n\\c", fsType: "ext3"}
	if table[36] != want {
		t.Errorf("got %+v, want %+v", table[36], want)
	}
	for _, bad := range []string{"x", "36 35 98:0 /mnt1 /mnt2 rw", "a 35 98:0 / / rw - ext3 x rw", "36 35 98:0 / / rw - "} {
		if table, err := parseMounts([]byte(bad)); err == nil {
			t.Errorf("%q read as %+v", bad, table)
		}
	}
}
