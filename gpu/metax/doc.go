// Package metax detects and measures MetaX GPUs by asking mx-smi, or ht-smi, as
// the tool is called on cards sold under another name (Mars).
//
// It owns the forms of that tool's output: the table with its processes, the log
// of the --show options and of -L, JSON, dmon and the topology matrix. It never
// changes a card's settings and starts no goroutine.
//
// # What mx-smi is like
//
//   - The table changed twice: in 2.1 it has no cap and no state, since 2.2.9 the
//     number of the board and that of the GPU stand in two cells.
//   - It names a card "MetaX C500" in the table and "MXC500" in the log; each is
//     passed on as printed.
//   - In a container -L lists the host's other cards too, as "Not Available(MetaX
//     Sysfs File Unaccessible)". They are not faulty, they are not ours.
//   - Memory "vram" is the card's; "xtt" is the host's memory and not counted.
//   - "Available" says nothing about the links between cards: see the topology.
package metax
