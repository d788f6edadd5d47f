package host

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/heteroflow/node-agent/protocol"
)

// diskTimeout bounds the look at all file systems together: a dead NFS server never
// answers, and the heartbeat does not wait for it.
const diskTimeout = time.Second

// disks looks at file systems, each in a goroutine of its own, because statfs cannot be
// interrupted. While one hangs no second look at it is started, so that at most one
// goroutine a directory is ever stuck.
type disks struct {
	mu      sync.Mutex
	looking map[string]bool
}

type diskRow struct {
	device uint64
	disk   protocol.Disk
	ok     bool
}

// read is one row for each file system that holds one of the directories and answers in
// time, in their order.
func (d *disks) read(ctx context.Context, dirs []string) []protocol.Disk {
	found := make([]chan diskRow, len(dirs))
	for i, dir := range dirs {
		found[i] = d.look(dir)
	}
	timeout := time.NewTimer(diskTimeout)
	defer timeout.Stop()
	var rows []protocol.Disk
	seen := make(map[uint64]bool)
	for _, answer := range found {
		select {
		case row := <-answer:
			if row.ok && !seen[row.device] {
				seen[row.device] = true
				rows = append(rows, row.disk)
			}
		case <-timeout.C:
			return rows
		case <-ctx.Done():
			return rows
		}
	}
	return rows
}

// look starts one look; the channel stays empty while an earlier one hangs.
func (d *disks) look(dir string) chan diskRow {
	answer := make(chan diskRow, 1)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.looking[dir] {
		return answer
	}
	if d.looking == nil {
		d.looking = make(map[string]bool)
	}
	d.looking[dir] = true
	go func() {
		answer <- lookAt(dir)
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.looking, dir)
	}()
	return answer
}

func lookAt(dir string) diskRow {
	var stat unix.Stat_t
	var fs unix.Statfs_t
	if unix.Stat(dir, &stat) != nil || unix.Statfs(dir, &fs) != nil || fs.Blocks == 0 {
		return diskRow{} // not there, or nothing that has a size
	}
	size := int64(fs.Bsize)
	return diskRow{device: stat.Dev, ok: true, disk: protocol.Disk{
		Path: dir, TotalBytes: int64(fs.Blocks) * size, FreeBytes: int64(fs.Bavail) * size,
	}}
}
