package cdi

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	lib "tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/pkg/parser"
	"tags.cncf.io/container-device-interface/specs-go"
)

// MaxSpecBytes bounds a spec. A node with sixteen cards has some 100 KiB.
const MaxSpecBytes = 4 << 20

// ParseSpec reads a spec, in JSON or YAML, as engines do, and checks all of it: a source
// outside of this process is not trusted to know the rules.
func ParseSpec(data []byte) (*specs.Spec, error) {
	if len(data) > MaxSpecBytes {
		return nil, fmt.Errorf("read CDI spec: %d bytes, at most %d", len(data), MaxSpecBytes)
	}
	spec, err := lib.ParseSpec(data)
	if err != nil {
		return nil, fmt.Errorf("read CDI spec: %w", err)
	}
	if spec == nil {
		return nil, errors.New("read CDI spec: it is empty")
	}
	if err := whole(spec); err != nil {
		return nil, fmt.Errorf("read CDI spec: %w", err)
	}
	if err := validate(spec); err != nil {
		return nil, fmt.Errorf("read CDI spec: %w", err)
	}
	return spec, nil
}

// checkName tells what CDI has against the name of a device.
func checkName(name string) error { return parser.ValidateDeviceName(name) }

// validate holds a spec against the rules of CDI, and against what CDI leaves to engines:
// paths that are absolute and clean, and texts that survive JSON and C strings.
func validate(s *specs.Spec) error {
	if err := specs.ValidateVersion(s); err != nil {
		return err
	}
	vendor, class := parser.ParseQualifier(s.Kind)
	errs := []error{parser.ValidateVendorName(vendor), parser.ValidateClassName(class), validateEdits(&s.ContainerEdits)}
	if len(s.Devices) == 0 {
		errs = append(errs, errors.New("no devices"))
	}
	seen := map[string]bool{}
	for i := range s.Devices {
		d := &s.Devices[i]
		if seen[d.Name] {
			errs = append(errs, fmt.Errorf("device %q twice", d.Name))
		}
		seen[d.Name] = true
		errs = append(errs, checkName(d.Name))
		if err := validateEdits(&d.ContainerEdits); err != nil {
			errs = append(errs, fmt.Errorf("device %q: %w", d.Name, err))
		}
	}
	return errors.Join(errs...)
}

func validateEdits(e *specs.ContainerEdits) error {
	errs := []error{(&lib.ContainerEdits{ContainerEdits: e}).Validate()}
	for _, kv := range e.Env {
		if !utf8.ValidString(kv) || strings.ContainsRune(kv, 0) {
			errs = append(errs, fmt.Errorf("env %q: contains a NUL byte or is not valid UTF-8", kv))
		}
	}
	check := func(what, name string) {
		if !path.IsAbs(name) || path.Clean(name) != name || !utf8.ValidString(name) || strings.ContainsRune(name, 0) {
			errs = append(errs, fmt.Errorf("%s %q: want a clean absolute path", what, name))
		}
	}
	for _, n := range e.DeviceNodes {
		check("device node", n.Path)
		if n.HostPath != "" {
			check("device node on the host", n.HostPath)
		}
	}
	for _, m := range e.Mounts {
		check("mount", m.HostPath)
		check("mount point", m.ContainerPath)
	}
	for _, h := range e.Hooks {
		check("hook", h.Path)
	}
	return errors.Join(errs...)
}

// whole tells whether a spec has none of the empty entries that a list may hold in YAML,
// and that the library's own checks do not survive. It comes before any of them.
func whole(s *specs.Spec) error {
	edits := []*specs.ContainerEdits{&s.ContainerEdits}
	for i := range s.Devices {
		edits = append(edits, &s.Devices[i].ContainerEdits)
	}
	for _, e := range edits {
		if slices.Contains(e.DeviceNodes, nil) || slices.Contains(e.Mounts, nil) ||
			slices.Contains(e.Hooks, nil) || slices.Contains(e.NetDevices, nil) {
			return errors.New("a list of edits has an empty entry")
		}
	}
	return nil
}
