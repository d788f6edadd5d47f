package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"os/user"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/heteroflow/node-agent/agent/config"
	"github.com/heteroflow/node-agent/agent/drain"
	"github.com/heteroflow/node-agent/agent/identity"
	"github.com/heteroflow/node-agent/agent/status"
	"github.com/heteroflow/node-agent/agent/wallclock"
	"github.com/heteroflow/node-agent/protocol"
)

func newDrain(read func() (config.Config, error)) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "Have this node claim no new tasks, also after a restart; what runs goes on",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := read()
			if err != nil {
				return err
			}
			mark := drain.Mark{User: caller(), Reason: reason, At: wallclock.Now().UTC().Truncate(time.Second)}
			if err := mark.Validate(); err != nil {
				return usageError{err}
			}
			if err := drain.Set(cfg.StateDir, identity.System().MachineID(), mark); err != nil {
				return err
			}
			return tell(cmd.OutOrStdout(), "This node claims nothing new until \"heteroflow-agent undrain\"; what runs goes on.", notRunning(cfg.StateDir))
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for people who look at the node; one line")
	return cmd
}

func newUndrain(read func() (config.Config, error)) *cobra.Command {
	return &cobra.Command{
		Use:   "undrain",
		Short: "Take a drain command back",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := read()
			if err != nil {
				return err
			}
			was, err := drain.Clear(cfg.StateDir, identity.System().MachineID())
			if err != nil {
				return err
			}
			said := "This node claims tasks again."
			if !was {
				said = "This node was not drained by a command."
			}
			return tell(cmd.OutOrStdout(), said, drainedElsewhere(cfg.StateDir))
		},
	}
}

func tell(w io.Writer, lines ...string) error {
	for _, line := range lines {
		if line == "" {
			continue
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

// notRunning is a remark for who drains a node whose agent does not run.
func notRunning(stateDir string) string {
	if s, err := status.Read(stateDir); err == nil && s.Running() {
		return ""
	}
	return "No agent seems to run now; the next one starts drained."
}

// drainedElsewhere is a remark for who thinks that now tasks will come.
func drainedElsewhere(stateDir string) string {
	s, err := status.Read(stateDir)
	if err == nil && s.Running() && slices.ContainsFunc(s.Heartbeat.DrainedBy, func(d protocol.Drain) bool { return d.By == protocol.DrainByServer }) {
		return "The control plane still wants it drained."
	}
	return ""
}

// caller is who gives the command, for the record: whoever may write the state directory
// may claim to be anybody.
func caller() string {
	name := fmt.Sprintf("uid %d", os.Getuid())
	if u, err := user.Current(); err == nil {
		name = cmp.Or(u.Username, name)
	}
	return cmp.Or(os.Getenv("SUDO_USER"), name)
}
