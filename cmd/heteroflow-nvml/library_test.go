//go:build cgo

package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestTheLibraryIsLookedForWhereItFitsTheDriver(t *testing.T) {
	if got := places("/"); got[0] != soname && got[0] != filepath.Join(wslDir, soname) {
		t.Errorf("on a host: %v", got)
	}
	root := t.TempDir()
	got := places(root)
	if got[0] != filepath.Join(root, libraryDirs[0], soname) || got[len(got)-1] != soname {
		t.Errorf("in a container: %v", got)
	}
	if err := os.MkdirAll(filepath.Join(root, "dev"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "dev/dxg"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if wsl := places(root); wsl[0] != filepath.Join(root, wslDir, soname) || !slices.Equal(wsl[1:], got) {
		t.Errorf("on WSL2: %v", wsl)
	}
}

func TestAFileThatIsNoLibraryIsNotTaken(t *testing.T) {
	path := filepath.Join(t.TempDir(), soname)
	if err := os.WriteFile(path, []byte("\x7fELF"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := load([]string{path}); err == nil {
		t.Error("it was")
	}
}
