package cards

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/heteroflow/node-agent/protocol"
)

// after returns the card of the inventory's second device after as many
// heartbeats with the failures as it takes to believe them.
func after(failures ...protocol.CollectFailure) (lost, allocatable bool, problem string) {
	var s State
	for range Confirm {
		s = Next(s, beat(func(b *protocol.Heartbeat) { b.GPUCollectFailures = failures }), inventory)
	}
	card := s.List()[1]
	return card.Lost, card.Allocatable, card.Problem
}

func TestTheCodeOfAFailureDecidesWhetherItsCardIsLost(t *testing.T) {
	codes := map[string]weight{"xid_79": unusable, "handle_not_found": unusable, "of_a_later_agent": unusable, "": unusable}
	maps.Copy(codes, weights)
	for code, w := range codes {
		lost, allocatable, problem := after(protocol.CollectFailure{UUID: "GPU-1", Code: code, Message: "says " + code})
		if lost != (w == unusable) || allocatable == lost || problem != "says "+code {
			t.Errorf("%q: lost %t, allocatable %t, problem %q", code, lost, allocatable, problem)
		}
	}
}

func TestOfSeveralFailuresOfACardTheWorstCounts(t *testing.T) {
	warning := protocol.CollectFailure{UUID: "GPU-1", Code: "inforom_corrupted", Message: "the infoROM"}
	loss := protocol.CollectFailure{Index: new(1), Code: "gpu_lost", Message: "gone"}
	other := protocol.CollectFailure{UUID: "GPU-0", Code: "gpu_lost", Message: "the other one"}
	for _, c := range []struct {
		name     string
		failures []protocol.CollectFailure
		lost     bool
		problem  string
	}{
		{"a warning before a loss", []protocol.CollectFailure{warning, loss}, true, "gone"},
		{"a loss before a warning", []protocol.CollectFailure{loss, warning}, true, "gone"},
		{"the loss of another card", []protocol.CollectFailure{other, warning}, false, "the infoROM"},
	} {
		if lost, _, problem := after(c.failures...); lost != c.lost || problem != c.problem {
			t.Errorf("%s: lost %t, %q", c.name, lost, problem)
		}
	}
}

func TestACardThatIsBackWithAWarningIsGood(t *testing.T) {
	warning := beat(failing(protocol.CollectFailure{UUID: "GPU-1", Code: "health_warning", Message: "health Warning"}))
	lost := beat(failing(protocol.CollectFailure{UUID: "GPU-1", Code: "gpu_lost"}))
	var s State
	for _, b := range []protocol.Heartbeat{lost, lost, lost, warning, warning, warning} {
		s = Next(s, b, inventory)
	}
	if card := s.List()[1]; card.Lost || card.Problem != "health Warning" {
		t.Errorf("with the warning: %+v", card)
	}
	if card := Next(s, beat(), inventory).List()[1]; card.Problem != "" {
		t.Errorf("without it: %+v", card)
	}
}

// ofTheTool are the codes of package gpu that no card's failure has: they are
// collector errors, or requests of the helper.
var ofTheTool = []string{
	"bad_argument", "bad_request", "command_failed", "dcmi_init_failed", "driver_not_loaded", "exit_status",
	"invalid_argument", "invalid_field", "library_missing", "mtml_init", "no_access", "no_cdi_spec",
	"no_device", "no_devices", "no_library", "no_output", "nvml", "nvml_unknown", "runtime_not_bound",
	"runtime_not_initialized", "stale", "tool_error", "tool_not_found", "unknown_columns", "unrecognised_output",
	"version_mismatch",
}

// A code that a detector gains is weighed here, or it is the tool's.
func TestEveryCodeOfTheDetectorsIsWeighed(t *testing.T) {
	found := map[string]bool{}
	err := filepath.WalkDir(filepath.Join("..", "..", "gpu"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok {
				for _, code := range codes(spec) {
					found[code] = true
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) < len(weights)/2 {
		t.Fatalf("only %d codes found", len(found))
	}
	for code := range found {
		_, weighed := weights[code]
		_, prefix := prefixes[code]
		switch ofTool := slices.Contains(ofTheTool, code); {
		case !weighed && !prefix && !ofTool:
			t.Errorf("%q is not weighed: does its card go on working?", code)
		case weighed && ofTool:
			t.Errorf("%q is weighed, and said to be no card's", code)
		}
	}
	for _, code := range ofTheTool {
		if !found[code] {
			t.Errorf("no detector has %q any more", code)
		}
	}
}

// codes returns the values of constants that are called code….
func codes(spec *ast.ValueSpec) []string {
	var list []string
	for i, name := range spec.Names {
		if i >= len(spec.Values) || !strings.HasPrefix(strings.ToLower(name.Name), "code") {
			continue
		}
		if lit, ok := spec.Values[i].(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if code, err := strconv.Unquote(lit.Value); err == nil {
				list = append(list, code)
			}
		}
	}
	return list
}
