package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/heteroflow/node-agent/agent/cards"
	"github.com/heteroflow/node-agent/agent/config"
	"github.com/heteroflow/node-agent/agent/inventory/gpus"
	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/cdi"
)

func newCDIGenerate(n node) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "generate",
		Short: "Ask every vendor's tool once and write the CDI specs of the cards",
		Long: "Ask every vendor's tool once and write the CDI specs of the cards, a file for each vendor, as the\n" +
			"running agent does. A file that would not change is left alone; that of a vendor who has no card any\n" +
			"more is removed. What cannot be given to a container, and what of the host is left out, is said.",
		Args: usage(cobra.NoArgs),
	}
	dir := dirFlag(cmd)
	dry := cmd.Flags().Bool("dry-run", false, "print the specs, and write nothing")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return n.survey(cmd.Context(), func(machine gpus.Machine, cfg config.GPU, s gpu.Snapshot) error {
			if *dir != "" {
				cfg.CDIDir = *dir
			}
			catalog, err := cards.NewGenerator(machine, cfg).Generate(cmd.Context(), s)
			if *dry {
				for _, f := range catalog.Files() {
					if _, err := cmd.OutOrStdout().Write(f.Data); err != nil {
						return err
					}
				}
				return errors.Join(err, printLeftOut(cmd.ErrOrStderr(), catalog))
			}
			changed, errSave := catalog.Save()
			return errors.Join(err, errSave, printGenerated(cmd.OutOrStdout(), catalog, changed))
		})
	}
	return cmd
}

// printGenerated prints what was done with each file, and what is in none.
func printGenerated(w io.Writer, c *cdi.Catalog, changed []string) error {
	var b strings.Builder
	for _, f := range c.Files() {
		done := "unchanged"
		if i := slices.Index(changed, f.Path); i >= 0 {
			done, changed = "written", slices.Delete(changed, i, i+1)
		}
		fmt.Fprintf(&b, "%s: %s, %s with %d names\n", done, f.Path, f.Spec.Kind, len(f.Spec.Devices))
	}
	for _, file := range changed {
		fmt.Fprintf(&b, "removed: %s\n", file)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	return printLeftOut(w, c)
}

// printLeftOut prints the cards that no container can be given, and what a container might
// have used and will not find.
func printLeftOut(w io.Writer, c *cdi.Catalog) error {
	var b strings.Builder
	for _, a := range c.Absent() {
		d := a.Device
		fmt.Fprintf(&b, "cannot be given: %s: %s\n", card(gpu.Failure{Vendor: d.Vendor, Index: d.Index, UUID: d.UUID}), word(a.Reason))
	}
	omitted := c.Omitted()
	for _, v := range gpu.Vendors() {
		for _, o := range omitted[v] {
			fmt.Fprintf(&b, "left out: %s: %s: %s\n", v, word(o.Path), word(o.Reason))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
