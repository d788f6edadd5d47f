package agent

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/heteroflow/node-agent/agent/config"
	"github.com/heteroflow/node-agent/agent/pathfence"
)

// newFence makes the fence of the volumes. Whatever the operator allows, no task may touch
// what the agent keeps to itself, or that by which somebody else would be let into the
// runtime: wherever the configuration has put it.
func newFence(cfg config.Config) (*pathfence.Fence, error) {
	c := cfg.Runtime.Containerd
	deny := []string{cfg.StateDir, cfg.KeyFile(), cfg.Server.KeyFile, c.Address, c.RunDir, c.HostsDir, cfg.GPU.CDIDir}
	if socket, ok := strings.CutPrefix(cfg.Runtime.DockerHost, "unix://"); ok {
		deny = append(deny, socket)
	}
	if file := cfg.Server.ClientKeyFile; file != "" {
		abs, err := filepath.Abs(file)
		if err != nil {
			return nil, fmt.Errorf("server.client_key_file: %w", err)
		}
		deny = append(deny, abs)
	}
	fence, err := pathfence.New(pathfence.Config{Allow: cfg.Volumes.Allow, Deny: deny})
	if err != nil {
		return nil, fmt.Errorf("volumes.allow: %w", err)
	}
	return fence, nil
}
