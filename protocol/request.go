package protocol

import (
	"encoding/json"
	"slices"
	"time"
)

// Channel is one of the three instruction channels beside the tasks.
type Channel string

// The channels.
const (
	ChannelFiles  Channel = "file"
	ChannelSlices Channel = "slice"
	ChannelImages Channel = "image"
)

// Channels lists the instruction channels.
func Channels() []Channel { return []Channel{ChannelFiles, ChannelSlices, ChannelImages} }

// RequestStatus is where a slice, image or file request stands.
type RequestStatus string

// The statuses of a request.
const (
	RequestPending   RequestStatus = "pending"
	RequestRunning   RequestStatus = "running"
	RequestCompleted RequestStatus = "completed"
	RequestFailed    RequestStatus = "failed"
	RequestCancelled RequestStatus = "cancelled" // withdrawn before it was claimed
)

// RequestStatuses lists the statuses this release knows.
func RequestStatuses() []RequestStatus {
	return []RequestStatus{RequestPending, RequestRunning, RequestCompleted, RequestFailed, RequestCancelled}
}

// Known reports whether this release knows the status.
func (s RequestStatus) Known() bool { return slices.Contains(RequestStatuses(), s) }

// CanTransitionRequest reports whether an agent may move a request from one
// status to another: pending to running (the claim), running to completed or
// failed.
func CanTransitionRequest(from, to RequestStatus) bool {
	switch from {
	case RequestPending:
		return to == RequestRunning
	case RequestRunning:
		return to == RequestCompleted || to == RequestFailed
	default:
		return false
	}
}

// Request is what the requests of all three channels share.
type Request struct {
	ID        string        `json:"id" doc:"Identifier, as of a task."`
	NodeID    string        `json:"node_id" doc:"Node it is for."`
	Status    RequestStatus `json:"status" doc:"Where it stands."`
	ExpiresAt *time.Time    `json:"expires_at,omitzero" doc:"Not to be started after this; absent: never expires."`
}

// Header returns the shared part; it lets one puller serve three channels.
func (r Request) Header() Request { return r }

// Expired reports whether the request must not be started any more.
func (r Request) Expired(now time.Time) bool { return r.ExpiresAt != nil && now.After(*r.ExpiresAt) }

// RequestList is the answer to a request list call, oldest request first. T
// is SliceRequest, ImageRequest or FileRequest.
type RequestList[T any] struct {
	Requests []T `json:"requests" doc:"Requests, oldest first."`
}

// RequestUpdate is the body of a request PUT: the claim, or the outcome. A
// compare-and-set like that of a task.
type RequestUpdate struct {
	NodeID       string          `json:"node_id" doc:"The caller's node; must equal the stored one."`
	FromStatus   RequestStatus   `json:"from_status" doc:"Status the caller believes is stored."`
	Status       RequestStatus   `json:"status" doc:"New status."`
	Result       json.RawMessage `json:"result,omitempty" doc:"What was done: a SliceResult, ImageResult or FileResult; also with failed, when something was done before the failure."`
	Reason       RequestReason   `json:"reason,omitempty" doc:"Why it failed, in one stable word."`
	ErrorMessage string          `json:"error_message,omitempty" doc:"What happened, for people."`
}

// RequestReason is the short stable word that says why a request failed.
type RequestReason string

// The reasons of a failed request.
const (
	RequestExpired     RequestReason = "expired"     // expires_at had passed; nothing was started
	RequestInvalid     RequestReason = "invalid"     // refused by the agent's own checks; nothing was started
	RequestInterrupted RequestReason = "interrupted" // the agent restarted in the middle; never run again
	RequestTimeout     RequestReason = "timeout"     // ran longer than its limit
	RequestError       RequestReason = "error"       // tried and failed
)

// RequestReasons lists the reasons this release knows.
func RequestReasons() []RequestReason {
	return []RequestReason{RequestExpired, RequestInvalid, RequestInterrupted, RequestTimeout, RequestError}
}

// Known reports whether this release knows the reason.
func (r RequestReason) Known() bool { return slices.Contains(RequestReasons(), r) }
