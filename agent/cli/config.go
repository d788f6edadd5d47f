package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/heteroflow/node-agent/agent/config"
)

func newConfig(load func() (config.Config, error)) *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Check or print the configuration", Args: cobra.NoArgs}
	cmd.AddCommand(
		&cobra.Command{
			Use:   "check",
			Short: "Report every problem of the configuration; exit code 2 if there is one",
			Args:  cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				cfg, err := load()
				if err != nil {
					return err
				}
				if _, err := config.ReadKey(cfg.KeyFile()); err != nil {
					return usageError{err}
				}
				_, err = fmt.Fprintln(cmd.OutOrStdout(), "the configuration is good")
				return err
			},
		},
		&cobra.Command{
			Use:   "print",
			Short: "Print the configuration in effect; the key is not part of it",
			Args:  cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				cfg, err := load()
				if err != nil {
					return err
				}
				return cfg.WriteYAML(cmd.OutOrStdout())
			},
		},
	)
	return cmd
}
