package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/heteroflow/node-agent/gpu/cdi/check"
	"github.com/heteroflow/node-agent/gpu/cdi/hostfs"
	"github.com/heteroflow/node-agent/gpu/cdi/specfile"
)

func newCDICheck(n node) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Hold the agent's CDI specs against this machine; exit code 1 if something is wrong",
		Long: "Hold the agent's CDI specs against the rules of CDI, against this machine (each device node with its\n" +
			"numbers and mode, each file that is mounted, each hook) and against other specs of the same kind.\n" +
			"Each problem is named with the file, the devices and what to do. No vendor's tool is asked.",
		Args: usage(cobra.NoArgs),
	}
	dir := dirFlag(cmd)
	raw := asJSON(cmd, "the problems")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, files, err := n.specs(*dir)
		if err != nil {
			return err
		}
		problems := check.Files(hostfs.FS{Root: cfg.HostRoot}, files)
		if *raw {
			if problems == nil {
				problems = []check.Problem{}
			}
			err = printJSON(cmd.OutOrStdout(), problems)
		} else {
			err = printSpecProblems(cmd.OutOrStdout(), cfg.CDIDir, files, problems)
		}
		if err == nil && len(problems) > 0 {
			err = fmt.Errorf("the CDI specs have %d problems", len(problems))
		}
		return err
	}
	return cmd
}

func printSpecProblems(w io.Writer, dir string, files []specfile.File, problems []check.Problem) error {
	var b strings.Builder
	for _, p := range problems {
		devices := "all devices"
		if len(p.Devices) > 0 {
			devices = "device " + strings.Join(p.Devices, ", ")
		}
		fmt.Fprintf(&b, "%s: %s: %s; %s\n", word(p.File), word(devices), word(p.What), p.Do)
	}
	ours := 0
	for _, f := range files {
		if f.Vendor != "" {
			ours++
		}
	}
	switch {
	case ours == 0:
		fmt.Fprintf(&b, "no spec of the agent's in %s\n", dir)
	case len(problems) == 0:
		fmt.Fprintf(&b, "%d of %d specs are the agent's, and nothing is wrong with them\n", ours, len(files))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
