package cli

import "github.com/spf13/cobra"

func newGPUList(n node) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Ask every vendor's tool once and list the cards",
		Long: "Ask every vendor's tool once and list the cards, what they measure and what is wrong with them.\n" +
			"Cards that vanished earlier are known to the running agent only.",
		Args: usage(cobra.NoArgs),
	}
	raw := asJSON(cmd, "the GPU part of the heartbeat")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		snapshot, err := n.detect(cmd.Context())
		if err != nil {
			return err
		}
		if *raw {
			return printJSON(cmd.OutOrStdout(), snapshot)
		}
		return printCards(cmd.OutOrStdout(), snapshot)
	}
	return cmd
}
