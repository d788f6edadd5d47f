package gpu

import (
	"strings"

	"github.com/heteroflow/node-agent/gpu/text"
)

// ToolErrors is how a vendor's tool tells of errors, a line each among its output.
type ToolErrors struct {
	// Words tell by its words what a line is about: the first that match.
	Words []ErrorWords
	// Card finds the card that a line names, in its groups "index" and "address".
	Card *text.Pattern
	// Any is the code of a line that says no more than that there is an error. One that
	// names a card is that card's failure, CardCode, also beside the rows of others.
	Any, CardCode string
}

// ErrorWords are the words of one error.
type ErrorWords struct {
	Words *text.Pattern
	Code  string
}

// OfCards returns the errors that name a card.
func (e ToolErrors) OfCards(lines []string) []Failure {
	index, address := e.Card.SubexpIndex("index"), e.Card.SubexpIndex("address")
	var failures []Failure
	for _, line := range lines {
		line = strings.TrimSpace(line)
		if m := e.Card.FindStringSubmatch(line); m != nil && e.codeOf(line) == e.Any {
			failures = append(failures, Failure{
				Index: text.Natural(m[index]), BusID: text.BusID(m[address]), Code: e.CardCode, Message: line,
			})
		}
	}
	return failures
}

// Parse reads an output that holds nothing but errors: the first that is the tool's is the
// collector's. It leaves those of cards to [ToolErrors.OfCards], and reports whether there
// are any of either kind.
func (e ToolErrors) Parse(lines []string) (Parsed, bool) {
	for _, line := range lines {
		line = strings.TrimSpace(line)
		code := e.codeOf(line)
		if code != "" && (code != e.Any || !e.Card.MatchString(line)) {
			return Parsed{CollectorError: &CollectorError{Code: code, Message: line}}, true
		}
	}
	return Parsed{}, len(e.OfCards(lines)) > 0
}

func (e ToolErrors) codeOf(line string) string {
	for _, w := range e.Words {
		if w.Words.MatchString(line) {
			return w.Code
		}
	}
	return ""
}
