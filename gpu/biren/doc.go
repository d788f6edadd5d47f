// Package biren detects and measures Biren GPUs by asking brsmi.
//
// No output of brsmi is public: this package is written to what programs and
// documents that use the tool rely on, and has met no card. It therefore reads
// one form only, the CSV of --query-gpu, takes every field as optional, and says
// so where it does not understand. It never changes a card's settings and starts
// no goroutine.
//
// # What is known of brsmi
//
//   - "brsmi gpu --query-gpu=FIELDS --format=csv,noheader,nounits" prints a line
//     for each card. The fields index, memory.used, memory.free, serial,
//     temperature.gpu and svi.mode.current exist together, and name does.
//   - memory.used is in MiB, by how it is used: a card of 32 GiB shows up to 32512.
//   - A card may be split in hardware (SVI) into two or four instances, which
//     svi.mode.current says; each has a device node of its own. They are not
//     listed here, and sharing is not reported as a capability.
package biren
