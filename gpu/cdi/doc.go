// Package cdi makes the Container Device Interface specs from which container engines
// take a node's cards, names the devices in them, and spells their edits out for engines
// that do not know CDI.
//
// It owns the files heteroflow-*.json in the directory of specs, and touches nothing else
// there. The kinds are <vendor>.heteroflow.io/gpu: they collide neither with the vendors'
// own nor with what an administrator has generated. A device has a name by its index, one
// by its uuid where it has one, and "all" is every whole card.
//
// What a container needs of the host is looked up each time, and only what is there goes
// into a spec: an engine refuses the whole container for one path that is missing. Numbers
// and modes of device nodes are written down, so that what was checked here is what the
// engine makes there.
//
// Whether a card is free is not this package's business. It runs no program, reads no
// vendor's library, and starts no goroutine.
package cdi
