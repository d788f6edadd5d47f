package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/heteroflow/node-agent/agent/inventory/gpus"
	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/tool"
)

func newGPUCapture(n node) *cobra.Command {
	return &cobra.Command{
		Use:   "capture DIR",
		Short: "Record what the vendors' tools print, for a bug report",
		Long: "Run every command of every vendor's tool that is installed and store in DIR what it printed, its\n" +
			"exit status and how long it took, with the PCI facts of the cards. Serial numbers and this\n" +
			"machine's name are masked; names of processes, UUIDs and PCI addresses are not: look through the\n" +
			"files before you give them away. Nothing on the cards is changed.",
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := n.config()
			if err != nil {
				return err
			}
			machine := n.machine(cfg.HostRoot)
			recorder := tool.NewRecorder(machine.Runner)
			sysfs := machine.Sysfs
			if !machine.SeesAllCards {
				sysfs = ""
			}
			dir := args[0]
			if err := gpu.Capture(cmd.Context(), recorder, gpus.Detectors(recorder, machine.Dev), sysfs, dir); err != nil {
				return err
			}
			recorded, err := tool.ReadRecording(dir)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			for _, c := range recorded {
				fmt.Fprintf(out, "%s: exit status %d\n", strings.Join(c.Argv, " "), c.ExitCode)
			}
			_, err = fmt.Fprintf(out, "%d commands recorded in %s; look through the files before you give them away\n", len(recorded), dir)
			return err
		},
	}
}
