// Package journal is the agent's durable state: one small JSON file per record, so that
// what the agent owes the control plane survives kill -9 and power loss.
//
// # On disk
//
//	<state dir>/results/<task id>.json     terminal results not yet delivered
//	<state dir>/slices/<request id>.json   slice instructions: intent and outcome
//	<state dir>/tasks/<task id>.json       what the agent did for a task
//	<state dir>/node/<key>.json            facts about this node, such as its id
//	<state dir>/gpus/cards.json            which cards were seen, so that a vanished one is missed
//	<state dir>/operator/<name>.json       what an operator decided; written by commands, not by the agent
//	<state dir>/machine/identity.json      whose machine wrote all this
//	<state dir>/agent.pid                  a hint only: the lock is a flock on the directory
//
// Directories are 0700, files 0600 and indented: an operator reads them with cat. A record
// is written to a temporary file, fsynced, renamed over the old one, and the directory is
// fsynced: after a crash at any moment there is the old record or the new one, whole.
// There is no checksum, so that a record can be mended by hand; a bit flipped inside a
// value is not noticed.
//
// # What goes wrong, and then
//
// A file that is empty, cut, not ours or unreadable is renamed to <name>.corrupt-<UTC time>,
// logged, listed by [Journal.Quarantined] and treated as absent. State that another machine
// wrote (a cloned disk) moves to foreign-<UTC time>/ as a whole and is never read again.
// A full or read-only disk fails the write with [ErrNotDurable], but the record is kept in
// memory, answers reads, and [Journal.Flush] writes it later. A full collection gives up its
// oldest settled record, and refuses with [ErrFull] when none is settled.
//
// The package never deletes what it cannot read, never decides what a record means, holds
// no more records than its limits say, and starts no goroutines. The state directory must
// be on a local file system: rename is not atomic, and flock not dependable, on NFS.
package journal
