package gpu

import (
	"slices"
	"strconv"
	"strings"

	"github.com/heteroflow/node-agent/gpu/text"
)

// cardLabel is how the vendors' matrices name a card.
var cardLabel = text.Lazy(`^(?:GPU|NPU|XPU|MLU|HCU|DCU|GCU|Card|Phy-ID)(\d{1,4})$`)

// label is how they name a card or a NIC: no address, no CPU list.
var label = text.Lazy(`^[A-Za-z][\w.-]*$`)

// linkWord is what stands in a matrix cell: NV12, PIX, HCCS_SW, XLink.
var linkWord = text.Lazy(`^[A-Z][A-Za-z0-9_]{0,15}$`)

// ParseMatrix reads the topology matrix that several vendors' "topo -m" prints:
// a header of card and NIC labels and affinity columns, a row for each label.
// A card's number is its index. A cropped matrix is read as far as it goes. Nil
// when there is no matrix in lines (as text.Lines gives them).
func ParseMatrix(kind Vendor, lines []string) *Topology {
	for i, line := range lines {
		if m, ok := matrixHeader(line); ok {
			m.Kind = string(kind)
			rows := 0
			for _, row := range lines[i+1:] {
				if next, ok := matrixHeader(row); ok && slices.Equal(next.labels, m.labels) {
					break // the next round of a loop
				}
				if m.row(row) {
					rows++
				}
			}
			if rows > 0 { // else it only looks like a header
				return &m.Topology
			}
		}
	}
	return nil
}

// matrix is a Topology while it is being read.
type matrix struct {
	Topology
	labels   []string // of the columns
	affinity []string // affinityCPU, affinityNode or "", in the order of the columns
}

const (
	affinityCPU  = "cpu"
	affinityNode = "node"
)

// affinityColumns are the headings after the labels; what is not of interest
// still takes its place.
var affinityColumns = text.Lazy(`CPU Affinity|(?:NUMA|Node) Affinity|GPU NUMA ID`)

func matrixHeader(line string) (matrix, bool) {
	var m matrix
	at := affinityColumns.FindStringIndex(line)
	head := line
	if at != nil {
		head = line[:at[0]]
		for _, title := range affinityColumns.FindAllString(line, -1) {
			column := ""
			switch title {
			case "CPU Affinity":
				column = affinityCPU
			case "NUMA Affinity", "Node Affinity":
				column = affinityNode
			}
			m.affinity = append(m.affinity, column)
		}
	}
	m.labels = strings.Fields(head)
	// A row names its own label and an X for itself; a header does neither.
	ok := len(m.labels) > 0 && cardLabel.MatchString(m.labels[0]) && !slices.Contains(m.labels, "X") &&
		(len(m.labels) > 1 || at != nil) &&
		!slices.ContainsFunc(m.labels, func(s string) bool { return !label.MatchString(s) })
	return m, ok
}

// row reads one row and reports whether it is a card's; a NIC's says the same as
// the cards' do, and any other line is left alone.
func (m *matrix) row(line string) bool {
	fields := strings.Fields(line)
	if len(fields) < 2 || !slices.Contains(m.labels, fields[0]) {
		return false
	}
	card, ok := cardNumber(fields[0])
	if !ok {
		return false
	}
	for i, word := range fields[1:min(len(fields), len(m.labels)+1)] {
		if word == "X" || text.Absent(word) || !linkWord.MatchString(word) {
			continue
		}
		if other, ok := cardNumber(m.labels[i]); ok {
			m.link(min(card, other), max(card, other), word)
		} else {
			m.NICs = append(m.NICs, NICLink{Index: card, NIC: m.labels[i], Type: word})
		}
	}
	m.place(card, m.rest(line, fields))
	return true
}

// link adds a pair once: the matrix says it twice, but a cropped one may not.
func (m *matrix) link(a, b int, word string) {
	if a == b || slices.ContainsFunc(m.Links, func(l Link) bool { return l.A == a && l.B == b }) {
		return
	}
	m.Links = append(m.Links, Link{A: a, B: b, Type: word})
}

// rest returns the affinity cells of a row. In a table with tabs a blank cell
// shows; in one with spaces a row that lacks a cell is ambiguous, and left out.
func (m *matrix) rest(line string, fields []string) []string {
	if cells := strings.Split(line, "\t"); len(cells) > len(m.labels)+1 {
		return cells[len(m.labels)+1:]
	}
	if len(fields) > len(m.labels)+1 {
		if rest := fields[len(m.labels)+1:]; len(rest) == len(m.affinity) {
			return rest
		}
	}
	return nil
}

func (m *matrix) place(card int, cells []string) {
	a := Affinity{Index: card}
	for i, cell := range cells[:min(len(cells), len(m.affinity))] {
		switch cell = text.String(cell); m.affinity[i] {
		case affinityCPU:
			a.CPUs = cell
		case affinityNode:
			a.Node = text.Int(cell)
		}
	}
	if a.Node != nil || a.CPUs != "" {
		m.NUMA = append(m.NUMA, a)
	}
}

func cardNumber(label string) (int, bool) {
	m := cardLabel.FindStringSubmatch(label)
	if m == nil {
		return 0, false
	}
	n, err := strconv.Atoi(m[1])
	return n, err == nil
}
