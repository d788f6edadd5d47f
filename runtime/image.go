package runtime

import (
	"fmt"
	"math"
	"strings"

	"github.com/distribution/reference"
)

// Image is a local image.
type Image struct {
	ID        string   // the daemon's content id, "sha256:…"
	Refs      []string // all names it has here, normalised: registry/repository with :tag or @digest
	SizeBytes int64    // on disk, as the daemon counts it
	Labels    map[string]string
}

// PullRequest asks for one image.
type PullRequest struct {
	Ref  string
	Auth *RegistryAuth // nil: anonymous

	// Progress, if set, is called whenever bytes have moved, never concurrently. A
	// caller that hears nothing may conclude the pull has stalled.
	Progress func(PullProgress)

	// Admit, if set, is called before the first layer is fetched, with what is about to
	// come. An error of it ends the pull, which returns it; errors.Is and errors.As find
	// it.
	Admit func(Fetch) error
}

// Fetch is what a pull is about to fetch: the layers that are not on this host yet.
type Fetch struct {
	Layers      int
	PackedBytes int64 // of all of them, as they come from the registry
	PlainBytes  int64 // the part of that which is not compressed
	// Unknown is why this could not be found out; the rest then says nothing.
	Unknown error
}

// Add adds a layer of so many bytes. What a registry says is not trusted: sizes below zero
// count nothing, and sums have a greatest value.
func (f *Fetch) Add(mediaType string, bytes int64) {
	f.Layers++
	f.PackedBytes = addUp(f.PackedBytes, bytes)
	if strings.HasSuffix(mediaType, ".tar") { // else it ends in +gzip, .gzip, +zstd
		f.PlainBytes = addUp(f.PlainBytes, bytes)
	}
}

func addUp(sum, more int64) int64 {
	if more = max(0, more); more > math.MaxInt64-sum {
		return math.MaxInt64
	}
	return sum + more
}

// RegistryAuth is what a registry wants to see. It prints as *** in every format.
type RegistryAuth struct {
	Username      string
	Password      string
	IdentityToken string // instead of the two above
}

// String hides the credentials.
func (RegistryAuth) String() string { return "***" }

// GoString hides the credentials.
func (RegistryAuth) GoString() string { return "***" }

// Format hides the credentials from every verb.
func (RegistryAuth) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("***")) }

// MarshalJSON hides the credentials from logs that encode values.
func (RegistryAuth) MarshalJSON() ([]byte, error) { return []byte(`"***"`), nil }

// PullProgress is how far a pull has come, all layers together.
type PullProgress struct {
	BytesDone  int64
	BytesTotal int64 // of the layers seen so far; 0: not known yet
}

// ParseReference reads an image reference the way every registry client does:
// "ubuntu" is docker.io/library/ubuntu:latest, "localhost:5000/x" has a port and the
// tag latest. The result has a tag, a digest, or both. ErrInvalid if it is malformed.
func ParseReference(ref string) (reference.Named, error) {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return nil, fmt.Errorf("%w: image reference %q: %w", ErrInvalid, ref, err)
	}
	// Newer parsers take any first component with a capital letter for a registry's host.
	if host := reference.Domain(named); !strings.ContainsAny(host, ".:") && host != "localhost" {
		return nil, fmt.Errorf("%w: image reference %q: repository name must be lowercase", ErrInvalid, ref)
	}
	return reference.TagNameOnly(named), nil
}
