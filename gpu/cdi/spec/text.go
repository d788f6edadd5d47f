package spec

import (
	"encoding/json"
	"errors"
	"fmt"

	lib "tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/specs-go"
)

// MaxBytes bounds a spec. A node with sixteen cards has some 100 KiB.
const MaxBytes = 4 << 20

// Parse reads a spec, in JSON or YAML, as engines do, and checks all of it: a source
// outside of this process is not trusted to know the rules.
func Parse(data []byte) (*specs.Spec, error) {
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("read CDI spec: %d bytes, at most %d", len(data), MaxBytes)
	}
	spec, err := Decode(data)
	if err == nil {
		err = validate(spec)
	}
	if err != nil {
		return nil, fmt.Errorf("read CDI spec: %w", err)
	}
	return spec, nil
}

// Decode reads a spec, in JSON or YAML, by no rules but those of engines.
func Decode(data []byte) (*specs.Spec, error) {
	spec, err := lib.ParseSpec(data)
	if err != nil {
		return nil, err
	}
	if spec == nil {
		return nil, errors.New("it is empty")
	}
	if err := whole(spec); err != nil {
		return nil, err
	}
	return spec, nil
}

// Encode writes a spec as the text of a file, the same for the same spec.
func Encode(s *specs.Spec) ([]byte, error) {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode CDI spec: %w", err)
	}
	data = append(data, '\n')
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("CDI spec of %d bytes, at most %d", len(data), MaxBytes)
	}
	return data, nil
}
