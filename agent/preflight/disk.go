package preflight

import (
	"fmt"
	"math"

	"github.com/heteroflow/node-agent/runtime"
)

// bytesPerFile is the mean size of the files in an image, on the large side: of those that
// GPU work runs in, most bytes are in few libraries. Fewer inodes than that sum to are
// surely too few. It is an assumption; no manifest says how many files there are.
const bytesPerFile = 128 << 10

// Load is what an image is going to take of a disk.
type Load struct {
	Bytes  int64
	Inodes int64
}

// LoadOf forecasts what a pull takes: each layer as it comes, which is kept at least until
// it is unpacked, and unpacked. factor is how many bytes a compressed one becomes.
func LoadOf(f runtime.Fetch, factor float64) Load {
	unpacked := float64(f.PackedBytes-f.PlainBytes)*factor + float64(f.PlainBytes)
	return Load{Bytes: whole(float64(f.PackedBytes) + unpacked), Inodes: whole(unpacked / bytesPerFile)}
}

// Left is the part of it that is still to come when done of total bytes have.
func (l Load) Left(done, total int64) Load {
	if total <= 0 {
		return l
	}
	share := 1 - min(1, max(0, float64(done)/float64(total)))
	return Load{Bytes: whole(float64(l.Bytes) * share), Inodes: whole(float64(l.Inodes) * share)}
}

// Plus is both together.
func (l Load) Plus(o Load) Load {
	return Load{Bytes: whole(float64(l.Bytes) + float64(o.Bytes)), Inodes: whole(float64(l.Inodes) + float64(o.Inodes))}
}

// whole has a greatest value, as registries may say anything.
func whole(f float64) int64 {
	if f >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(f)
}

// DiskError says that an image would fill the disk.
type DiskError struct {
	Image  string
	Dir    string // where the runtime keeps images
	Fetch  runtime.Fetch
	Need   Load
	Others Load // what pulls under way are still going to take
	Free   Space
}

// Error gives the numbers and the ways out.
func (e *DiskError) Error() string {
	text := fmt.Sprintf("no room for image %s where the runtime keeps images (%s): %d layers of %s (%d bytes) are missing and take about %s (%d bytes) and %d inodes, unpacked",
		e.Image, e.Dir, e.Fetch.Layers, size(e.Fetch.PackedBytes), e.Fetch.PackedBytes, size(e.Need.Bytes), e.Need.Bytes, e.Need.Inodes)
	if e.Others != (Load{}) {
		text += fmt.Sprintf("; other pulls under way take about %s more", size(e.Others.Bytes))
	}
	text += fmt.Sprintf("; %s (%d bytes) are free", size(e.Free.Bytes), e.Free.Bytes)
	if e.Free.Inodes != nil {
		text += fmt.Sprintf(" and %d inodes", *e.Free.Inodes)
	}
	return text + ": remove images, or set pull.unpack_factor to what layers come to on this node"
}

// Check refuses, by returning e, what does not fit beside the others.
func (e *DiskError) Check() error {
	all := e.Need.Plus(e.Others)
	if e.Fetch.Layers == 0 || all.Bytes <= e.Free.Bytes && (e.Free.Inodes == nil || all.Inodes <= *e.Free.Inodes) {
		return nil
	}
	return e
}
