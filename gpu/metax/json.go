package metax

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// parseJSON reads -j, whose first line is no JSON: an object with a member for
// each card, named by its address, that has a "device_id". A cut text is read up
// to the last whole card. (No recording of it is public. What is known, from
// programs that read it: device_id, unavailable_reason, board_power.)
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
	var found cards
	version, known := "", false
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			break
		}
		var value any
		if err := dec.Decode(&value); err != nil {
			break
		}
		switch v := value.(type) {
		case map[string]any:
			found.fromJSON(fmt.Sprint(key), v)
		case string:
			if key == "driver_version" {
				version = text.String(v)
			}
		}
		known = known || key == "attached_gpus"
	}
	for _, c := range found {
		if c.device.DriverVersion == "" {
			c.device.DriverVersion = version
		}
	}
	return found.parsed(), known || len(found) > 0
}

func (c *cards) fromJSON(name string, values map[string]any) {
	n := text.Natural(fmt.Sprint(values["device_id"]))
	if n == nil {
		return
	}
	one := c.at(*n)
	one.bare = true
	one.device.BusID = text.BusID(name)
	for field, to := range map[string]*string{
		"uuid": &one.device.UUID, "device_name": &one.device.Model, "bdf": &one.device.BusID,
	} {
		if v, ok := values[field].(string); ok && text.String(v) != "" {
			*to = text.String(v)
		}
	}
	one.device.BusID = text.BusID(one.device.BusID)
	if reason, ok := values["unavailable_reason"].(string); ok && text.String(reason) != "" {
		one.unavailable(text.String(reason))
	}
	one.setAll(nil, values)
}

func (c *card) setAll(path []string, values map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		switch v := values[key].(type) {
		case string:
			c.set(strings.Join(path, "/"), key, v)
		case json.Number:
			c.set(strings.Join(path, "/"), key, v.String())
		case map[string]any:
			c.setAll(append(slices.Clone(path), key), v)
		}
	}
}
