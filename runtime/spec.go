package runtime

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// LabelSpecHash is the label Create adds: the hash of the spec the container was made
// from, by which a second Create knows its own work.
const LabelSpecHash = "io.heteroflow.spec-hash"

// MaxLabelBytes bounds all label keys and values of a container together. Both daemons
// load every label on every list call.
const MaxLabelBytes = 32 << 10

// Spec is everything a container is made from. Its JSON form is what is hashed, so a
// field may be added with omitzero but never renamed.
type Spec struct {
	Name       string            `json:"name"`
	Image      string            `json:"image"`
	Labels     map[string]string `json:"labels,omitempty"`
	Entrypoint []string          `json:"entrypoint,omitempty"` // replaces the image's; empty: the image's
	Args       []string          `json:"args,omitempty"`       // replaces the image's; empty: the image's unless Entrypoint is set
	Env        []string          `json:"env,omitempty"`        // NAME=value, over the image's
	WorkingDir string            `json:"working_dir,omitempty"`
	User       string            `json:"user,omitempty"` // user[:group], names or ids, resolved in the image
	Hostname   string            `json:"hostname,omitempty"`
	Mounts     []Mount           `json:"mounts,omitempty"`
	CDIDevices []string          `json:"cdi_devices,omitempty"` // qualified CDI names, resolved from Info.CDIDirs
	Devices    []Device          `json:"devices,omitempty"`     // without CDI
	Groups     []uint32          `json:"groups,omitempty"`      // more groups of the process, by id
	Network    Network           `json:"network"`
	IPC        IPC               `json:"ipc"`
	Resources  Resources         `json:"resources"`
	Logs       LogLimits         `json:"logs"`
}

// Mount binds a directory or file of the host into the container.
type Mount struct {
	Source   string `json:"source"` // absolute host path; must exist: it is never created
	Target   string `json:"target"` // absolute container path
	ReadOnly bool   `json:"read_only,omitempty"`
}

// Network is how the container reaches the world and is reached.
type Network struct {
	Mode  NetworkMode `json:"mode"`
	Ports []Port      `json:"ports,omitempty"` // only with NetworkBridge
}

// NetworkMode is the kind of network a container has.
type NetworkMode string

// The network modes.
const (
	NetworkHost   NetworkMode = "host"
	NetworkBridge NetworkMode = "bridge"
	NetworkNone   NetworkMode = "none"
)

// Port publishes a container's port on the host's addresses.
type Port struct {
	Container uint16 `json:"container"`
	Host      uint16 `json:"host"`
	Protocol  string `json:"protocol"` // "tcp" or "udp"
}

// IPC tells whose SysV and POSIX shared memory the container sees.
type IPC string

// The IPC modes.
const (
	IPCPrivate IPC = "private"
	IPCHost    IPC = "host"
)

// Resources are the container's limits; 0 is no limit, for ShmSizeBytes the
// daemon's default (64 MiB).
type Resources struct {
	CPUs         float64 `json:"cpus,omitempty"`         // cores, 1.5 is one and a half
	MemoryBytes  int64   `json:"memory_bytes,omitempty"` // memory and swap together
	PidsLimit    int64   `json:"pids_limit,omitempty"`
	ShmSizeBytes int64   `json:"shm_size_bytes,omitempty"` // not with IPCHost: the host's /dev/shm is used
}

// LogLimits bounds what a container's output may take on disk: MaxFiles files of
// MaxBytes each. Both must be positive, so that no container can fill the disk.
type LogLimits struct {
	MaxBytes int64 `json:"max_bytes"`
	MaxFiles int   `json:"max_files"`
}

// Hash identifies the spec: equal specs have equal hashes across agent versions
// as long as they use the same fields.
func (s Spec) Hash() string {
	data, err := json.Marshal(s)
	if err != nil {
		// Strings, numbers and maps of strings always marshal.
		panic(fmt.Sprintf("marshal runtime.Spec: %v", err))
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

var namePattern = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{1,127}$`)

// Validate returns all that no daemon could make sense of, each matching ErrInvalid.
func (s Spec) Validate() error {
	var errs problems
	if !namePattern.MatchString(s.Name) {
		errs.add("name %q: want 2 to 128 of [a-zA-Z0-9_.-], the first a letter or digit", s.Name)
	}
	if _, err := ParseReference(s.Image); err != nil {
		errs = append(errs, err)
	}
	if size := labelBytes(s.Labels); size > MaxLabelBytes {
		errs.add("labels: %d bytes in all, at most %d can be stored with a container", size, MaxLabelBytes)
	}
	for i, kv := range s.Env {
		if name, _, ok := strings.Cut(kv, "="); !ok || name == "" {
			errs.add("env[%d]: want NAME=value", i)
		}
	}
	texts := s.texts()
	for _, where := range slices.Sorted(maps.Keys(texts)) {
		if text := texts[where]; !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			errs.add("%s: contains a NUL byte or is not valid UTF-8", where)
		}
	}
	if s.WorkingDir != "" && !path.IsAbs(s.WorkingDir) {
		errs.add("working dir %q: want an absolute path", s.WorkingDir)
	}
	for i, m := range s.Mounts {
		m.validate(i, &errs)
	}
	s.validateDevices(&errs)
	if s.Logs.MaxBytes <= 0 || s.Logs.MaxFiles <= 0 {
		errs.add("logs: max bytes %d and max files %d must both be positive", s.Logs.MaxBytes, s.Logs.MaxFiles)
	}
	return errors.Join(append(errs, s.Network.validate(), s.Resources.validate(s.IPC))...)
}

type problems []error

func (p *problems) add(format string, args ...any) {
	*p = append(*p, fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...))
}

func (m Mount) validate(i int, errs *problems) {
	if !path.IsAbs(m.Source) || path.Clean(m.Source) != m.Source {
		errs.add("mounts[%d].source %q: want a clean absolute path", i, m.Source)
	}
	if !path.IsAbs(m.Target) || path.Clean(m.Target) != m.Target || m.Target == "/" {
		errs.add("mounts[%d].target %q: want a clean absolute path other than /", i, m.Target)
	}
}

// texts returns every free text of the spec by where it stands. They end up in JSON,
// be it the Engine API's or OCI's, which replaces what is not UTF-8 without a word,
// and in C strings, which end at a NUL.
func (s Spec) texts() map[string]string {
	texts := map[string]string{"working dir": s.WorkingDir, "user": s.User, "hostname": s.Hostname}
	for name, list := range map[string][]string{"entrypoint": s.Entrypoint, "args": s.Args, "env": s.Env} {
		for i, text := range list {
			texts[fmt.Sprintf("%s[%d]", name, i)] = text
		}
	}
	for i, m := range s.Mounts {
		texts[fmt.Sprintf("mounts[%d]", i)] = m.Source + m.Target
	}
	for i, d := range s.Devices {
		texts[fmt.Sprintf("devices[%d]", i)] = d.HostPath + d.Path
	}
	for key, value := range s.Labels {
		texts[fmt.Sprintf("label %q", key)] = key + value
	}
	return texts
}

func labelBytes(labels map[string]string) int {
	n := 0
	for k, v := range labels {
		n += len(k) + len(v)
	}
	return n
}

func (n Network) validate() error {
	switch n.Mode {
	case NetworkBridge:
	case NetworkHost, NetworkNone:
		if len(n.Ports) > 0 {
			return fmt.Errorf("%w: network %s: ports can be published only on a bridge network", ErrInvalid, n.Mode)
		}
	default:
		return fmt.Errorf("%w: network mode %q: want host, bridge or none", ErrInvalid, n.Mode)
	}
	for i, p := range n.Ports {
		if p.Container == 0 || p.Host == 0 || (p.Protocol != "tcp" && p.Protocol != "udp") {
			return fmt.Errorf("%w: ports[%d] %d:%d/%s: want two ports from 1 and tcp or udp", ErrInvalid, i, p.Host, p.Container, p.Protocol)
		}
	}
	return nil
}

func (r Resources) validate(ipc IPC) error {
	if r.CPUs < 0 || r.MemoryBytes < 0 || r.PidsLimit < 0 || r.ShmSizeBytes < 0 {
		return fmt.Errorf("%w: resources: a limit is negative", ErrInvalid)
	}
	switch ipc {
	case IPCPrivate:
	case IPCHost:
		if r.ShmSizeBytes > 0 {
			return fmt.Errorf("%w: shm size: the host's /dev/shm cannot be sized by a container with ipc host", ErrInvalid)
		}
	default:
		return fmt.Errorf("%w: ipc %q: want private or host", ErrInvalid, ipc)
	}
	return nil
}
