package cambricon

import (
	"encoding/json"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// parseJSON reads what "cnmon info -j" writes to cnmon_info.json: {"CnmonInfo":
// [{"CardNum": 0, "ProductName": …, "Power": {"Usage": …}}, …]}. A cut text is
// read up to the last whole card. (Its keys are known from programs that read it:
// gpustack's runtime and KaiTian.)
func parseJSON(lines []string, _ *int) (gpu.Parsed, bool) {
	_, cards, found := strings.Cut(strings.Join(lines, "\n"), `"CnmonInfo"`)
	if !found {
		return gpu.Parsed{}, false
	}
	at := strings.IndexByte(cards, '[')
	if at < 0 {
		return gpu.Parsed{}, false
	}
	dec := json.NewDecoder(strings.NewReader(cards[at:]))
	dec.UseNumber()
	if _, err := dec.Token(); err != nil {
		return gpu.Parsed{}, false
	}
	var infos []*infoCard
	for dec.More() {
		var values map[string]any
		if dec.Decode(&values) != nil {
			break // cut there
		}
		c := newInfoCard(nil)
		c.flatten("", values)
		c.number = number(c.values["cardnum"])
		infos = append(infos, c)
	}
	return cardsOf(infos)
}

// flatten takes in the values by their paths. A number as part of a PCI address is
// left out: whether it is decimal or the digits of a hexadecimal one, nobody says.
func (c *infoCard) flatten(path string, values map[string]any) {
	for key, v := range values {
		key = path + pathName(key)
		switch v := v.(type) {
		case map[string]any:
			c.flatten(key+"/", v)
		case string:
			c.set(key, text.String(v))
		case json.Number:
			if !strings.HasPrefix(key, "pci/") {
				c.set(key, v.String())
			}
		}
	}
}
