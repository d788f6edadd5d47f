package pathfence

import (
	"errors"
	"iter"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// swapped exchanges a directory and a link to another place, without pause, while fn runs.
func swapped(t *testing.T, a, b string, fn func()) {
	t.Helper()
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE); err != nil {
				t.Errorf("swap: %v", err)
				return
			}
		}
	})
	fn()
	close(done)
	wg.Wait()
}

// raceHost is a directory inside that a tenant swaps with a link to one outside.
func raceHost(t *testing.T) (h host, path string) {
	h = newHost(t)
	if err := os.MkdirAll(h.path("outside/b"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.path("outside/b/mark"), []byte("outside"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.path("data/a/b/mark"), []byte("inside"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.link(h.path("outside"), "data/evil")
	return h, h.path("data/a/b")
}

// looks counts up to 400, and on until both sides of the race have been seen: another
// goroutine swaps, and nobody promises it a processor meanwhile.
func looks(seen func() bool) iter.Seq[int] {
	return func(yield func(int) bool) {
		for n, begun := 0, time.Now(); n < 400 || !seen() && time.Since(begun) < time.Minute; n++ {
			if !yield(n) {
				return
			}
		}
	}
}

func TestADirectorySwappedWithALinkNeverLeadsOutside(t *testing.T) {
	h, path := raceHost(t)
	f := h.fence()
	inside := identityAt(t, path)
	passed, denied := 0, 0
	swapped(t, h.path("data/a"), h.path("data/evil"), func() {
		for range looks(func() bool { return passed > 0 && denied > 0 }) {
			got, err := f.Check(path, Write)
			switch {
			case err == nil:
				passed++
				if got.ID != inside || !strings.HasPrefix(got.Path, h.path("data")+"/") {
					t.Errorf("passed %q, which is outside", got.Path)
				}
			case errors.As(err, new(*DeniedError)):
				denied++
			case !errors.Is(err, ErrChanged):
				t.Errorf("err = %v", err)
			}
		}
	})
	if passed == 0 || denied == 0 {
		t.Errorf("passed %d, denied %d: the race was not run", passed, denied)
	}
}

func TestARootOpenedDuringASwapNeverLeadsOutside(t *testing.T) {
	h, path := raceHost(t)
	f := h.fence()
	opened := 0
	swapped(t, h.path("data/a"), h.path("data/evil"), func() {
		for range looks(func() bool { return opened > 0 }) {
			root, rel, err := f.OpenRoot(path+"/mark", Read)
			if err != nil {
				if !errors.As(err, new(*DeniedError)) && !errors.Is(err, ErrChanged) {
					t.Errorf("err = %v", err)
				}
				continue
			}
			opened++
			if data, err := root.ReadFile(rel); err == nil && string(data) != "inside" {
				t.Errorf("read %q through %s", data, root.Name())
			}
			if err := root.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	if opened == 0 {
		t.Error("never opened: the race was not run")
	}
}

func TestASwapAfterTheCheckIsFound(t *testing.T) {
	h, path := raceHost(t)
	got, err := h.fence().Check(path, Write)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(got.Verify(), got.VerifyIn(h.path("data"), "/a/b")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Rename(h.path("data/a"), h.path("data/was")), os.Rename(h.path("data/evil"), h.path("data/a"))); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"Verify": got.Verify(), "VerifyIn": got.VerifyIn(h.path("data"), "/a/b"), "VerifyIn a missing target": got.VerifyIn(h.path("data"), "/x"),
	} {
		if !errors.Is(err, ErrChanged) {
			t.Errorf("%s = %v, want ErrChanged", what, err)
		}
	}
	if err := got.VerifyIn(h.path("data"), "/was/b"); err != nil {
		t.Errorf("the same directory under another name: %v", err)
	}
}

func identityAt(t *testing.T, path string) Identity {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return identityOf(&st)
}
