package journal

import (
	"encoding/json"
	"fmt"
	"strings"

	"go.uber.org/zap"
)

// load reads the collection's files into memory. What is damaged is set aside, what a
// cut-off write left is removed: its record was never promised to anyone.
func (c *Collection[T]) load() error {
	names, leftovers, err := c.files.list()
	if err != nil {
		return classify(err)
	}
	for _, name := range leftovers {
		if err := c.files.root.Remove(name); err != nil {
			c.log.Warn("unfinished file not removed", zap.String("file", name), zap.Error(classify(err)))
		}
	}
	for _, name := range names {
		key := strings.TrimSuffix(name, recordSuffix)
		r, err := c.loadFile(key, name)
		if err != nil {
			c.j.quarantine(c.files.root, string(c.kind), name, err)
			continue
		}
		c.records[key] = r
		c.seq = max(c.seq, r.Seq)
	}
	return nil
}

func (c *Collection[T]) loadFile(key, name string) (record, error) {
	if err := validateKey(key); err != nil {
		return record{}, err
	}
	data, err := c.files.read(name, c.limits.MaxBytes)
	if err != nil {
		return record{}, fmt.Errorf("read record: %w", err)
	}
	r, err := decode(c.kind, key, data)
	if err != nil {
		return record{}, err
	}
	var value T
	if err := json.Unmarshal(r.Data, &value); err != nil {
		return record{}, fmt.Errorf("parse data: %w", err)
	}
	return r, nil
}
