// Package iluvatar detects and measures Iluvatar CoreX GPUs by asking ixsmi.
//
// It owns the forms of that tool's output: XML, the table with its processes,
// the query as text and as CSV, the list, dmon and the topology matrix. It never
// changes a card's settings and starts no goroutine.
//
// # What ixsmi is like
//
//   - It imitates nvidia-smi. Field names of its CSV differ between versions, and
//     one unknown field fails the whole query; XML has everything.
//   - It lies, with its libraries, in a versioned directory of its own.
//   - Of a board with two chips one chip has no power and the other has the
//     board's: the number is passed on where it is printed, and not halved.
//   - A hung card reads 0C, 65535W and 100%: those numbers mean nothing, and the
//     card is reported as failed. After a reset it may be gone from the list, and
//     the indices behind it shift: uuid and bus id are the identity.
package iluvatar
