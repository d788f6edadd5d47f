package recipe

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/cdi/spec"
	"github.com/heteroflow/node-agent/gpu/nvidia"
)

// addInstances adds the MIG instances of a card: its own node and one for each of the two
// rights, to the GPU instance and to the compute instance.
func (b *build) addInstances(d gpu.Device, card []*specs.DeviceNode) {
	if len(d.Instances) == 0 {
		return
	}
	minors, err := b.capMinors()
	if err != nil {
		b.omit("MIG instances of card "+d.UUID, err)
		return
	}
	for _, i := range d.Instances {
		nodes, err := b.instanceNodes(d, i, minors)
		if err == nil {
			err = spec.CheckName(i.UUID)
		}
		if err != nil {
			b.omit("MIG instance "+i.UUID, err)
			continue
		}
		b.made.Spec.Devices = append(b.made.Spec.Devices, specs.Device{
			Name: i.UUID, ContainerEdits: specs.ContainerEdits{DeviceNodes: append(slices.Clone(card), nodes...)},
		})
	}
}

func (b *build) instanceNodes(d gpu.Device, i gpu.Instance, minors map[string]int) ([]*specs.DeviceNode, error) {
	if i.UUID == "" || i.GI == nil || i.CI == nil || d.Minor == nil {
		return nil, errors.New("the driver does not say which rights it needs")
	}
	gi := fmt.Sprintf("gpu%d/gi%d", *d.Minor, *i.GI)
	var nodes []*specs.DeviceNode
	for _, right := range []string{gi + "/access", fmt.Sprintf("%s/ci%d/access", gi, *i.CI)} {
		minor, ok := minors[right]
		if !ok {
			return nil, fmt.Errorf("%s does not list %s", nvidia.CapMinors, right)
		}
		node, err := b.host.DeviceNode(fmt.Sprintf(nvidia.CapNode, minor))
		if err != nil {
			return nil, fmt.Errorf("device node "+nvidia.CapNode+": %w", minor, err)
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}

func (b *build) capMinors() (map[string]int, error) {
	data, err := b.host.Read(nvidia.CapMinors)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", nvidia.CapMinors, err)
	}
	return parseCapMinors(data), nil
}

// parseCapMinors reads lines like "gpu0/gi1/ci0/access 13". Others are left out.
func parseCapMinors(data []byte) map[string]int {
	minors := map[string]int{}
	for scan := bufio.NewScanner(bytes.NewReader(data)); scan.Scan(); {
		name, number, ok := strings.Cut(scan.Text(), " ")
		if minor, err := strconv.ParseUint(number, 10, 20); ok && err == nil {
			minors[name] = int(minor)
		}
	}
	return minors
}
