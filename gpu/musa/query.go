package musa

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

var (
	// "GPU0 00000000:01:00.0", "GPU 0", "GPU 00000000:01:00.0"
	cardHead = text.Lazy(`^GPU\s*[:#]?\s*(\d{1,4})?(?:\s*:)?(?:\s+([0-9A-Fa-f]{1,8}(?::[0-9A-Fa-f]{1,2}){2}\.[0-7]))?\s*$`)
	// "GPU 0 : MTT S80 (UUID : 4b1d…)"
	listRow = text.Lazy(`^\s*GPU\s*(\d{1,4})\s*:\s*(.*?)\s*\(UUID\s*:\s*([^)\s]*)\s*\)`)
)

// parseList reads -L.
func parseList(_ []byte, lines []string) (gpu.Parsed, bool) {
	var cards []*card
	for _, line := range lines {
		if m := listRow.FindStringSubmatch(line); m != nil {
			cards = append(cards, &card{device: gpu.Device{
				Index: text.Natural(m[1]), Model: text.String(m[2]), UUID: text.String(m[3]),
			}})
		}
	}
	return result(cards), len(cards) > 0
}

// parseQuery reads "-q" with any "-d": a heading for each card, below it sections
// and values, told apart by indentation. Where there are no headings, a value that
// a card has once begins the next card.
func parseQuery(_ []byte, lines []string) (gpu.Parsed, bool) {
	var cards []*card
	var driver string
	var at text.Sections
	for _, line := range lines {
		trimmed := strings.TrimSpace(line)
		if m := cardHead.FindStringSubmatch(trimmed); m != nil && (m[1] != "" || m[2] != "") {
			cards = append(cards, &card{device: gpu.Device{Index: text.Natural(m[1]), BusID: text.BusID(m[2])}})
			at = nil
			continue
		}
		key, value, ok := text.KeyValue(line)
		section := at.Place(line)
		if ok && section == "" && begins(cards, key) {
			cards = append(cards, &card{})
		}
		switch {
		case !ok || value == "":
			at.Open(line)
		case len(cards) > 0:
			cards[len(cards)-1].set(section, key, value)
		case strings.EqualFold(key, "Driver Version"):
			driver = text.String(value)
		}
	}
	for _, c := range cards {
		c.device.DriverVersion = driver
	}
	return result(cards), len(cards) > 0
}

// begins reports whether a value can only be of another card than the last.
func begins(cards []*card, key string) bool {
	key = fold(key)
	if key != "index" && key != "product name" {
		return false
	}
	return len(cards) == 0 || cards[len(cards)-1].said[key]
}

// parseJSON reads "-q --json": {"Driver Version": …, "GPU": [{…}, …]}, whose
// sections are the text's. A cut text is read up to the last whole card.
func parseJSON(output []byte, _ []string) (gpu.Parsed, bool) {
	start := bytes.IndexByte(output, '{')
	if start < 0 {
		return gpu.Parsed{}, false
	}
	dec := json.NewDecoder(bytes.NewReader(output[start:]))
	dec.UseNumber()
	if _, err := dec.Token(); err != nil {
		return gpu.Parsed{}, false
	}
	var cards []*card
	driver, known := "", false
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			break
		}
		if key == "GPU" {
			cards, err = decodeCards(dec)
			known = !errors.Is(err, errNoList)
			if err != nil {
				break
			}
			continue
		}
		var value any
		if err := dec.Decode(&value); err != nil {
			break
		}
		if key == "Driver Version" {
			driver = text.String(fmt.Sprint(value))
		}
	}
	for _, c := range cards {
		c.device.DriverVersion = driver
	}
	return result(cards), known
}

// decodeCards reads the list of cards; with an error, as far as it went.
func decodeCards(dec *json.Decoder) ([]*card, error) {
	open, err := dec.Token()
	if err != nil || open != json.Delim('[') {
		return nil, errors.Join(err, errNoList)
	}
	var cards []*card
	for dec.More() {
		var values map[string]any
		if err := dec.Decode(&values); err != nil {
			return cards, err
		}
		c := &card{}
		c.setAll("", values)
		cards = append(cards, c)
	}
	_, err = dec.Token()
	return cards, err
}

var errNoList = errors.New("no list of cards")

func (c *card) setAll(section string, values map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		switch v := values[key].(type) {
		case string:
			c.set(section, key, v)
		case json.Number:
			c.set(section, key, v.String())
		case map[string]any:
			c.setAll(key, v)
		}
	}
}
