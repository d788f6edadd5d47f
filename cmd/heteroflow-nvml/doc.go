// Command heteroflow-nvml asks NVIDIA's management library, NVML, on behalf of
// the agent. NVML is a shared object that has to be loaded into a process with a
// C library, and a driver in trouble blocks or kills that process; so it is this
// one, a child of the agent, which is static, and not the agent itself.
//
// It speaks package wire on standard input and output, changes nothing on any
// card, runs no program, and ends with its input. It holds the driver open as
// long as it runs.
//
// Goroutines: main reads requests; one answers them, one after the other; one
// waits for Xids from when NVML is open. Those two may be stuck in the driver:
// nobody waits for them, they end with the process.
package main
