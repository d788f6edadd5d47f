// Package cli is the command line of heteroflow-agent. Each command is a file; none holds
// logic of its own.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/heteroflow/node-agent/agent"
	"github.com/heteroflow/node-agent/agent/config"
	"github.com/heteroflow/node-agent/agent/inventory/gpus"
)

// Exit codes of the command.
const (
	exitFailure = 1
	exitUsage   = 2 // wrong arguments or a configuration that cannot be used
)

// usageError is a mistake of the caller's: another try without a change is no use.
type usageError struct{ error }

// Unwrap gives the mistake.
func (e usageError) Unwrap() error { return e.error }

// Run runs the command line and returns the exit code. SIGINT and SIGTERM end ctx.
func Run(version agent.Version, args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	root := newRoot(version)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "heteroflow-agent: %v\n", err)
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	return exitFailure
}

func newRoot(version agent.Version) *cobra.Command {
	var src config.Sources
	root := &cobra.Command{
		Use:           "heteroflow-agent",
		Short:         "Runs a GPU node's tasks for a HeteroFlow control plane",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noSuchCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.PersistentFlags().StringVar(&src.File, "config", "", "configuration file (default "+config.DefaultFile+", if it exists)")
	root.PersistentFlags().StringArrayVar(&src.Set, "set", nil, "set one setting, KEY=VALUE; may be repeated")
	load := func() (config.Config, error) {
		src.Environ = os.Environ()
		cfg, err := config.Load(src)
		if err != nil {
			return cfg, usageError{fmt.Errorf("the configuration cannot be used:\n%w", err)}
		}
		return cfg, nil
	}
	read := func() (config.Config, error) { // what looks at this node needs no control plane
		src.Environ = os.Environ()
		return config.Read(src)
	}
	here := node{
		config: func() (config.GPU, error) {
			cfg, err := read()
			if err = errors.Join(err, cfg.GPU.Validate()); err != nil {
				return cfg.GPU, usageError{fmt.Errorf("the configuration cannot be used:\n%w", err)}
			}
			return cfg.GPU, nil
		},
		machine: func(hostRoot string) gpus.Machine { return gpus.NewMachine(hostRoot, version.Version, nil) },
	}
	root.AddCommand(newRun(version, load), newVersion(version), newConfig(load), newStatus(read), newDrain(read), newUndrain(read), newGPU(here), newCDI(here), newLogShim())
	return root
}
