package wire

import "encoding/json"

// CDIParams asks for a CDI spec, as NVIDIA's own generator makes it.
type CDIParams struct {
	Vendor string `json:"vendor"` // of the kind, as vendor/class
	Class  string `json:"class"`
	// Devices are the uuids of the cards and MIG devices; none means all there are.
	Devices []string `json:"devices,omitempty"`
	// Root is where the helper sees the host's file system; "" means "/". The
	// spec's paths are the host's.
	Root string `json:"root,omitempty"`
	// DriverRoot is where on the host the driver's files lie, and DevRoot where
	// its device nodes do; "" means where the loaded library is from.
	DriverRoot string `json:"driver_root,omitempty"`
	DevRoot    string `json:"dev_root,omitempty"`
	// Hook is nvidia-cdi-hook on the host; "" means /usr/bin/nvidia-cdi-hook.
	Hook string `json:"hook,omitempty"`
}

// CDI is a spec in which each device has two names, its index and its uuid.
type CDI struct {
	Spec json.RawMessage `json:"spec"`
	// Absent are the uuids of devices that are not in Spec, with the reason.
	Absent map[string]string `json:"absent,omitempty"`
}
