package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/heteroflow/node-agent/gpu"
)

func newGPUTopo(n node) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "topo",
		Short: "Show how the cards are connected, with each other and with the processors",
		Args:  usage(cobra.NoArgs),
	}
	raw := asJSON(cmd, "gpu_topology of the heartbeat")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		snapshot, err := n.detect(cmd.Context())
		if err != nil {
			return err
		}
		if *raw {
			return printJSON(cmd.OutOrStdout(), struct {
				Topology *gpu.Topology `json:"gpu_topology,omitempty"`
			}{snapshot.Topology})
		}
		return printTopology(cmd.OutOrStdout(), snapshot)
	}
	return cmd
}

// printTopology prints the matrix of the cards of the node's type. Its words are the
// vendor's own.
func printTopology(w io.Writer, s gpu.Snapshot) error {
	if s.Topology == nil {
		if _, err := fmt.Fprintln(w, "nothing is known of how the cards are connected"); err != nil {
			return err
		}
		return printProblems(w, s)
	}
	links, nics := matrix(*s.Topology)
	cards := indexes(s, links)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	head := []string{s.Topology.Kind}
	for _, card := range cards {
		head = append(head, "GPU"+strconv.Itoa(card))
	}
	fmt.Fprintln(table, strings.Join(append(append(head, nics...), "NUMA", "CPUS"), "\t"))
	for _, card := range cards {
		row := []string{"GPU" + strconv.Itoa(card)}
		for _, other := range cards {
			if other == card {
				row = append(row, "X")
			} else {
				row = append(row, word(links[card]["GPU"+strconv.Itoa(other)]))
			}
		}
		for _, nic := range nics {
			row = append(row, word(links[card][nic]))
		}
		fmt.Fprintln(table, strings.Join(append(row, place(*s.Topology, card)...), "\t"))
	}
	return table.Flush()
}

// matrix returns the words by card and by what it is linked to, and the interfaces.
func matrix(t gpu.Topology) (links map[int]map[string]string, nics []string) {
	links = map[int]map[string]string{}
	link := func(from int, to, kind string) {
		if links[from] == nil {
			links[from] = map[string]string{}
		}
		links[from][to] = kind
	}
	for _, l := range t.Links {
		link(l.A, "GPU"+strconv.Itoa(l.B), l.Type)
		link(l.B, "GPU"+strconv.Itoa(l.A), l.Type)
	}
	for _, n := range t.NICs {
		link(n.Index, word(n.NIC), n.Type)
		if !slices.Contains(nics, word(n.NIC)) {
			nics = append(nics, word(n.NIC))
		}
	}
	return links, nics
}

// indexes returns the cards to show: those of the node's type and those that are linked.
func indexes(s gpu.Snapshot, links map[int]map[string]string) []int {
	found := map[int]bool{}
	for card := range links {
		found[card] = true
	}
	for _, d := range s.Devices {
		if d.Vendor == s.Type && d.Index != nil {
			found[*d.Index] = true
		}
	}
	for _, a := range s.Topology.NUMA {
		found[a.Index] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// place returns the NUMA node and the CPUs of a card.
func place(t gpu.Topology, card int) []string {
	for _, a := range t.NUMA {
		if a.Index == card {
			return []string{number(a.Node), word(a.CPUs)}
		}
	}
	return []string{unknown, unknown}
}
