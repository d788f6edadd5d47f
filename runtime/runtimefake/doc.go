// Package runtimefake is a container daemon in memory for tests: it behaves like one, as
// far as a program that uses runtime.Runtime can tell, and misbehaves when told to.
//
// A [Daemon] holds images, each with the [Program] its containers run, and containers.
// It lives as long as the test; a [Runtime] is one client's connection to it and can be
// cut for good, as a killed client's is. Time is the clock of package time, so that in a
// testing/synctest bubble a program that runs for an hour takes none.
//
// The daemon starts no goroutines: programs end by timers.
package runtimefake
