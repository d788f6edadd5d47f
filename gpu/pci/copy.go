package pci

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// Copy writes what Scan reads of these cards below dir, which then serves as a
// sysfs root: the PCI part of a capture. Serial numbers are not in it.
func Copy(cards []Card, dir string) error {
	for _, c := range cards {
		at := filepath.Join(dir, devicesDir, c.BusID)
		if err := os.MkdirAll(at, 0o750); err != nil {
			return fmt.Errorf("write PCI facts: %w", err)
		}
		files := map[string]string{
			"vendor": fmt.Sprintf("0x%04x", c.VendorID),
			"device": fmt.Sprintf("0x%04x", c.DeviceID),
			"class":  fmt.Sprintf("0x%06x", c.Class),
		}
		if c.Driver != "" {
			files["driver"] = c.Driver
		}
		if c.NUMANode != nil {
			files["numa_node"] = strconv.Itoa(*c.NUMANode)
		}
		if c.Virtual {
			files["physfn"] = "" // in sysfs a link to the physical function
		}
		var err error
		for name, content := range files {
			err = errors.Join(err, os.WriteFile(filepath.Join(at, name), []byte(content+"\n"), 0o600))
		}
		if err != nil {
			return fmt.Errorf("write PCI facts: %w", err)
		}
	}
	return nil
}
