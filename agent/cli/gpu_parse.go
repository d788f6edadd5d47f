package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/heteroflow/node-agent/agent/inventory/gpus"
	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
	"github.com/heteroflow/node-agent/gpu/tool"
)

// maxParsed is far above what any vendor's tool prints.
const maxParsed = 64 << 20

func newGPUParse() *cobra.Command {
	var vendor vendorFlag
	var command string
	var exitCode int
	cmd := &cobra.Command{
		Use:   "parse --vendor VENDOR --command ARGV FILE|-",
		Short: "Say what one pasted output of a vendor's tool means",
		Long: "Say what one output of a vendor's tool means, in any of the tool's forms: the default table, lists,\n" +
			"queries, JSON, XML, topology, MIG listings. What the tool says of itself being broken, and a form\n" +
			"that is not known, is gpu_collector_error, as in the heartbeat.",
		Args: usage(cobra.ExactArgs(1)),
	}
	cmd.Flags().Var(&vendor, "vendor", "whose tool it is")
	cmd.Flags().StringVar(&command, "command", "", "the command line that was run, for example \"nvidia-smi -q -x\"")
	cmd.Flags().IntVar(&exitCode, "exit-code", 0, "the exit status it ended with")
	raw := asJSON(cmd, "all that it says")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		argv := text.SplitCommand(command)
		if vendor.vendor == "" || len(argv) == 0 {
			return usageError{fmt.Errorf("--vendor and --command are required; the vendors are %v", gpu.Vendors())}
		}
		output, err := readOutput(cmd.InOrStdin(), args[0])
		if err != nil {
			return err
		}
		detector, err := toolOf(vendor.vendor)
		if err != nil {
			return err
		}
		parsed := gpu.Understand(tool.Result{Argv: argv, ExitCode: exitCode, Stdout: output}, detector.Parse)
		if *raw {
			return printJSON(cmd.OutOrStdout(), parsed)
		}
		return printParsed(cmd.OutOrStdout(), parsed)
	}
	return cmd
}

// toolOf returns the detector that knows the vendor's tool.
func toolOf(vendor gpu.Vendor) (gpu.Detector, error) {
	for _, d := range gpus.Detectors(tool.NewReplay(), "") {
		if d.Vendor() == vendor {
			return d, nil
		}
	}
	return nil, usageError{fmt.Errorf("--vendor %s: it has no tool", vendor)}
}

// readOutput reads the file, or standard input for "-".
func readOutput(stdin io.Reader, name string) ([]byte, error) {
	in := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("read output: %w", err)
		}
		defer f.Close()
		in = f
	}
	output, err := io.ReadAll(io.LimitReader(in, maxParsed+1))
	if err != nil {
		return nil, fmt.Errorf("read output: %w", err)
	}
	if len(output) > maxParsed {
		return nil, usageError{fmt.Errorf("read output: %s is larger than %d bytes", name, maxParsed)}
	}
	return output, nil
}

// printParsed prints the cards and problems, and names what only the JSON shows.
func printParsed(w io.Writer, p gpu.Parsed) error {
	s := gpu.Snapshot{Devices: p.GPUs, Stats: p.Stats, Failures: p.Failures, Topology: p.Topology}
	if p.CollectorError != nil {
		s.CollectorError = p.CollectorError.Error()
	}
	if err := printCards(w, s); err != nil {
		return err
	}
	for _, more := range []struct {
		what string
		said bool
	}{
		{"topology", p.Topology != nil},
		{"mig", p.MIG != nil},
		{"mps", p.MPS != nil},
		{"processes", len(p.Processes) > 0},
		{"kernel events", len(p.Events) > 0},
	} {
		if !more.said {
			continue
		}
		if _, err := fmt.Fprintf(w, "it also tells of %s: see --json\n", more.what); err != nil {
			return err
		}
	}
	return nil
}
