// Package hosttest has, for tests, hosts of every vendor: the device nodes and files of its
// driver, and the devices that its detector finds there. It starts no goroutine.
package hosttest

import (
	"bufio"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/heteroflow/node-agent/gpu/cdi/hostfs"
)

//go:embed testdata
var testdata embed.FS

// New makes the host of a name in Devices, in a directory of the test's. Its device nodes
// are plain files: only their numbers are needed, and root is not.
//
// A line of its file is a device node ("c NUMBERS MODE PATH"), a file ("f PATH CONTENT"), a
// directory with something in it ("d PATH"), or a link ("l PATH TARGET").
func New(t *testing.T, name string) hostfs.FS {
	t.Helper()
	h := hostfs.FS{Root: t.TempDir()}
	nodes := map[string]hostfs.Node{}
	f, err := testdata.Open("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // it was only read
	for scan := bufio.NewScanner(f); scan.Scan(); {
		fields := strings.Fields(scan.Text())
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		switch at := func(i int) string { return filepath.Join(h.Root, fields[i]) }; fields[0] {
		case "c":
			n := hostfs.Node{Type: "c", GID: 44}
			if _, err := fmt.Sscanf(fields[1]+" "+fields[2], "%d:%d %o", &n.Major, &n.Minor, &n.Mode); err != nil {
				t.Fatal(err)
			}
			nodes[at(3)] = n
			MakeFile(t, at(3), "")
		case "f":
			content := strings.Join(fields[2:], " ")
			MakeFile(t, at(1), strings.ReplaceAll(content, `\n`, "\n"))
		case "d":
			MakeFile(t, filepath.Join(at(1), "x"), "")
		case "l":
			if err := os.Symlink(fields[2], at(1)); err != nil {
				MakeFile(t, at(1), "")
				err = errors.Join(os.Remove(at(1)), os.Symlink(fields[2], at(1)))
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	h.Nodes = func(path string) (hostfs.Node, error) {
		n, ok := nodes[path]
		if !ok {
			return n, unix.ENOENT
		}
		return n, nil
	}
	return h
}

// MakeFile makes a file and the directories above it.
func MakeFile(t *testing.T, name, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o750), os.WriteFile(name, []byte(content), 0o600)); err != nil {
		t.Fatal(err)
	}
}
