package cli

import (
	"github.com/spf13/cobra"
)

// newCDI makes the cdi commands. They look at the node themselves and need no running
// agent.
func newCDI(n node) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cdi",
		Short: "Make, list and check the CDI specs by which containers get cards",
		Long: "Make, list and check the specs of the Container Device Interface by which containers get cards. The\n" +
			"running agent keeps its own current by itself: before each task that wants cards, and every\n" +
			"gpu.inventory_period.",
		Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCDIGenerate(n), newCDIList(n), newCDICheck(n))
	return cmd
}

// dirFlag adds the flag that names another directory than the configuration's.
func dirFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("dir", "", "directory of the agent's specs (default: gpu.cdi_dir)")
}
