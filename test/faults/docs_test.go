package faults

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestEachTestThatTheDocumentsNameExists(t *testing.T) {
	there := tests(t)
	for _, page := range []string{"reliability.md", "field-bugs.md"} {
		text, err := os.ReadFile(filepath.Join("../../docs", page))
		if err != nil {
			t.Fatal(err)
		}
		named := regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9]+)`").FindAllStringSubmatch(string(text), -1)
		if len(named) < 10 {
			t.Errorf("%s names %d tests", page, len(named))
		}
		for _, name := range named {
			if !there[name[1]] {
				t.Errorf("%s: there is no %s", page, name[1])
			}
		}
	}
}

// tests are the names of all functions in this module's tests.
func tests(t *testing.T) map[string]bool {
	t.Helper()
	there := make(map[string]bool)
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				there[f.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return there
}
