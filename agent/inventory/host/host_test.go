package host

import (
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/shirou/gopsutil/v4/cpu"
	"go.uber.org/goleak"
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

func TestAHangingFileSystemIsNotLookedAtTwice(t *testing.T) {
	d := disks{looking: map[string]bool{"/hangs": true}}
	if rows := d.read(t.Context(), []string{t.TempDir(), "/hangs"}); len(rows) != 1 {
		t.Fatalf("got %+v", rows)
	}
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
