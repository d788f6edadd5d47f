// Package recipe is what the cards of each vendor need in a container: a table of device
// nodes, files and variables, whose facts stand with their sources in the vendors'
// packages, and the Source that makes specs from it.
//
// What a container needs is looked up on the host each time, and only what is there goes
// into a spec: an engine refuses the whole container for one path that is missing. Numbers
// and modes of device nodes are written down, so that what was checked here is what the
// engine makes there.
//
// It runs no program, reads no vendor's library, and starts no goroutine.
package recipe
