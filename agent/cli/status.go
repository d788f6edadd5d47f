package cli

import (
	"encoding/json"
	"errors"

	"github.com/spf13/cobra"

	"github.com/heteroflow/node-agent/agent/config"
	"github.com/heteroflow/node-agent/agent/status"
	"github.com/heteroflow/node-agent/agent/wallclock"
)

func newStatus(read func() (config.Config, error)) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show how the agent on this node is; exit code 1 if something needs a look",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := read()
			if err != nil {
				return err
			}
			s, err := status.Read(cfg.StateDir)
			if err != nil {
				return err
			}
			now := wallclock.Now()
			if asJSON {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				err = enc.Encode(s)
			} else {
				err = s.WriteText(cmd.OutOrStdout(), now)
			}
			if err == nil && len(s.Problems(now)) > 0 {
				err = errors.New("something needs a look")
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print all there is, as JSON")
	return cmd
}
