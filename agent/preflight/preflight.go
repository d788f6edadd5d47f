// Package preflight decides whether a node has what a task needs besides cards, before
// anything of the task is started: shared memory for its processes, room on the disk for
// its image. A container that is sure to die, or to fill the disk of the others, is better
// refused with the numbers.
//
// It decides from facts it is given: it asks nobody, reads nothing, keeps nothing but what it
// has promised and starts no goroutines. What is not known refuses nothing.
package preflight

import "fmt"

// Space is what is free on a file system.
type Space struct {
	Bytes  int64  // for those who are not root
	Inodes *int64 // nil: the file system sets no limit
}

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
)

// size is for people, in the unit that tells most.
func size(bytes int64) string {
	if bytes < gib {
		return fmt.Sprintf("%d MiB", bytes/mib)
	}
	return fmt.Sprintf("%.1f GiB", float64(bytes)/float64(gib))
}
