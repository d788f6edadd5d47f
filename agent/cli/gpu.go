package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/heteroflow/node-agent/agent/config"
	"github.com/heteroflow/node-agent/agent/inventory/gpus"
	"github.com/heteroflow/node-agent/gpu"
)

// node is what the gpu and cdi commands look at. Tests put a recorded one in its place.
type node struct {
	config  func() (config.GPU, error)
	machine func(hostRoot string) gpus.Machine
}

// newGPU makes the gpu commands. They look at the node themselves and need no running
// agent.
func newGPU(n node) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "gpu",
		Short: "Look at this machine's accelerators, or at a recording of another's",
		Args:  noSuchCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		newGPUList(n), newGPUWatch(n), newGPUTopo(n),
		newGPUCapture(n), newGPUReplay(), newGPUParse(),
	)
	return cmd
}

// noSuchCommand refuses the arguments of a command that only has subcommands.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("unknown command %q; see %s --help", args[0], cmd.CommandPath())}
	}
	return nil
}

// usage makes the complaints of check usage errors.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError{fmt.Errorf("%w; usage: %s", err, cmd.UseLine())}
		}
		return nil
	}
}

// asJSON adds the flag of that name.
func asJSON(cmd *cobra.Command, what string) *bool {
	return cmd.Flags().Bool("json", false, "print "+what+" as JSON")
}

// vendorFlag is the value of a flag that names a vendor.
type vendorFlag struct{ vendor gpu.Vendor }

// Set implements pflag.Value.
func (v *vendorFlag) Set(s string) (err error) {
	v.vendor, err = gpu.ParseVendor(s)
	return err
}

// String implements pflag.Value.
func (v *vendorFlag) String() string { return string(v.vendor) }

// Type implements pflag.Value.
func (v *vendorFlag) Type() string { return "vendor" }

// registry returns a registry of all detectors on a machine.
func registry(machine gpus.Machine, cfg config.GPU) (*gpu.Registry, error) {
	detectors := machine.Detectors()
	if cfg.Virtual {
		detectors = append(detectors, gpus.Fallback())
	}
	return machine.Registry(detectors)
}

// survey asks every vendor's tool once and has use look at the answers, while NVIDIA's
// helper can be asked for more.
func (n node) survey(ctx context.Context, use func(gpus.Machine, config.GPU, gpu.Snapshot) error) (err error) {
	cfg, err := n.config()
	if err != nil {
		return err
	}
	machine := n.machine(cfg.HostRoot)
	defer func() { err = errors.Join(err, machine.Close()) }()
	all, err := registry(machine, cfg)
	if err != nil {
		return err
	}
	snapshot := all.Detect(ctx, gpus.RoundDeadline)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return use(machine, cfg, snapshot)
}

// detect asks every vendor's tool once.
func (n node) detect(ctx context.Context) (s gpu.Snapshot, err error) {
	err = n.survey(ctx, func(_ gpus.Machine, _ config.GPU, found gpu.Snapshot) error {
		s = found
		return nil
	})
	return s, err
}

// printJSON prints v for a program or a person to read.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
