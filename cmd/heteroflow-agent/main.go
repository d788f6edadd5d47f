// Command heteroflow-agent runs a GPU node's tasks for a HeteroFlow control plane.
package main

import (
	"os"

	"github.com/heteroflow/node-agent/agent"
	"github.com/heteroflow/node-agent/agent/cli"
)

// The version triple, set with -ldflags -X by the Makefile. A bare build says so.
var (
	version   = "dev"
	commit    = "unknown"
	buildTime = "unknown"
)

func main() {
	os.Exit(cli.Run(agent.Version{Version: version, Commit: commit, BuildTime: buildTime}, os.Args[1:], os.Stdout, os.Stderr))
}
