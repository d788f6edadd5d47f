package protocol

import (
	"fmt"
	"io"
)

// Secret is a password or token. It is written to JSON as it is, because the
// wire needs it, and prints as *** with every verb of fmt. Two ways round that
// remain. A logger that encodes values as JSON by reflection would show it:
// log a Task or a RegistryAuth itself (both have a String method), never
// their JSON. And fmt cannot call methods on an unexported field: a struct
// that keeps a Secret in one must not be printed whole.
type Secret string

const redacted = "***"

// Format implements fmt.Formatter for every verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// String returns ***; Reveal returns the secret.
func (Secret) String() string { return redacted }

// GoString returns ***.
func (Secret) GoString() string { return redacted }

// Reveal returns the secret itself, for the call that needs it.
func (s Secret) Reveal() string { return string(s) }
