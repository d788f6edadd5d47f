// Package cambricon detects and measures Cambricon MLUs by asking cnmon.
//
// It owns the forms of cnmon's output: the table, the list, "cnmon info" as text
// and JSON, and the topology.
// It never changes a card's settings and starts no goroutine.
//
// # What cnmon is like
//
//   - "cnmon info" says almost everything in one command, health too, which the
//     table has not; versions 4 and older leave out bus id, uuid, health and the
//     power cap.
//   - A board with two chips (MLU370-X8) is two cards here, each with the board's
//     power; nothing that cnmon prints tells which belong together.
package cambricon
