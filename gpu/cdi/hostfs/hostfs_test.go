package hostfs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRealDeviceNodesAreReadAsTheKernelHasThem(t *testing.T) {
	n, err := FS{}.EngineNode("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	if n.Type != "c" || n.Major != 1 || n.Minor != 3 || n.Mode != 0o666 {
		t.Errorf("/dev/null is %+v, want c 1:3 with mode 0666", n)
	}
	if _, err := (FS{}).EngineNode("/etc/passwd"); !errors.Is(err, errNoDeviceNode) {
		t.Errorf("/etc/passwd: %v", err)
	}
}

func TestLinksDoNotLeadOutOfTheRoot(t *testing.T) {
	h := FS{Root: t.TempDir()}
	if err := errors.Join(
		os.Mkdir(filepath.Join(h.Root, "etc"), 0o700),
		os.WriteFile(filepath.Join(h.Root, "etc/passwd"), []byte("the root's"), 0o600),
		os.Symlink("../../../../etc/passwd", filepath.Join(h.Root, "up")),
		os.Symlink("/etc/passwd", filepath.Join(h.Root, "absolute")),
		os.Symlink("/etc/hostname", filepath.Join(h.Root, "absent")),
	); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/up", "/absolute", "/etc/passwd"} {
		if found, err := h.Follow(name); found != "/etc/passwd" || err != nil {
			t.Errorf("%s: %q, %v", name, found, err)
		}
	}
	for _, name := range []string{"/absent", "/etc/none"} {
		if found, err := h.Follow(name); err == nil || strings.Contains(err.Error(), h.Root) {
			t.Errorf("%s: %q, %v, want an error without the path of the root", name, found, err)
		}
	}
}

func TestWhatIsReadIsBounded(t *testing.T) {
	h := FS{Root: t.TempDir()}
	for size, ok := range map[int]bool{maxRead: true, maxRead + 1: false} {
		if err := os.WriteFile(filepath.Join(h.Root, "file"), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		if data, err := h.Read("/file"); (err == nil) != ok || ok && len(data) != size {
			t.Errorf("of %d bytes %d were read, %v", size, len(data), err)
		}
	}
}
