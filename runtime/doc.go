// Package runtime is the one view the agent has of a container daemon: the
// [Runtime] interface, the values that cross it and the closed set of errors it
// may return. Docker and containerd implement it in the packages below this one;
// runtimetest holds the conformance suite both must pass against a real daemon.
//
// # A container's life
//
//	Create ──► created ──Start──► running ──exit/Stop──► exited ──Start──► running …
//	                                                        └────Remove──► gone
//
// Every verb is an ensure: calling it twice, or again after a lost reply, ends in
// the same state as calling it once. Create finds an earlier container by name and
// spec hash instead of failing on the name; Start of a running container, Stop of a
// stopped one and Remove of a missing one succeed. Inspect is the truth about a
// container; what Wait and List say are hints to inspect.
//
// The package never decides what should run, knows nothing of tasks or of the control
// plane, and starts no goroutines.
package runtime
