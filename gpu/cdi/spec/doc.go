// Package spec is the text of a CDI spec: how it is read and written, the rules that it
// must obey, the names in it, and what a Source that makes one says.
//
// The agent's kinds are <vendor>.heteroflow.io/gpu: they collide neither with the vendors'
// own nor with what an administrator has generated. A device has a name by its index, one
// by its uuid where it has one, and "all" is every whole card.
//
// It knows neither files nor the host, and starts no goroutine.
package spec
