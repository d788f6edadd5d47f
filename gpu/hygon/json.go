package hygon

import (
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// token is a piece of JSON: a string, a bracket, a sign, or a bare value.
var token = text.Lazy(`"[^"]*"|[{}\[\]:,]|[^\s{}\[\]:,"]+`)

// parseJSON reads {"card0": {"Key": "value", …}, …}, which may follow other
// lines. It is not always JSON: hy-smi leaves out the commas between the values
// of --showpower, older ones also quotes. So it is read token by token, and a cut
// text as far as it goes.
func parseJSON(_ []byte, lines []string) (gpu.Parsed, bool) {
	j := jsonReader{found: cards{}}
	tokens := token.FindAllString(strings.Join(lines, "\n"), -1)
	for i, t := range tokens {
		j.token(t, i == len(tokens)-1)
	}
	if len(j.found) == 0 && !j.system {
		return gpu.Parsed{}, false
	}
	for _, c := range j.found {
		c.device.DriverVersion = j.driver
	}
	t := topologyOf(j.found, nil)
	p := listed(j.found)
	p.Topology = t
	return p, true
}

// jsonReader is between two tokens. The values of a card are those directly in
// the object that follows its name.
type jsonReader struct {
	found  cards
	card   *card  // whose object is open
	system bool   // an object named system was there
	driver string // from it
	inside string // name of the open object of a card or the system, at
	at     int    // this depth
	depth  int
	last   string // the string before this token
	key    string // the same, after its colon
}

func (j *jsonReader) token(t string, end bool) {
	key := j.key
	j.key = ""
	switch t {
	case "{", "[":
		j.depth++
		j.open(key)
	case "}", "]":
		if j.depth == j.at {
			j.card, j.inside, j.at = nil, "", 0
		}
		j.depth--
	case ":":
		j.key = j.last
	case ",":
	default:
		value := strings.Trim(t, `"`)
		if cut := end && len(value) == len(t); j.depth == j.at && !cut { // a bare value, maybe half of it
			j.value(key, value)
		}
		j.last = value
	}
}

func (j *jsonReader) open(name string) {
	m := cardName.FindStringSubmatch(name)
	switch {
	case m != nil:
		j.card = j.found.at(number(m[1]))
	case name == "system":
		j.card, j.system = nil, true
	default:
		return
	}
	j.inside, j.at = name, j.depth
}

func (j *jsonReader) value(key, value string) {
	switch {
	case key == "":
	case j.card != nil:
		j.card.set(key, value)
	case j.inside == "system" && key == "Driver version":
		j.driver = text.String(value)
	}
}
