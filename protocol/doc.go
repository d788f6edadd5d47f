// Package protocol holds the wire types and status rules that a node's agent
// and its control plane share.
//
// It owns the JSON shapes, the enumerations, the transition table, the paths
// and headers, and the checks a task must pass before anybody acts on it. It
// never does I/O, runs no goroutine and imports nothing outside the standard
// library.
//
// Conventions of the wire, for every type here:
//
//   - A value that was not measured is absent, never 0. Such fields are
//     pointers or carry omitzero. A list field that is nil is absent; an empty
//     list that is not nil is sent as [] and means "none".
//   - Times are RFC 3339 in UTC. Sizes are bytes.
//   - Unknown fields are ignored. Unknown words of an enumeration survive
//     decoding and encoding; Known tells them apart, and nobody guesses what
//     they mean.
package protocol

// Version is the protocol number in every heartbeat. Both sides accept a
// neighbour one minor release older or newer.
const Version = 1
