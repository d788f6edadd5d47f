package wire

import (
	"encoding/json"
	"fmt"
)

// Version is raised with every change that the other side must know of.
const Version = 1

// Bounds on the length of a line, without its end. A response about 16 cards in
// full is some 20 KiB, one with a CDI spec some 200 KiB.
const (
	MaxRequest  = 256 << 10
	MaxResponse = 8 << 20
)

// The methods, with the types of their parameters and results.
const (
	MethodHello = "hello" // Hello, Hello
	MethodCards = "cards" // CardsParams, Cards
	MethodCDI   = "cdi"   // CDIParams, CDI
)

// Request is one line to the helper.
type Request struct {
	ID     uint64          `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params,omitempty"`
}

// Response is one line from the helper: Result or Error.
type Response struct {
	ID     uint64          `json:"id"` // of the request
	Result json.RawMessage `json:"result,omitempty"`
	Error  *Error          `json:"error,omitempty"`
}

// The codes of an Error.
const (
	CodeRequest   = "bad_request"      // a line that is no request, or parameters that are none
	CodeProtocol  = "version_mismatch" // the other side speaks another Version
	CodeNoLibrary = "no_library"       // libnvidia-ml.so.1 is not there, or not one to work with
	CodeNVML      = "nvml"             // NVML as a whole answers with Return
	CodeStale     = "stale"            // the driver or its cards changed: the helper has to be started anew
	CodeCDI       = "no_cdi_spec"      // something that a CDI spec needs is missing
)

// Error is why there is no result.
type Error struct {
	Code    string `json:"code"`
	Return  Return `json:"return,omitempty"` // with CodeNVML
	Message string `json:"message"`
	Xids    []XID  `json:"xids,omitempty"` // with CodeStale: those not fetched yet
}

func (e *Error) Error() string { return e.Message }

// Hello is what each side says of itself.
type Hello struct {
	Protocol int    `json:"protocol"`
	Version  string `json:"version"` // of the build, for messages
}

// Refuse returns the error of a side that hears another side's Hello.
func (h Hello) Refuse(other Hello) *Error {
	if h.Protocol == other.Protocol {
		return nil
	}
	return &Error{Code: CodeProtocol, Message: fmt.Sprintf(
		"protocol %d (version %s) does not go with protocol %d (version %s): agent and helper must be of one release",
		h.Protocol, h.Version, other.Protocol, other.Version)}
}

// Return is NVML's nvmlReturn_t.
type Return int

// The return values that decide something (nvml.h).
const (
	Success            Return = 0
	NotSupported       Return = 3
	NoPermission       Return = 4
	NotFound           Return = 6
	InsufficientPower  Return = 8
	DriverNotLoaded    Return = 9
	Timeout            Return = 10
	IRQIssue           Return = 11
	LibraryNotFound    Return = 12
	FunctionNotFound   Return = 13
	CorruptedInfoROM   Return = 14
	GPULost            Return = 15
	ResetRequired      Return = 16
	OperatingSystem    Return = 17
	LibVersionMismatch Return = 18
	GPUNotFound        Return = 28
	Unknown            Return = 999
)
