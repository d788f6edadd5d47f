package spec

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

	"github.com/heteroflow/node-agent/gpu/text"
)

// validate holds a spec against the rules of CDI, those that its library does not check
// among them (SPEC.md: the form of the kind, the path and the timeout of a hook), and
// against what CDI leaves to engines: paths that are absolute and clean, and texts that
// survive JSON and C strings.
func validate(s *specs.Spec) error {
	if err := specs.ValidateVersion(s); err != nil {
		return err
	}
	errs := []error{validateKind(s.Kind), validateEdits(&s.ContainerEdits)}
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
		errs = append(errs, CheckName(d.Name))
		if isEmpty(&d.ContainerEdits) {
			errs = append(errs, fmt.Errorf("device %q: it edits nothing", d.Name))
		}
		if err := validateEdits(&d.ContainerEdits); err != nil {
			errs = append(errs, fmt.Errorf("device %q: %w", d.Name, err))
		}
	}
	return errors.Join(errs...)
}

// dnsLabel is a part of a DNS name between dots.
var dnsLabel = text.Lazy(`^[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?$`)

// Bounds of the parts of a kind.
const (
	maxVendor = 253
	maxClass  = 63
)

func validateKind(kind string) error {
	vendor, class := parser.ParseQualifier(kind)
	if err := errors.Join(parser.ValidateVendorName(vendor), parser.ValidateClassName(class)); err != nil {
		return fmt.Errorf("kind %q: %w", kind, err)
	}
	notLabel := func(part string) bool { return !dnsLabel.MatchString(part) }
	if len(vendor) > maxVendor || slices.ContainsFunc(strings.Split(vendor, "."), notLabel) {
		return fmt.Errorf("kind %q: the vendor is no DNS subdomain", kind)
	}
	if len(class) > maxClass {
		return fmt.Errorf("kind %q: a class has at most %d characters", kind, maxClass)
	}
	return nil
}

// isEmpty tells whether edits change nothing, which a device must not.
func isEmpty(e *specs.ContainerEdits) bool {
	return len(e.Env)+len(e.DeviceNodes)+len(e.Mounts)+len(e.Hooks)+len(e.NetDevices)+len(e.AdditionalGIDs) == 0 && e.IntelRdt == nil
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
		if h.Timeout != nil && *h.Timeout <= 0 {
			errs = append(errs, fmt.Errorf("hook %s: a timeout of %d s", h.Path, *h.Timeout))
		}
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
