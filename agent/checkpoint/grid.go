package checkpoint

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
)

// grid is a set of rank coordinates, as they stand in shard names.
type grid map[[3]int]struct{}

// add puts the numbers of a match's groups in the grid; absent groups count as 0.
func (g grid) add(groups []string) error {
	var at [3]int
	for i, s := range groups {
		if s == "" {
			continue
		}
		n, err := strconv.Atoi(s)
		if err != nil || n > maxEntries {
			return fmt.Errorf("rank %.20q is out of range", s)
		}
		at[i] = n
	}
	g[at] = struct{}{}
	return nil
}

// size is one more than the highest rank in each coordinate.
func (g grid) size() (n [3]int) {
	for at := range g {
		for i, x := range at {
			n[i] = max(n[i], x+1)
		}
	}
	return n
}

// full checks that every combination of ranks is there.
func (g grid) full() error {
	if len(g) == 0 {
		return errors.New("no rank is there")
	}
	n := g.size()
	if n[0]*n[1]*n[2] == len(g) {
		return nil
	}
	for a := range n[0] {
		for b := range n[1] {
			for c := range n[2] {
				if _, ok := g[[3]int{a, b, c}]; !ok {
					return fmt.Errorf("rank %v of %v is missing: not saved, or saved on another node without a shared file system", [3]int{a, b, c}, n)
				}
			}
		}
	}
	return nil
}

// gridOf collects the entries of d that match re, whose groups are the ranks.
func (d *dir) gridOf(re *regexp.Regexp, has func(string) bool) (grid, []string, error) {
	g, names := make(grid), []string(nil)
	for _, name := range d.names() {
		m := re.FindStringSubmatch(name)
		if m == nil || !has(name) {
			continue
		}
		if err := g.add(m[1:]); err != nil {
			return nil, nil, err
		}
		names = append(names, name)
	}
	return g, names, nil
}

// torchWhole tests a torch file that something else vouches for: an old one, which cannot
// be tested, passes.
func (d *dir) torchWhole(name string) error {
	err := d.inFile(name, checkTorch)
	if errors.Is(err, errLegacy) {
		return nil
	}
	return err
}
