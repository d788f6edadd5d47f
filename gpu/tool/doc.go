// Package tool finds and runs the vendors' command-line tools. It is the only
// place that uses os/exec.
//
// A driver can block in the kernel, and then its tool ignores every signal and
// wait(2) on it never returns. So a child is given a deadline, then SIGTERM and
// SIGKILL for its whole process group, and is then abandoned: Run returns a
// HungError while the child may still exist. While it does, no second copy of
// that tool is started. Output is capped; standard input is empty (or a fixed
// text); the environment is minimal, with LC_ALL=C. Nothing goes through a shell.
//
// Copies of one program take turns, so that of several callers at most one copy
// can get stuck. A Process is a long-lived child, spoken to over its streams,
// with the same bounds.
//
// The same calls can be recorded into a directory (Recorder) and answered from
// one (Replay): the format of bug reports and of tests.
//
// Goroutines: each child has one that owns it and lives until it is reaped, which
// for a hung child is after Run or Close returned, and one for each stream that
// is read into memory, which ends with Run or Close.
package tool
