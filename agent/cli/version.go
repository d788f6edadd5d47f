package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/heteroflow/node-agent/agent"
)

func newVersion(version agent.Version) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version triple",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "heteroflow-agent %s (commit %s, built %s, %s %s/%s)\n",
				version.Version, version.Commit, version.BuildTime, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
