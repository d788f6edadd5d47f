package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/heteroflow/node-agent/runtime/containerd/logshim"
)

// newLogShim is what containerd's shim runs for each task to write its output to files.
// Nobody calls it by hand.
func newLogShim() *cobra.Command {
	return &cobra.Command{
		Use:    logshim.Command + " DIR",
		Short:  "Write a containerd task's output to rotating files",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if code := logshim.Main(args[0]); code != 0 {
				return fmt.Errorf("log shim of %s ended with %d", args[0], code)
			}
			return nil
		},
	}
}
