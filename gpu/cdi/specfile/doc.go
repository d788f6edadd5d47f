// Package specfile keeps the files from which container engines read CDI specs.
//
// It owns the files heteroflow-<vendor>.json in one directory, and touches nothing else
// there: engines watch it, so a file is replaced as a whole and only when it would change.
// Whoever has made the others, it reads them as engines do. It starts no goroutine.
package specfile
