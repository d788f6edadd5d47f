package text_test

import (
	"strings"
	"testing"

	"github.com/heteroflow/node-agent/gpu/text"
)

func TestABrokenPatternIsFoundWithoutBeingUsed(t *testing.T) {
	if err := text.CompileAll(); err != nil {
		t.Fatalf("before: %v", err)
	}
	broken := text.Lazy("broken (")
	if err := text.CompileAll(); err == nil || !strings.Contains(err.Error(), `"broken ("`) {
		t.Fatalf("got %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("its use did not panic")
		}
	}()
	broken.MatchString("x")
}

func TestAPatternMatchesAsItsExpressionDoes(t *testing.T) {
	p := text.Lazy(`(\d+) W`)
	if got := p.FindStringSubmatch("power 350 W"); len(got) != 2 || got[1] != "350" {
		t.Fatalf("got %q", got)
	}
	if p.MatchString("none") || p.ReplaceAllString("350 W", "x") != "x" {
		t.Fatal("matches what it should not, or does not replace")
	}
}
