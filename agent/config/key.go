package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Secret is a value that prints as *** in every format and encoding. Convert it to a
// string only where it leaves the process.
type Secret string

// String hides the value.
func (Secret) String() string { return "***" }

// GoString hides the value.
func (Secret) GoString() string { return "***" }

// Format hides the value from every verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("***")) }

// MarshalText hides the value from every encoder.
func (Secret) MarshalText() ([]byte, error) { return []byte("***"), nil }

// CredentialName is the systemd credential that takes the place of server.key_file.
const CredentialName = "heteroflow-key"

// maxKeySize bounds the key file: a key is a line, not a document.
const maxKeySize = 4 << 10

// KeyFile is the file the system key is read from: the systemd credential when there
// is one, else server.key_file.
func (c Config) KeyFile() string {
	if dir := os.Getenv("CREDENTIALS_DIRECTORY"); dir != "" {
		file := filepath.Join(dir, CredentialName)
		if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
			return file
		}
	}
	return c.Server.KeyFile
}

// ReadKey reads the system key. A file that others may read is refused: the key opens
// every node of the fleet.
func ReadKey(file string) (Secret, error) {
	info, err := os.Stat(file)
	if err != nil {
		return "", fmt.Errorf("read system key: %w; put the key there with mode 0600, or set server.key_file", err)
	}
	// systemd guards its credentials with an ACL, whose mask shows as group bits.
	guarded := filepath.Dir(file) == os.Getenv("CREDENTIALS_DIRECTORY")
	if mode := info.Mode().Perm(); mode&0o077 != 0 && !guarded {
		return "", fmt.Errorf("read system key: %s has mode %04o, others may read it: chmod 600 %s", file, mode, file)
	}
	data, err := readBounded(file)
	if err != nil {
		return "", fmt.Errorf("read system key: %w", err)
	}
	key := bytes.TrimSpace(data)
	switch {
	case len(key) == 0:
		return "", fmt.Errorf("read system key: %s is empty", file)
	case len(key) > maxKeySize:
		return "", fmt.Errorf("read system key: %s holds more than %d bytes", file, maxKeySize)
	case bytes.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", fmt.Errorf("read system key: %s holds more than one line of printable ASCII", file)
	}
	return Secret(key), nil
}
