package host

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/heteroflow/node-agent/agent/preflight"
	"github.com/heteroflow/node-agent/protocol"
)

// diskTimeout bounds the look at all file systems together: a dead NFS server never
// answers, and the heartbeat does not wait for it.
const diskTimeout = time.Second

// freeTimeout is the same for a task's launch, which has time.
const freeTimeout = 10 * time.Second

// disks looks at file systems, each in a goroutine of its own, because statfs cannot be
// interrupted. Whoever wants to know while a look is under way waits for that one, so that
// at most one goroutine a directory is ever stuck.
type disks struct {
	mu      sync.Mutex
	looking map[string]*look
}

// look is one look at a directory's file system.
type look struct {
	done chan struct{} // closed when the rest is set

	device uint64
	disk   protocol.Disk
	inodes *int64 // free; nil: no limit
	ok     bool
}

// read is one row for each file system that holds one of the directories and answers in
// time, in their order.
func (d *disks) read(ctx context.Context, dirs []string) []protocol.Disk {
	looks := make([]*look, len(dirs))
	for i, dir := range dirs {
		looks[i] = d.look(dir)
	}
	ctx, cancel := context.WithTimeout(ctx, diskTimeout)
	defer cancel()
	var rows []protocol.Disk
	seen := make(map[uint64]bool)
	for _, l := range looks {
		if l.wait(ctx) && l.ok && !seen[l.device] {
			seen[l.device] = true
			rows = append(rows, l.disk)
		}
	}
	return rows
}

// free is what is free where dir is, if that can be found out in time.
func (d *disks) free(ctx context.Context, dir string) (preflight.Space, bool) {
	ctx, cancel := context.WithTimeout(ctx, freeTimeout)
	defer cancel()
	l := d.look(dir)
	if !l.wait(ctx) || !l.ok {
		return preflight.Space{}, false
	}
	return preflight.Space{Bytes: l.disk.FreeBytes, Inodes: l.inodes}, true
}

// look starts a look, or joins the one under way.
func (d *disks) look(dir string) *look {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.looking[dir]; l != nil {
		return l
	}
	if d.looking == nil {
		d.looking = make(map[string]*look)
	}
	l := &look{done: make(chan struct{})}
	d.looking[dir] = l
	go func() {
		l.at(dir)
		d.mu.Lock()
		delete(d.looking, dir)
		d.mu.Unlock()
		close(l.done)
	}()
	return l
}

// wait tells whether the look is over, when it is or ctx ends.
func (l *look) wait(ctx context.Context) bool {
	select {
	case <-l.done:
	case <-ctx.Done():
	}
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

func (l *look) at(dir string) {
	var stat unix.Stat_t
	var fs unix.Statfs_t
	if unix.Stat(dir, &stat) != nil || unix.Statfs(dir, &fs) != nil || fs.Blocks == 0 {
		return // not there, or nothing that has a size
	}
	size := int64(fs.Bsize)
	l.ok, l.device = true, stat.Dev
	l.disk = protocol.Disk{Path: dir, TotalBytes: int64(fs.Blocks) * size, FreeBytes: int64(fs.Bavail) * size}
	if fs.Files > 0 { // btrfs and the like count none
		l.inodes = new(int64(fs.Ffree))
	}
}
