package cli

import (
	"errors"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/agent"
	"github.com/heteroflow/node-agent/agent/config"
	"github.com/heteroflow/node-agent/agent/logging"
)

func newRun(version agent.Version, load func() (config.Config, error)) *cobra.Command {
	return &cobra.Command{
		Use:   "run",
		Short: "Run the agent until SIGTERM; task containers outlive it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			cfg, err := load()
			if err != nil {
				return err
			}
			if _, err := config.ReadKey(cfg.KeyFile()); err != nil {
				return usageError{err}
			}
			log, err := logging.New(cmd.ErrOrStderr(), cfg.Log.Level, cfg.Log.Format)
			if err != nil {
				return usageError{err}
			}
			log = log.With(zap.String("agent_version", version.Version))
			a, err := agent.New(cmd.Context(), cfg, version, log)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, a.Close()) }()
			return a.Run(cmd.Context())
		},
	}
}
