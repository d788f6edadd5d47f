package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"
)

// recordVersion is the form of the envelope. Within a version fields are only added.
const recordVersion = 1

// keyPattern is that of task ids (PROTOCOL.md section 3): one path component that starts
// with a letter or digit, so neither "..", nor hidden, nor able to leave its directory.
var keyPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$`)

// record is one file. Kind and key repeat the file's place, so that a file copied to
// another name or directory is not taken for what it is not.
type record struct {
	Version int             `json:"version"`
	Kind    Kind            `json:"kind"`
	Key     string          `json:"key"`
	Seq     uint64          `json:"seq"`      // order of creation, independent of the clock
	SavedAt time.Time       `json:"saved_at"` // for people; nothing is decided by it
	Data    json.RawMessage `json:"data"`
}

func validateKey(key string) error {
	if !keyPattern.MatchString(key) {
		return fmt.Errorf("%w %.80q: want 1 to 63 of [A-Za-z0-9_.-], the first a letter or digit", ErrInvalidKey, key)
	}
	return nil
}

func (r record) encode() ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// decode reads the file of kind/key. Fields it does not know are ignored: a newer release
// may have written them.
func decode(kind Kind, key string, data []byte) (record, error) {
	if len(data) == 0 {
		return record{}, errors.New("file is empty")
	}
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return record{}, fmt.Errorf("parse record: %w", err)
	}
	switch {
	case r.Version != recordVersion:
		return record{}, fmt.Errorf("record version %d, want %d", r.Version, recordVersion)
	case r.Kind != kind || r.Key != key:
		return record{}, fmt.Errorf("record of %q/%q, want %q/%q: file was copied or renamed", r.Kind, r.Key, kind, key)
	case len(r.Data) == 0 || string(r.Data) == "null":
		return record{}, errors.New("record without data")
	}
	return r, nil
}

// marshalData is what a record stores of a value: JSON as a later reader will see it.
func marshalData(v any) (json.RawMessage, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	data := bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
	if string(data) == "null" {
		return nil, errors.New("value is null")
	}
	return data, nil
}
