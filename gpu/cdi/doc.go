// Package cdi makes the Container Device Interface specs from which container engines
// take a node's cards, and finds in them what a container is to be given.
//
// A Generator makes a Catalog of what is there now: of each vendor the spec that a Source
// has made (package recipe, or a vendor's own library), as the file that engines read
// (package specfile). A Catalog names the devices that are asked for, and says what they
// change in a container, for engines without CDI, too (package edits). Nothing is
// remembered from one Catalog to the next, so nothing can be stale.
//
// Whether a card is free is not this package's business. It runs no program, reads no
// vendor's library, and starts no goroutine.
package cdi
