// Package xid holds what NVIDIA's driver errors (Xid) mean for a card: the
// policy as data, and the lines of the kernel log that carry them. It reads
// texts and answers questions; it keeps no state and starts no goroutine.
//
// The actions are the column "Immediate Action" of NVIDIA's Xid catalogue,
// docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html, as of October
// 2025. Where lists in use elsewhere disagree (109 is ignored by the Kubernetes
// device plugin, 94 makes it give up a card), the catalogue stands.
package xid

import "slices"

// Class is what an Xid asks for.
type Class string

// The classes, mildest first.
const (
	Ignore Class = "ignore" // information, or the echo of another error
	App    Class = "app"    // the program failed; the card goes on
	Check  Class = "check"  // depends on what else happened: told, not acted on
	Reset  Class = "reset"  // the card is unusable until it is reset
	Reboot Class = "reboot" // the card is unusable until the machine is restarted
)

// Takes reports whether a card with an Xid of this class must not be given to a
// task until there is evidence that it is back.
func (c Class) Takes() bool { return c == Reset || c == Reboot }

// Recovery is the evidence upon which a card is given back.
type Recovery string

// The kinds of evidence.
const (
	None Recovery = "" // the card was never taken
	// Acquitted: the driver says afterwards that the card needs no recovery (GPU
	// Recovery Action, drivers from 570 on; Reset Required, from 535). Readings prove nothing: they
	// are fine on a card with uncontained memory errors.
	Acquitted Recovery = "driver_acquits"
	// Answers: the card answers again. A card that fell off the bus cannot.
	Answers Recovery = "card_answers"
)

// Recovery returns what gives a card of this class back.
func (c Class) Recovery() Recovery {
	switch c {
	case Reset:
		return Acquitted
	case Reboot:
		return Answers
	case Ignore, App, Check:
	}
	return None
}

// catalogue has the codes by class. A code that is in no list is Check: NVIDIA's
// action for it is for a person (contact support, check the cables), a workflow
// that depends on other errors, or not said.
var catalogue = []struct {
	class Class
	codes []int
}{
	{Ignore, []int{
		14, 37, 38, 43, 44, 63, 66, 67, 92, 93, 106, 107, 108, 121, 137, 141, 152, 153, 157, 160, 161,
		45,  // preemptive removal: follows another error
		154, // the recovery action changed: the action itself is asked for
	}},
	{App, []int{
		8, 11, 13, 25, 31, 32, 39, 40, 41, 60, 68, 69, 70, 71, 72, 75, 76, 77, 80, 82, 83, 84, 85, 86,
		88, 89, 94, 96, 97, 98, 99, 100, 101, 102, 103, 104, 105, 126, 127, 128, 129, 130, 131, 132,
		133, 134, 135, 139,
	}},
	{Reset, []int{46, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158}},
	{Reboot, []int{79}},
}

// names are those of the Xids that take a card or are seen often.
var names = map[int]string{
	13: "graphics engine exception", 31: "memory page fault", 43: "program stopped", 45: "preemptive removal",
	46: "stopped processing", 48: "double bit ECC error", 62: "internal micro-controller halt",
	63: "row remapping", 64: "row remapping failure", 74: "NVLink error", 79: "fallen off the bus",
	92: "high single bit ECC rate", 94: "contained memory error", 95: "uncontained memory error",
	109: "context switch timeout", 110: "security fault", 119: "GSP RPC timeout", 120: "GSP error",
	121: "C2C link error", 136: "link training failed", 140: "unrecovered ECC error",
	143: "initialization error", 154: "recovery action changed", 155: "NVLink software error",
	156: "resource retirement", 158: "fatal timeout",
}

// ClassOf returns the class of a code; Check for one that the catalogue does not
// have, or has no action for.
func ClassOf(code int) Class {
	for _, c := range catalogue {
		if slices.Contains(c.codes, code) {
			return c.class
		}
	}
	return Check
}

// Name returns a few words for a code, or "".
func Name(code int) string { return names[code] }
