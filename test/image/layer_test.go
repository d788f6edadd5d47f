package image

import (
	"compress/gzip"
	"testing"
)

func TestPackingTheSameFilesAgainGivesTheSameLayer(t *testing.T) {
	files := func() []file {
		return append(rootFiles([]byte("program")), Filler{Bytes: 100000, Seed: 7}.file())
	}
	first, err := layer(gzip.DefaultCompression, files())
	if err != nil {
		t.Fatal(err)
	}
	second, err := layer(gzip.DefaultCompression, files())
	if err != nil {
		t.Fatal(err)
	}
	a, errA := first.Digest()
	b, errB := second.Digest()
	if errA != nil || errB != nil || a != b {
		t.Errorf("digests %s (%v) and %s (%v)", a, errA, b, errB)
	}
}
