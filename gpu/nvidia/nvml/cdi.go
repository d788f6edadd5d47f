package nvml

import (
	"context"
	"errors"
	"fmt"

	"github.com/heteroflow/node-agent/gpu/nvidia/nvml/wire"
)

// CDI returns the CDI spec that NVIDIA's own generator makes. It needs
// nvidia-cdi-hook on the host and the driver's libraries; an error says which of
// them is missing, and wraps tool.ErrNotInstalled when there is no helper to ask.
func (c *Client) CDI(ctx context.Context, params wire.CDIParams) (wire.CDI, error) {
	if params.Root == "" {
		params.Root = c.cfg.HostRoot
	}
	var answer wire.CDI
	if err := c.ask(ctx, wire.MethodCDI, params, &answer); err != nil {
		return wire.CDI{}, fmt.Errorf("make CDI spec: %w", err)
	}
	if len(answer.Spec) == 0 {
		return wire.CDI{}, errors.New("make CDI spec: NVIDIA helper gave none")
	}
	return answer, nil
}
