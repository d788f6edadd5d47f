// Package enflame detects and measures Enflame GCUs by asking efsmi.
//
// It owns the forms of that tool's output: the table, the query, dmon and the
// list. It never changes a card's settings and starts no goroutine.
//
// # What efsmi is like
//
//   - The table has the memory's total, not what is used; the query has both.
//     "Used" does not include what the driver reserves.
//   - Two devices of one board print the same serial number (S60G with SR-IOV):
//     the bus id is the identity.
//   - The frame, the word for the level, the unit of the temperature and the
//     dialect of the query's memory section change between versions. Any value may
//     be "-" or N/A, and its row counts all the same.
//   - The total depends on ECC: 49120 or 42976 MiB for the same card.
package enflame
