package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/heteroflow/node-agent/agent/cards"
	"github.com/heteroflow/node-agent/agent/config"
	"github.com/heteroflow/node-agent/gpu/cdi/specfile"
)

func newCDIList(n node) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the devices in the CDI specs of this machine, whoever has made them",
		Long: "List the devices in the CDI specs of this machine, whoever has made them, by the names that a\n" +
			"container engine takes (docker run --device NAME). Names of one device are aliases: its index, its\n" +
			"uuid, and \"all\" where there is one card. A file that engines cannot read is said to be so.",
		Args: usage(cobra.NoArgs),
	}
	dir := dirFlag(cmd)
	raw := asJSON(cmd, "the devices with their nodes")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		_, files, err := n.specs(*dir)
		if err != nil {
			return err
		}
		entries := []specfile.Entry{}
		for _, f := range files {
			entries = append(entries, f.Entries()...)
		}
		if *raw {
			return printJSON(cmd.OutOrStdout(), entries)
		}
		return printEntries(cmd.OutOrStdout(), entries, files)
	}
	return cmd
}

// specs reads the spec files of this machine by its configuration, in which dir, if it is
// not "", takes the place of all directories.
func (n node) specs(dir string) (config.GPU, []specfile.File, error) {
	cfg, err := n.config()
	if err != nil {
		return cfg, nil, err
	}
	dirs := cards.SpecDirs(cfg)
	if dir != "" {
		cfg.CDIDir, dirs = dir, []string{dir}
	}
	files, err := specfile.Installed(cfg.CDIDir, dirs...)
	return cfg, files, err
}

func printEntries(w io.Writer, entries []specfile.Entry, files []specfile.File) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(entries) > 0 {
		fmt.Fprintln(table, "DEVICE\tNODES\tALIASES\tFILE")
	}
	for _, e := range entries {
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\n", word(e.Name), len(e.Nodes), word(strings.Join(e.Aliases, " ")), word(e.File))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	var b strings.Builder
	if len(entries) == 0 {
		b.WriteString("no device\n")
	}
	for _, f := range files {
		if f.Err != nil {
			fmt.Fprintf(&b, "unusable: %s: %s\n", word(f.Path), word(f.Err.Error()))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
