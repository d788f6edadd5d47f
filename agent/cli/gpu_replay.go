package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/heteroflow/node-agent/agent/inventory/gpus"
	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/tool"
)

func newGPUReplay() *cobra.Command {
	var vendor vendorFlag
	cmd := &cobra.Command{
		Use:   "replay DIR",
		Short: "Say what a capture means, instead of this machine",
		Long: "Run the detectors on a capture instead of this machine. A command that was not recorded is\n" +
			"not installed. With --json it prints exactly what the heartbeat would say of the cards.",
		Args: usage(cobra.ExactArgs(1)),
	}
	cmd.Flags().Var(&vendor, "vendor", "ask this vendor's detector only")
	raw := asJSON(cmd, "the GPU part of the heartbeat")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		replay, err := tool.OpenReplay(args[0])
		if err != nil {
			return err
		}
		detectors := append(gpus.Detectors(replay, ""), gpus.Fallback())
		if vendor.vendor != "" {
			detectors = slices.DeleteFunc(detectors, func(d gpu.Detector) bool { return d.Vendor() != vendor.vendor })
		}
		snapshot, err := gpu.Replay(cmd.Context(), replay, detectors, args[0])
		if err != nil {
			return err
		}
		if *raw {
			return printJSON(cmd.OutOrStdout(), snapshot)
		}
		out := cmd.OutOrStdout()
		if err := printCards(out, snapshot); err != nil || len(snapshot.Devices) > 0 || snapshot.Topology == nil {
			return err
		}
		return printTopology(out, snapshot) // it is all that was recorded
	}
	return cmd
}
