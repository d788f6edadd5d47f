// Package report holds what the workload prints about the container it runs in,
// so that a test decodes exactly what the workload encoded. It only holds
// types: it reads nothing and runs no goroutine.
package report

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Text is a string of any bytes. In JSON it is a string where it is valid UTF-8
// and {"base64":"…"} where it is not, so that no byte is replaced on the way.
type Text string

type encodedText struct {
	Base64 []byte `json:"base64"`
}

// MarshalJSON implements json.Marshaler.
func (t Text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(encodedText{[]byte(t)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *Text) UnmarshalJSON(data []byte) error {
	var plain string
	if json.Unmarshal(data, &plain) == nil {
		*t = Text(plain)
		return nil
	}
	var encoded encodedText
	if err := json.Unmarshal(data, &encoded); err != nil {
		return fmt.Errorf("decode text: %w", err)
	}
	*t = Text(encoded.Base64)
	return nil
}

// Environment is what print-env prints: the K=V strings in the order in which
// the kernel passed them, duplicates included.
type Environment []Text

// Get returns the value of the last entry for key, the one most programs see.
func (e Environment) Get(key string) (string, bool) {
	for _, text := range slices.Backward(e) {
		if value, ok := strings.CutPrefix(string(text), key+"="); ok {
			return value, true
		}
	}
	return "", false
}

// Devices is what print-devices prints.
type Devices struct {
	Nodes  []Node      `json:"nodes"`
	Mounts []Text      `json:"mounts"` // mount points of /proc/self/mountinfo, in its order
	Env    Environment `json:"env"`
}

// Node is a device node under /dev. Access says which open(2) worked: "rw",
// "r", "w" or "" for none; Errno and Error are those of the attempt to open it
// for reading and writing. A directory that could not be read is a Node with
// only Path and Error.
type Node struct {
	Path   Text   `json:"path"`
	Type   string `json:"type,omitempty"` // "char" or "block"
	Major  uint32 `json:"major"`
	Minor  uint32 `json:"minor"`
	Mode   string `json:"mode,omitempty"` // permission bits, octal, as "0666"
	Access string `json:"access"`
	Errno  int    `json:"errno,omitempty"`
	Error  string `json:"error,omitempty"`
}

// Self is what print-self prints. Absent means that it could not be read.
type Self struct {
	UID      int    `json:"uid"`
	GID      int    `json:"gid"`
	Groups   []int  `json:"groups"`
	Cwd      Text   `json:"cwd"`
	Hostname string `json:"hostname"`
	// Status holds the lines of /proc/self/status on privileges: CapEff,
	// CapBnd, NoNewPrivs, Seccomp.
	Status map[string]string `json:"status"`
	// Cgroup holds the limit files that are visible under /sys/fs/cgroup, by
	// name, trimmed: memory.max and its like on cgroup v2, their older names on
	// v1. An engine that does not mount the cgroups leaves it empty.
	Cgroup map[string]string `json:"cgroup"`
	// ShmBytes is the size of the file system at /dev/shm.
	ShmBytes *uint64 `json:"shm_bytes,omitempty"`
	// IPCNamespace is the inode of the IPC namespace.
	IPCNamespace uint64      `json:"ipc_namespace"`
	Interfaces   []Interface `json:"interfaces"`
	// Writable answers for each path of --writable whether the process may
	// write there, access modes and read-only mounts considered.
	Writable map[string]bool `json:"writable,omitempty"`
}

// Interface is a network interface of the process's network namespace.
type Interface struct {
	Name      string   `json:"name"`
	Up        bool     `json:"up"`
	Addresses []string `json:"addresses"`
}

// Forks is what forkbomb prints. Error is why the kernel refused the next
// child; it is absent if all of Max were started.
type Forks struct {
	Started int    `json:"started"`
	Max     int    `json:"max"`
	Error   string `json:"error,omitempty"`
}
