package runtime

import (
	"path"
	"regexp"
	"strings"
)

// Device is a device node of the host in the container.
type Device struct {
	HostPath    string `json:"host_path"`   // absolute; must exist
	Path        string `json:"path"`        // absolute, in the container
	Permissions string `json:"permissions"` // what the device cgroup allows: of "rwm", once each
}

// maxCDIName is far more than any generator's names have.
const maxCDIName = 512

// cdiName is vendor/class=device as CDI has it; who resolves it knows the finer points.
var cdiName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*=[A-Za-z0-9][A-Za-z0-9._:-]*$`)

var permissions = regexp.MustCompile(`^r?w?m?$`)

func (s Spec) validateDevices(errs *problems) {
	for i, name := range s.CDIDevices {
		if len(name) > maxCDIName || !cdiName.MatchString(name) {
			errs.add("cdi_devices[%d] %q: want vendor/class=device", i, name)
		}
	}
	for i, d := range s.Devices {
		if !path.IsAbs(d.HostPath) || path.Clean(d.HostPath) != d.HostPath {
			errs.add("devices[%d].host_path %q: want a clean absolute path", i, d.HostPath)
		}
		if !strings.HasPrefix(d.Path, "/dev/") || path.Clean(d.Path) != d.Path {
			errs.add("devices[%d].path %q: want a clean path below /dev", i, d.Path)
		}
		if d.Permissions == "" || !permissions.MatchString(d.Permissions) {
			errs.add("devices[%d].permissions %q: want some of rwm, in this order", i, d.Permissions)
		}
	}
}
