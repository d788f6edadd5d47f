// Package smi reads what nvidia-smi prints: query CSV of any fields, the default
// table of every generation, -L, -q as text and as XML, topo -m, the mig
// listings and what its create and destroy commands answer. It owns the meaning
// of those texts and nothing else: it runs no program, keeps no state, starts no
// goroutine, and never reports a card that the text does not show.
//
// nvidia-smi prints its errors on standard output, between valid rows as well,
// and its exit status says little (14 comes with complete rows, 0 with a lost
// card), so the text decides and the status is asked last. It has no word for
// health: a card whose handle it got and whose row holds readings is "ok".
package smi
