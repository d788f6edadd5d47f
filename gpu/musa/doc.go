// Package musa detects and measures Moore Threads GPUs by asking mthreads-gmi.
//
// It owns the forms of that tool's output: the table with its processes, the
// query as text and as JSON, the list and the topology matrix. It never changes
// a card's settings and starts no goroutine.
//
// # What mthreads-gmi is like
//
//   - It prints "Error: No MT GPU device found." on stdout with exit status 0, and
//     nothing at all in a container without the vendor's runtime.
//   - The table has no uuid and no power, JSON has both; no form has health.
//   - Memory used may be more than the total: with the IOMMU in the way an S4000
//     says 44302MiB(32768MiB) of its 48 GiB. Both numbers are passed on.
//   - Cards in vGPU mode are named "MPC Parent"; they stay in the list.
//   - Faults of a card (XID) are in the kernel log only.
package musa
