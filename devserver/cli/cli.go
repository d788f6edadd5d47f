// Package cli holds the commands of heteroflow-devserver.
//
// It owns flags and environment and nothing else. Keys come from a file or
// the environment, never from a flag: arguments are readable for every user
// of the machine.
package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/devserver"
	"github.com/heteroflow/node-agent/protocol"
)

// Set by the linker; a bare build says so.
var (
	Version   = "dev"
	Commit    = "unknown"
	BuildTime = "unknown"
)

// Environment variables that keys are read from when no file is named. They do not begin as
// the settings of an agent do, which refuses those it does not know: both may be started
// from one shell.
const (
	envSystemKey     = "DEVSERVER_SYSTEM_KEY"
	envOperatorToken = "DEVSERVER_OPERATOR_TOKEN"
)

// Run runs the command line and returns the exit status.
func Run(ctx context.Context, args []string) int {
	root := &cobra.Command{
		Use:           "heteroflow-devserver",
		Short:         "Reference control plane of the HeteroFlow node agent",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	//nolint:contextcheck // cobra hands the context over when a command runs
	root.AddCommand(serveCommand(), openAPICommand(), versionCommand())
	root.SetArgs(args)
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "heteroflow-devserver:", err)
		return 1
	}
	return 0
}

type serveFlags struct {
	listen, database, dist  string
	keyFile, tokenFile      string
	production              bool
	noWake, noDelta, noGzip bool
	emptyReply, verbose     bool
	wakeMax                 time.Duration
}

func serveCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve agents and operators until SIGINT or SIGTERM",
		Long: "Serve agents and operators until SIGINT or SIGTERM.\n\n" +
			"The system key comes from --key-file or " + envSystemKey + ", the operator token from\n" +
			"--operator-token-file or " + envOperatorToken + ". Without a token the operator API is off.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd.Context(), f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", "127.0.0.1:3333", "address to listen on")
	flags.StringVar(&f.database, "database", "heteroflow.db", "SQLite file; created if absent")
	flags.StringVar(&f.dist, "dist", "", "directory with agent binaries and install scripts to distribute")
	flags.StringVar(&f.keyFile, "key-file", "", "file that holds the system key")
	flags.StringVar(&f.tokenFile, "operator-token-file", "", "file that holds the operator token")
	flags.BoolVar(&f.production, "production", false, fmt.Sprintf("refuse keys that are well-known or shorter than %d characters", devserver.MinKeyLength))
	flags.DurationVar(&f.wakeMax, "wake-max", 25*time.Second, "longest held wake request, at most 55s")
	flags.BoolVar(&f.noWake, "no-wake", false, "do not offer held wake requests")
	flags.BoolVar(&f.noDelta, "no-delta-heartbeat", false, "do not offer heartbeats that leave out what is unchanged")
	flags.BoolVar(&f.noGzip, "no-gzip", false, "do not offer gzip request bodies")
	flags.BoolVar(&f.emptyReply, "empty-reply", false, "answer heartbeats with {}, as an old server")
	flags.BoolVar(&f.verbose, "verbose", false, "log at debug level")
	return cmd
}

func serve(ctx context.Context, f serveFlags) (err error) {
	config := zap.NewProductionConfig()
	if f.verbose {
		config.Level = zap.NewAtomicLevelAt(zap.DebugLevel)
	}
	log, err := config.Build()
	if err != nil {
		return fmt.Errorf("set up logging: %w", err)
	}
	systemKey, keyErr := readSecret("system key", f.keyFile, envSystemKey)
	token, tokenErr := readSecret("operator token", f.tokenFile, envOperatorToken)
	if err := errors.Join(keyErr, tokenErr); err != nil {
		return err
	}
	server, err := devserver.New(ctx, devserver.Config{
		Database: f.database, SystemKey: systemKey, OperatorToken: token, Production: f.production, DistDir: f.dist, Logger: log,
		Features: devserver.Features{WakeMax: f.wakeMax, NoWake: f.noWake, NoDelta: f.noDelta, NoGzip: f.noGzip, EmptyReply: f.emptyReply},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.listen)
	if err != nil {
		return err
	}
	return server.Serve(ctx, listener)
}

// maxSecretBytes bounds a key file.
const maxSecretBytes = 4096

// readSecret reads a key from the file or, when none is named, from the
// environment. Surrounding white space is not part of it.
func readSecret(what, path, env string) (protocol.Secret, error) {
	if path == "" {
		return protocol.Secret(strings.TrimSpace(os.Getenv(env))), nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", what, err)
	}
	secret := strings.TrimSpace(string(data))
	if secret == "" || len(data) > maxSecretBytes {
		return "", fmt.Errorf("read %s: %s holds %d bytes, 1 to %d are expected", what, path, len(data), maxSecretBytes)
	}
	return protocol.Secret(secret), nil
}

func openAPICommand() *cobra.Command {
	return &cobra.Command{
		Use:   "openapi",
		Short: "Print the API description as YAML",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			document, err := devserver.OpenAPI()
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(document)
			return err
		},
	}
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print version, commit and build time",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			commit := Commit
			if info, ok := debug.ReadBuildInfo(); ok && commit == "unknown" {
				for _, setting := range info.Settings {
					if setting.Key == "vcs.revision" {
						commit = setting.Value
					}
				}
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "heteroflow-devserver %s (%s; built %s; %s; linux/%s)\n",
				Version, commit, BuildTime, runtime.Version(), runtime.GOARCH)
			return err
		},
	}
}
