package host

import (
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/heteroflow/node-agent/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestReadThisMachine(t *testing.T) {
	h := New(t.Context())
	got := h.Read(t.Context(), netip.MustParseAddr("127.0.0.1"), []string{t.TempDir()})
	if got.Hostname == "" || got.Kernel == "" || got.Arch == "" || got.OS == "" {
		t.Errorf("names: %+v", got)
	}
	if got.CPUCores == nil || *got.CPUCores < 1 || got.Load1 == nil {
		t.Errorf("processors: %+v", got)
	}
	if got.MemoryTotalBytes == nil || got.MemoryUsedBytes == nil || *got.MemoryUsedBytes <= 0 || *got.MemoryUsedBytes > *got.MemoryTotalBytes {
		t.Errorf("memory: %+v", got)
	}
	if len(got.Disks) != 1 || got.Disks[0].FreeBytes <= 0 || got.Disks[0].TotalBytes < got.Disks[0].FreeBytes {
		t.Errorf("disks: %+v", got.Disks)
	}
	if got.InternalIP != "127.0.0.1" || got.MACAddress != "" {
		t.Errorf("loopback address %q, hardware address %q", got.InternalIP, got.MACAddress)
	}
}

func TestOneRowForEachFileSystemAndNoneForAMissingDirectory(t *testing.T) {
	dir := t.TempDir()
	sub := filepath.Join(dir, "sub")
	if err := os.Mkdir(sub, 0o700); err != nil {
		t.Fatal(err)
	}
	var d disks
	rows := d.read(t.Context(), []string{"/does/not/exist", dir, sub, "/proc"})
	if len(rows) != 1 || rows[0].Path != dir {
		t.Fatalf("got %+v", rows)
	}
}

func TestAHangingFileSystemIsNotLookedAtTwiceAndKeepsNoOtherBack(t *testing.T) {
	d := disks{looking: map[string]*look{"/hangs": {done: make(chan struct{})}}}
	dir := t.TempDir()
	if rows := d.read(t.Context(), []string{"/hangs", dir}); len(rows) != 1 || rows[0].Path != dir {
		t.Fatalf("got %+v", rows)
	}
}

func TestWhatIsFreeIsWhatTheFileSystemSays(t *testing.T) {
	h := New(t.Context())
	if got, ok := h.Free(t.Context(), "/does/not/exist"); ok {
		t.Errorf("of no directory: %+v", got)
	}
	if got, ok := h.Free(t.Context(), t.TempDir()); !ok || got.Bytes <= 0 {
		t.Errorf("of a directory: %+v, %v", got, ok)
	}
	if os.Getuid() != 0 {
		t.Skip("mounting needs root")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m,nr_inodes=100"); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(filepath.Join(dir, "file"), make([]byte, 256<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	got, ok := h.Free(t.Context(), dir)
	if !ok || got.Bytes != 768<<10 || got.Inodes == nil || *got.Inodes != 98 { // the root is one, too
		t.Errorf("of a small one: %+v, %v", got, ok)
	}
}

func TestThoseWhoAskAtTheSameTimeShareOneLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung := &look{done: make(chan struct{}), ok: true, disk: protocol.Disk{FreeBytes: 7}}
		d := disks{looking: map[string]*look{"/slow": hung}}
		var askers sync.WaitGroup
		for range 3 {
			askers.Go(func() {
				if got, ok := d.free(t.Context(), "/slow"); !ok || got.Bytes != 7 {
					t.Errorf("got %+v, %v", got, ok)
				}
			})
		}
		time.Sleep(freeTimeout / 2)
		close(hung.done)
		askers.Wait()
		d.looking["/dead"] = &look{done: make(chan struct{})}
		begun := time.Now()
		if got, ok := d.free(t.Context(), "/dead"); ok || time.Since(begun) != freeTimeout {
			t.Errorf("got %+v, %v after %v", got, ok, time.Since(begun))
		}
	})
}

func TestUsageIsTheShareOfTimeThatWasNotIdle(t *testing.T) {
	at := func(user, idle float64) cpu.TimesStat { return cpu.TimesStat{User: user, Idle: idle} }
	cases := map[string]struct {
		before, now cpu.TimesStat
		primed      bool
		want        float64 // NaN: absent
	}{
		"the first reading says nothing":        {cpu.TimesStat{}, at(50, 50), false, math.NaN()},
		"a quarter busy":                        {at(10, 10), at(11, 13), true, 25},
		"idle is zero, not absent":              {at(10, 10), at(10, 20), true, 0},
		"a clock that stood still says nothing": {at(10, 10), at(10, 10), true, math.NaN()},
		"idle time that ran backwards":          {at(10, 20), at(20, 19), true, 100},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := usage(tc.before, tc.now, tc.primed)
			if math.IsNaN(tc.want) != (got == nil) || got != nil && *got != tc.want {
				t.Fatalf("got %v, want %v", got, tc.want)
			}
		})
	}
}
