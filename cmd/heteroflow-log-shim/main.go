// Command heteroflow-log-shim is the log shim of the agent's containerd tasks as a program
// of its own. The agent has containerd's shim start it beside each task if it is installed
// beside the agent, instead of the agent's own log-shim command: it does the same, and
// starts in a quarter of the time.
package main

import (
	"fmt"
	"os"

	"github.com/heteroflow/node-agent/runtime/containerd/logshim"
)

func main() {
	if len(os.Args) != 3 || os.Args[1] != logshim.Command {
		fmt.Fprintf(os.Stderr, "usage: %s %s DIR\nIt is started by containerd's shim only.\n", os.Args[0], logshim.Command)
		os.Exit(2)
	}
	os.Exit(logshim.Main(os.Args[2]))
}
