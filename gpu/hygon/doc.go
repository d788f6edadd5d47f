// Package hygon detects and measures Hygon DCUs (newer name: HCU) by asking
// hy-smi, or the rocm-smi of older toolkits.
//
// It owns the forms of that tool's output: the table, the "HCU[0] : Key: value"
// lines, JSON, CSV, processes, topology and virtual devices. It never changes a
// card's settings and starts no goroutine.
//
// # What hy-smi is like
//
//   - It is a fork of AMD's rocm-smi; where only a rocm-smi is installed, what it
//     prints decides whose it is.
//   - The table has neither name, nor bytes of memory, nor health; its columns
//     vary. JSON has the rest, every value a string, and not always the commas
//     between them. No single command has all.
//   - It prints its footer also when it failed.
package hygon
