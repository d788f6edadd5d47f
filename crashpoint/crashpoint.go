// Package crashpoint names the moments of the agent's work at which its sudden death
// matters: before and after each step that is meant to outlive it.
//
// In a normal build Reach is empty and costs nothing. Built with the tag faults, it kills
// the process with SIGKILL at the moment that the environment variable CRASHPOINT names,
// or holds what came there at the moment of HOLDPOINT, so that tests can have a real agent
// die there, or something else happen. The package decides nothing and runs no goroutine.
package crashpoint
