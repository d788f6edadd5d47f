package preflight_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/agent/preflight"
	"github.com/heteroflow/node-agent/runtime"
)

func TestAnImageTakesItsLayersPackedAndUnpacked(t *testing.T) {
	cases := map[string]struct {
		fetch  runtime.Fetch
		factor float64
		want   preflight.Load
	}{
		"nothing is missing":             {runtime.Fetch{}, 2, preflight.Load{}},
		"compressed layers":              {runtime.Fetch{Layers: 3, PackedBytes: gib}, 2, preflight.Load{Bytes: 3 * gib, Inodes: 16384}},
		"a factor that is no whole":      {runtime.Fetch{Layers: 1, PackedBytes: 4 * mib}, 1.25, preflight.Load{Bytes: 9 * mib, Inodes: 40}},
		"layers that are not compressed": {runtime.Fetch{Layers: 1, PackedBytes: gib, PlainBytes: gib}, 2, preflight.Load{Bytes: 2 * gib, Inodes: 8192}},
		"some of each":                   {runtime.Fetch{Layers: 2, PackedBytes: 3 * gib, PlainBytes: gib}, 2, preflight.Load{Bytes: 8 * gib, Inodes: 40960}},
		"more than a disk can ever have": {runtime.Fetch{Layers: 1, PackedBytes: math.MaxInt64}, 2, preflight.Load{Bytes: math.MaxInt64, Inodes: 1 << 47}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, preflight.LoadOf(tc.fetch, tc.factor)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWhatIsLeftOfAPullShrinksAsItComes(t *testing.T) {
	all := preflight.Load{Bytes: 100, Inodes: 10}
	cases := map[string]struct {
		done, total int64
		want        preflight.Load
	}{
		"its size is not known yet": {0, 0, all},
		"nothing has come":          {0, 50, all},
		"half of it has":            {25, 50, preflight.Load{Bytes: 50, Inodes: 5}},
		"all of it has":             {50, 50, preflight.Load{}},
		"more than there is":        {70, 50, preflight.Load{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, all.Left(tc.done, tc.total)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAnImageIsRefusedWhereItDoesNotFitAndOnlyThere(t *testing.T) {
	need := preflight.Load{Bytes: 3 * gib, Inodes: 100}
	fetch := runtime.Fetch{Layers: 4, PackedBytes: gib}
	inodes := func(n int64) *int64 { return &n }
	cases := map[string]struct {
		fetch  runtime.Fetch
		others preflight.Load
		free   preflight.Space
		want   []string // nothing: it is not refused
	}{
		"just enough bytes":                       {fetch, preflight.Load{}, preflight.Space{Bytes: 3 * gib}, nil},
		"one byte too few":                        {fetch, preflight.Load{}, preflight.Space{Bytes: 3*gib - 1}, []string{"image app:v1", "/var/lib/x", "4 layers of 1.0 GiB (1073741824 bytes)", "3.0 GiB (3221225472 bytes)", "3221225471", "pull.unpack_factor"}},
		"just enough inodes":                      {fetch, preflight.Load{}, preflight.Space{Bytes: 9 * gib, Inodes: inodes(100)}, nil},
		"one inode too few":                       {fetch, preflight.Load{}, preflight.Space{Bytes: 9 * gib, Inodes: inodes(99)}, []string{"100 inodes", "and 99 inodes"}},
		"a file system that counts no inodes":     {fetch, preflight.Load{}, preflight.Space{Bytes: 9 * gib}, nil},
		"beside others":                           {fetch, preflight.Load{Bytes: gib}, preflight.Space{Bytes: 4 * gib}, nil},
		"not beside others":                       {fetch, preflight.Load{Bytes: gib}, preflight.Space{Bytes: 4*gib - 1}, []string{"other pulls under way take about 1.0 GiB more"}},
		"nothing to come, whatever is free":       {runtime.Fetch{}, preflight.Load{Bytes: gib}, preflight.Space{}, nil},
		"more than can be counted, beside others": {fetch, preflight.Load{Bytes: math.MaxInt64}, preflight.Space{Bytes: math.MaxInt64 - 1}, []string{"no room"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := (&preflight.DiskError{Image: "app:v1", Dir: "/var/lib/x", Fetch: tc.fetch, Need: need, Others: tc.others, Free: tc.free}).Check()
			if len(tc.want) == 0 {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			if _, ok := errors.AsType[*preflight.DiskError](err); !ok {
				t.Fatalf("got %v, want a DiskError", err)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
}
