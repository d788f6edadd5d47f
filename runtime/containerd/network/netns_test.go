package network

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func TestTheFirstThreadIsNeverGivenAway(t *testing.T) {
	want := errors.New("done")
	for range 200 {
		err := onSpareThread(func() error {
			if unix.Gettid() == os.Getpid() {
				t.Error("on the first thread")
			}
			return want
		})
		if !errors.Is(err, want) {
			t.Fatal(err)
		}
	}
}
