// Command heteroflow-devserver is the reference control plane of the
// HeteroFlow node agent.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/heteroflow/node-agent/devserver/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := cli.Run(ctx, os.Args[1:])
	stop()
	os.Exit(status)
}
