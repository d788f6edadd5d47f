// Package pathfence decides which paths of the host a task, or a file instruction, may
// touch. It owns that decision and nothing else: it creates, changes and mounts nothing,
// and starts no goroutines.
//
// # The rules
//
// A path must lie beneath an allowed directory both as it is written and as the kernel
// resolves it, and must neither be, nor lie beneath, nor contain a denied one. Denied wins.
// Containing counts because a mounted directory shows all that is below it.
//
// What is compared is the object the kernel opened, not a string: its path as the kernel
// names it, its device and inode (a hard link to the agent's key file is the key file), and
// the place on its file system (/data/docker is denied when /var/lib/docker is a link to it
// or a bind mount of it, and so is a directory below which such a mount lies). Opening is
// O_PATH, which has no side effect on devices and pipes; the result is judged after the
// kernel has followed every link, so no openat2 is needed, which RHEL 8's kernel lacks.
//
// # What remains between check and use
//
// File work through [Fence.OpenRoot] has no window: the root is the object that was judged,
// and [os.Root] follows no link out of it. A bind mount has one, because the daemon takes a
// path and resolves it again: a tenant who can write a parent directory of the path may
// swap it in between. Callers narrow this by passing [Resolved.Path], which has no links
// left, and close it by [Resolved.VerifyIn] once the mount exists. With containerd that
// is between creating a task and starting it, so nothing ran; with Docker it is after the
// start, so a swap is found and the container stopped, but it has run for a moment, and one
// whose program has ended by then is not found. (Handing the daemon /proc/self/fd/N instead
// would be exact but cannot be mounted again after a restart.)
//
// A hard link to a file beneath a denied directory cannot be told from a file of its own:
// the kernel keeps no list of names. Making one takes write access to the same file system
// from outside a container.
//
// Every call blocks for as long as the file system does: the mount of a dead NFS server
// blocks it without end. Call it from the goroutine of the one task that needs the answer.
package pathfence
