package protocol

import "slices"

// ImageAction is what an image request asks for.
type ImageAction string

// The actions of an image request.
const (
	ImageCheck ImageAction = "check" // is it on the node?
	ImagePull  ImageAction = "pull"  // bring it here ahead of the tasks
)

// ImageActions lists the actions this release knows.
func ImageActions() []ImageAction { return []ImageAction{ImageCheck, ImagePull} }

// Known reports whether this release knows the action.
func (a ImageAction) Known() bool { return slices.Contains(ImageActions(), a) }

// ImageMatch is how the reference of an image request is compared.
type ImageMatch string

// The ways to compare. An absent one is exact.
const (
	MatchExact            ImageMatch = "exact"
	MatchRepositoryPrefix ImageMatch = "repository_prefix" // check only
)

// ImageMatches lists the ways this release knows.
func ImageMatches() []ImageMatch { return []ImageMatch{MatchExact, MatchRepositoryPrefix} }

// Known reports whether this release knows the way.
func (m ImageMatch) Known() bool { return slices.Contains(ImageMatches(), m) }

// ImageRequest is an operator's check or pre-pull of an image.
type ImageRequest struct {
	Request
	Action       ImageAction   `json:"action" doc:"What to do."`
	Image        string        `json:"image" doc:"Image reference, tag or digest form, or a repository prefix."`
	Match        ImageMatch    `json:"match,omitempty" doc:"How the reference is compared; absent: exact."`
	RegistryAuth *RegistryAuth `json:"registry_auth,omitzero" doc:"Credentials for this pull only."`
}

// ImageResult is what an image request found or did.
type ImageResult struct {
	Present         bool       `json:"present" doc:"At least one image that matches is on the node."`
	Images          []ImageRef `json:"images,omitempty" doc:"The images that match."`
	PulledBytes     *int64     `json:"pulled_bytes,omitzero" doc:"Bytes received; absent: nothing was pulled, or not counted."`
	DurationSeconds *float64   `json:"duration_seconds,omitzero" doc:"How long it took."`
}

// ImageRef is one image on a node.
type ImageRef struct {
	Ref       string `json:"ref" doc:"Reference, exactly as the runtime has it."`
	Digest    string `json:"digest,omitempty" doc:"Digest of its manifest."`
	SizeBytes *int64 `json:"size_bytes,omitzero" doc:"Size in bytes."`
}
