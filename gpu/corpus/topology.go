package corpus

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
)

// topology compares the forms in which recordings state a matrix: pairs, a word
// for all pairs, groups, and NUMA nodes and CPU lists by label or by position.
func (f File) topology(p *problems, got gpu.Parsed) {
	more := f.Expect.More
	if more.Topology == nil && more.Groups == nil && more.NUMANode == nil {
		return
	}
	if got.Topology == nil {
		p.add("no topology")
		return
	}
	m := newMatrix(*got.Topology)
	switch topo := plain(more.Topology).(type) {
	case []any: // [{a, b, link}]
		for _, row := range topo {
			if l, ok := row.(map[string]any); ok && l["link"] != "X" {
				m.pair(p, label(l["a"]), label(l["b"]), fmt.Sprint(l["link"]))
			}
		}
	case map[string]any:
		m.object(p, topo)
	}
	m.groups(p, more)
	for card, node := range more.NUMANode {
		m.node(p, label(card), node)
	}
	for card, cpus := range more.CPUAffinity {
		m.cpus(p, label(card), cpus)
	}
}

// groups compares cards listed in groups, with one word within a group and one between.
func (m matrix) groups(p *problems, more More) {
	for i, group := range more.Groups {
		for j, other := range more.Groups {
			link := more.InterGroup
			if i == j {
				link = more.IntraGroup
			}
			for _, a := range group {
				for _, b := range other {
					if a < b {
						m.pair(p, label(a), label(b), link)
					}
				}
			}
		}
	}
}

// matrix is a topology by label: GPU0, NIC0.
type matrix struct {
	links map[[2]string]string
	numa  map[string]gpu.Affinity
	types map[string]bool
}

func newMatrix(t gpu.Topology) matrix {
	m := matrix{map[[2]string]string{}, map[string]gpu.Affinity{}, map[string]bool{}}
	for _, l := range t.Links {
		m.set(label(l.A), label(l.B), l.Type)
		m.types[l.Type] = true
	}
	for _, l := range t.NICs {
		m.set(label(l.Index), l.NIC, l.Type)
	}
	for _, a := range t.NUMA {
		m.numa[label(a.Index)] = a
	}
	return m
}

func (m matrix) set(a, b, link string) {
	m.links[[2]string{a, b}], m.links[[2]string{b, a}] = link, link
}

func (m matrix) pair(p *problems, a, b, want string) {
	if got := m.links[[2]string{a, b}]; got != want {
		p.add("link %s-%s %q, want %q", a, b, got, want)
	}
}

func (m matrix) node(p *problems, device string, want any) {
	got := ""
	if n := m.numa[device].Node; n != nil {
		got = fmt.Sprint(*n)
	}
	if got != orNothing(want) {
		p.add("numa of %s %q, want %q", device, got, orNothing(want))
	}
}

func (m matrix) cpus(p *problems, device string, want any) {
	if got := m.numa[device].CPUs; got != orNothing(want) {
		p.add("cpu affinity of %s %q, want %q", device, got, orNothing(want))
	}
}

// object compares the form with gpus, nics, links, gpu_nic, numa, cpu_affinity.
// What joins two NICs is not of interest.
func (m matrix) object(p *problems, topo map[string]any) {
	gpus, nics := labels(topo["gpus"]), labels(topo["nics"])
	rows := len(gpus)
	if n, ok := topo["rows_present"].(int); ok { // a cropped capture
		rows = min(n, rows)
	}
	if all, ok := topo["all_gpu_pairs"].(string); ok {
		for i, a := range gpus[:rows] {
			for _, b := range gpus[i+1:] {
				m.pair(p, a, b, all)
			}
		}
	}
	m.words(p, topo["links"])
	if pairs, ok := topo["gpu_nic"].(map[string]any); ok {
		for key, want := range pairs {
			if a, b, pair := strings.Cut(key, "-"); pair {
				m.pair(p, a, b, fmt.Sprint(want))
				continue
			}
			for _, nic := range nics {
				m.pair(p, key, nic, fmt.Sprint(want))
			}
		}
	}
	each(topo["numa"], func(device string, v any) { m.node(p, device, v) })
	each(topo["cpu_affinity"], func(device string, v any) { m.cpus(p, device, v) })
}

var linkWord = regexp.MustCompile(`\b[A-Z][A-Z_0-9]+\b`)

// words compares links given by pair, or in prose, whose link words must be
// just those of the matrix.
func (m matrix) words(p *problems, links any) {
	switch links := links.(type) {
	case map[string]any:
		for key, want := range links {
			a, b, _ := strings.Cut(key, "-")
			m.pair(p, a, b, fmt.Sprint(want))
		}
	case string:
		words := linkWord.FindAllString(links, -1)
		for _, w := range words {
			if !m.types[w] {
				p.add("no link of type %s", w)
			}
		}
		if len(words) != len(m.types) {
			p.add("link types %v, want %v", m.types, words)
		}
	}
}

// each visits a value by label, or by position.
func each(v any, visit func(device string, v any)) {
	switch v := v.(type) {
	case map[string]any:
		for device, x := range v {
			visit(label(device), x)
		}
	case []any:
		for i, x := range v {
			visit(label(i), x)
		}
	}
}

func labels(v any) []string {
	list, ok := v.([]any)
	if !ok {
		return nil
	}
	out := make([]string, len(list))
	for i, x := range list {
		out[i] = label(x)
	}
	return out
}

var digits = regexp.MustCompile(`^\d+$`)

// label returns the label of a card given by number or by label.
func label(v any) string {
	s := fmt.Sprint(v)
	if digits.MatchString(s) {
		return "GPU" + s
	}
	return s
}

func orNothing(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}
