package recipe

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/biren"
	"github.com/heteroflow/node-agent/gpu/cdi/hostfs"
	"github.com/heteroflow/node-agent/gpu/enflame"
	"github.com/heteroflow/node-agent/gpu/nvidia"
)

var errUnknownNumber = errors.New("its number is not known")

func byMinor(_ hostfs.FS, d gpu.Device) (int, error) {
	if d.Minor == nil {
		return 0, errUnknownNumber
	}
	return *d.Minor, nil
}

func byIndex(_ hostfs.FS, d gpu.Device) (int, error) {
	if d.Index == nil {
		return 0, errUnknownNumber
	}
	return *d.Index, nil
}

// byNVIDIAsDriver asks the driver where nobody else has said the number.
func byNVIDIAsDriver(h hostfs.FS, d gpu.Device) (int, error) {
	if d.Minor != nil || d.BusID == "" {
		return byMinor(h, d)
	}
	name := fmt.Sprintf(nvidia.CardInformation, d.BusID)
	data, err := h.Read(name)
	if err != nil {
		return 0, fmt.Errorf("%w; %s: %w", errUnknownNumber, name, err)
	}
	for line := range strings.Lines(string(data)) {
		if key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == "Device Minor" {
			return strconv.Atoi(strings.TrimSpace(value))
		}
	}
	return 0, fmt.Errorf("%w; %s does not say it", errUnknownNumber, name)
}

// byEnflamesDirectory takes the number from the name of a directory below the card's PCI
// device.
func byEnflamesDirectory(h hostfs.FS, d gpu.Device) (int, error) {
	prefix := strings.TrimSuffix(path.Base(enflame.CardNode), "%d")
	for _, pattern := range enflame.CardNodesDirs {
		dir := fmt.Sprintf(pattern, d.BusID)
		names, err := h.List(dir, prefix+"[0-9]*")
		if d.BusID == "" || err != nil {
			continue
		}
		if len(names) != 1 {
			return 0, fmt.Errorf("%s names %d nodes", dir, len(names))
		}
		return strconv.Atoi(strings.TrimPrefix(names[0], prefix))
	}
	return byIndex(h, d)
}

// byBirensClass takes the number of the node that belongs to the card's PCI device.
func byBirensClass(h hostfs.FS, d gpu.Device) (int, error) {
	prefix := strings.TrimSuffix(path.Base(biren.CardNode), "%d")
	names, err := h.List(biren.CardsDir, prefix+"[0-9]*")
	if d.BusID == "" || err != nil {
		return byIndex(h, d)
	}
	var found []int
	for _, name := range names {
		n, err := strconv.Atoi(strings.TrimPrefix(name, prefix))
		if err != nil {
			continue
		}
		if device, err := h.Follow(fmt.Sprintf(biren.CardDevice, n)); err == nil && path.Base(device) == d.BusID {
			found = append(found, n)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return 0, fmt.Errorf("none in %s belongs to %s", biren.CardsDir, d.BusID)
	default:
		return 0, fmt.Errorf("the card is split into %d instances (SVI), and only whole cards can be given", len(found))
	}
}
