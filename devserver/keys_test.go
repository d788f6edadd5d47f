package devserver

import (
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/heteroflow/node-agent/protocol"
)

func TestAProductionServerRefusesWeakKeys(t *testing.T) {
	for name, c := range map[string]struct {
		system, operator protocol.Secret
		want             []string
	}{
		"no key":                   {"", "", []string{"system key is missing"}},
		"15 characters":            {"abcdefghijklmno", "", []string{"system key has 15 characters"}},
		"a historic default":       {"heteroflow-agent-key", "", []string{"system key is a well-known default"}},
		"in capitals":              {"HeteroFlow-Agent-Key", "", []string{"well-known default"}},
		"changeme and more":        {"changeme-1234567890", "", []string{"well-known default"}},
		"short and well known":     {"changeme", "", []string{"well-known default", "8 characters"}},
		"a weak operator token":    {"a-good-long-system-key", "short", []string{"operator token has 5 characters"}},
		"both weak":                {"short", "heteroflow", []string{"system key has 5", "operator token is a well-known", "operator token has 10"}},
		"one key for both":         {"a-good-long-system-key", "a-good-long-system-key", []string{"operator token equals the system key"}},
		"16 characters":            {"abcdefghijklmnop", "", nil},
		"good keys":                {"a-good-long-system-key", "a-good-operator-token", nil},
		"a good key with a spaces": {"a good key with spaces", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newKeys(Config{SystemKey: c.system, OperatorToken: c.operator, Production: true}, zap.NewNop())
			if (err == nil) != (c.want == nil) {
				t.Fatalf("got %v", err)
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q is not told: %v", part, err)
				}
			}
			if err != nil && c.system != "" && strings.Contains(err.Error(), c.system.Reveal()) {
				t.Errorf("the message shows the key: %v", err)
			}
		})
	}
}

func TestADevelopmentServerWarnsOfWeakKeys(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	if _, err := newKeys(Config{SystemKey: "changeme"}, zap.New(core)); err != nil {
		t.Fatal(err)
	}
	if logs.Len() != 2 {
		t.Errorf("%d warnings, want 2: %v", logs.Len(), logs.All())
	}
	if _, err := newKeys(Config{}, zap.New(core)); err == nil {
		t.Error("a server without a key was started")
	}
}

func TestWithoutAnOperatorTokenNothingIsOne(t *testing.T) {
	k, err := newKeys(Config{SystemKey: systemKey}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	if k.isOperator("") || k.isOperator(systemKey) {
		t.Error("an empty token is taken for the operator's")
	}
}

func TestNewLeavesNothingBehindWhenItRefuses(t *testing.T) {
	if _, err := New(t.Context(), Config{Database: t.TempDir() + "/p.db", SystemKey: "short", Production: true}); err == nil {
		t.Error("started")
	}
	if _, err := New(t.Context(), Config{Database: t.TempDir() + "/absent/p.db", SystemKey: systemKey}); err == nil {
		t.Error("opened a database in a directory that does not exist")
	}
}

func FuzzTheWrongKeyIsRefused(f *testing.F) {
	k, err := newKeys(Config{SystemKey: systemKey, OperatorToken: operatorToken}, zap.NewNop())
	if err != nil {
		f.Fatal(err)
	}
	f.Add("")
	f.Add(systemKey)
	f.Add(systemKey + "\x00")
	f.Fuzz(func(t *testing.T, presented string) {
		if k.isSystem(presented) != (presented == systemKey) || k.isOperator(presented) != (presented == operatorToken) {
			t.Errorf("%q: system %t, operator %t", presented, k.isSystem(presented), k.isOperator(presented))
		}
	})
}
