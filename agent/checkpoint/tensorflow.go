package checkpoint

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// TensorFlow keeps the names of its checkpoints in a text proto, newest in
// model_checkpoint_path, all that are kept in all_model_checkpoint_paths, oldest first.
const tfState = "checkpoint"

var tfData = regexp.MustCompile(`^(.*)\.data-([0-9]{5})-of-([0-9]{5})$`)

func probeTensorFlow(d *dir) (Found, error) {
	if !d.hasFile(tfState) {
		return Found{}, errNotMine
	}
	text, err := d.read(tfState, maxJSON)
	if aborts(err) {
		return Found{}, err
	}
	if err != nil {
		return Found{Reason: fmt.Sprintf("no complete checkpoint; %v", err)}, nil
	}
	prefixes := parseTFState(text)
	if len(prefixes) == 0 {
		if !slices.ContainsFunc(d.names(), func(name string) bool { return strings.HasSuffix(name, ".index") }) {
			return Found{}, errNotMine
		}
		return Found{Reason: `no complete checkpoint; the state file "checkpoint" names none: it was cut off by a crash, or is no state file`}, nil
	}
	var cs []candidate
	for _, prefix := range prefixes {
		cs = append(cs, candidate{name: prefix, step: firstGroup(endNumber, prefix)})
	}
	return d.choose(cs, `the state file "checkpoint" names it and all its files are there`, func(c candidate) error {
		if sub := path.Dir(c.name); sub != "." {
			return d.in(sub, func(in *dir) error { return in.tfComplete(path.Base(c.name)) })
		}
		return d.tfComplete(c.name)
	})
}

// parseTFState lists the prefixes of a state file in the order in which to try them. An
// absolute one is where the container that wrote it saw the directory: its last component
// counts. A relative one may lie one directory down.
func parseTFState(text []byte) []string {
	var latest, all []string
	for line := range strings.Lines(string(text)) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok {
			continue
		}
		quoted := strings.TrimSpace(value)
		prefix, err := strconv.Unquote(quoted)
		if err != nil || !strings.HasPrefix(quoted, `"`) {
			continue // cut off
		}
		if path.IsAbs(prefix) {
			prefix = path.Base(prefix)
		}
		prefix = path.Clean(prefix)
		sub, base := path.Split(prefix)
		if _, err := component([]byte(base)); err != nil || strings.Contains(strings.TrimSuffix(sub, "/"), "/") || sub == "../" {
			continue
		}
		switch key {
		case "model_checkpoint_path":
			latest = append(latest, prefix)
		case "all_model_checkpoint_paths":
			all = append(all, prefix)
		}
	}
	slices.Reverse(all)
	var prefixes []string
	for _, prefix := range slices.Concat(latest, all) {
		if !slices.Contains(prefixes, prefix) && len(prefixes) < 100 {
			prefixes = append(prefixes, prefix)
		}
	}
	return prefixes
}

// tfComplete checks that the index and every data shard of prefix are there.
func (d *dir) tfComplete(prefix string) error {
	if err := d.hasContent(prefix + ".index"); err != nil {
		return err
	}
	shards, total := make(grid), ""
	var content int64
	for _, name := range d.names() {
		m := tfData.FindStringSubmatch(name)
		if m == nil || m[1] != prefix || !d.hasFile(name) {
			continue
		}
		if total != "" && total != m[3] {
			return fmt.Errorf("data shards of %s and of %s: two saves under one name", total, m[3])
		}
		total = m[3]
		if err := shards.add(m[2:3]); err != nil {
			return err
		}
		size, _, err := d.sizeAndTime(name)
		if err != nil {
			return err
		}
		content += size
	}
	if want, err := strconv.Atoi(total); err != nil || len(shards) != want || shards.full() != nil {
		return fmt.Errorf("%d data shards of %q are there, its names say %s", len(shards), prefix, total)
	}
	if content == 0 {
		return errors.New("its data shards are empty")
	}
	return nil
}
