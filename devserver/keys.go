package devserver

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/protocol"
)

// MinKeyLength is the shortest key a production server takes.
const MinKeyLength = 16

// historicDefaults are keys that were once preset somewhere, or that people
// type to get past a prompt. Compared in lower case.
var historicDefaults = []string{
	"heteroflow", "heteroflow-key", "heteroflow-agent", "heteroflow-agent-key", "heteroflow-system-key",
	"heteroflow-default-key", "default-agent-key", "default-system-key", "agent-secret-key", "my-secret-api-key",
	"your-secret-key-here", "your-api-key-here", "0123456789abcdef", "1234567890123456", "secretsecretsecret", "passwordpassword",
}

var historicPrefixes = []string{"changeme", "change-me", "change_me", "replaceme", "replace-me"}

// keyProblems says why a key is too weak for production.
func keyProblems(name string, key protocol.Secret) []error {
	var problems []error
	word := strings.ToLower(strings.TrimSpace(key.Reveal()))
	hasPrefix := func(p string) bool { return strings.HasPrefix(word, p) }
	if slices.Contains(historicDefaults, word) || slices.ContainsFunc(historicPrefixes, hasPrefix) {
		problems = append(problems, fmt.Errorf("%s is a well-known default: set one of your own", name))
	}
	if len(key) < MinKeyLength {
		problems = append(problems, fmt.Errorf("%s has %d characters: at least %d are needed", name, len(key), MinKeyLength))
	}
	return problems
}

// keys compares what callers present with what is configured, over digests so
// that neither content nor length shows in the time it takes.
type keys struct {
	system   [sha256.Size]byte
	operator [sha256.Size]byte
	operable bool // an operator token is configured
}

func newKeys(config Config, log *zap.Logger) (keys, error) {
	if config.SystemKey == "" {
		return keys{}, errors.New("the system key is missing: set it by file or environment")
	}
	problems := keyProblems("the system key", config.SystemKey)
	if config.OperatorToken != "" {
		problems = append(problems, keyProblems("the operator token", config.OperatorToken)...)
		if config.OperatorToken == config.SystemKey {
			problems = append(problems, errors.New("the operator token equals the system key: every agent could act as an operator"))
		}
	}
	if config.Production && len(problems) > 0 {
		return keys{}, fmt.Errorf("refuse to start in production: %w", errors.Join(problems...))
	}
	for _, problem := range problems {
		log.Warn("weak key; a production server would refuse it", zap.Error(problem))
	}
	return keys{
		system:   sha256.Sum256([]byte(config.SystemKey.Reveal())),
		operator: sha256.Sum256([]byte(config.OperatorToken.Reveal())),
		operable: config.OperatorToken != "",
	}, nil
}

func (k keys) isSystem(presented string) bool { return equal(k.system, presented) }

func (k keys) isOperator(presented string) bool { return k.operable && equal(k.operator, presented) }

func equal(want [sha256.Size]byte, presented string) bool {
	got := sha256.Sum256([]byte(presented))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1
}
