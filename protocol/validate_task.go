package protocol

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Validate reports everything that is wrong with a task from outside, as
// FieldErrors joined. The syntax of the image reference is left to the
// runtime, host paths to the node's fence, cards to its inventory.
func (t Task) Validate() error {
	p := &problems{}
	t.validateIdentity(p)
	t.validateProcess(p)
	t.validateMounts(p)
	t.validatePorts(p)
	t.validateLimits(p)
	t.validateDevices(p)
	t.validateSlices(p)
	t.validateWorkload(p)
	t.validateLabels(p)
	return p.join()
}

func (t Task) validateIdentity(p *problems) {
	if !ValidTaskID(t.ID) {
		p.add("id", "is %q, must match [A-Za-z0-9][A-Za-z0-9_.-]{0,62}", clip(t.ID))
	}
	p.line("name", t.Name, MaxNameBytes)
	word(p, "type", t.Type, TaskTypes())
	if t.Status == "" {
		p.add("status", "is missing")
	}
	word(p, "status", t.Status, TaskStatuses())
	if t.NodeID != "" && !ValidNodeID(t.NodeID) {
		p.add("node_id", "is %q, must match [A-Za-z0-9][A-Za-z0-9_.-]{0,127}", clip(t.NodeID))
	}
	within(p, "generation", t.Generation, 0, math.MaxInt64)
	if strings.TrimSpace(t.Image) == "" {
		p.add("image", "is missing")
	}
	p.line("image", t.Image, MaxImageBytes)
	if t.RegistryAuth != nil {
		t.RegistryAuth.validate(p, "registry_auth")
	}
}

func (a RegistryAuth) validate(p *problems, field string) {
	p.line(field+".server", a.Server, MaxNameBytes)
	p.line(field+".username", a.Username, MaxNameBytes)
	p.line(field+".password", a.Password.Reveal(), MaxCredentialBytes)
	p.line(field+".identity_token", a.IdentityToken.Reveal(), MaxCredentialBytes)
	if a.Password != "" && a.IdentityToken != "" {
		p.add(field, "has both a password and an identity_token")
	}
	if a.Password != "" && a.Username == "" {
		p.add(field+".username", "is missing beside a password")
	}
}

func (t Task) validateProcess(p *problems) {
	for _, list := range []struct {
		field string
		items []string
	}{{"command", t.Command}, {"args", t.Args}, {"env", t.Env}} {
		if !p.count(list.field, len(list.items), MaxStrings) {
			continue
		}
		for i, s := range list.items {
			p.text(fmt.Sprintf("%s[%d]", list.field, i), s, MaxStringBytes)
		}
	}
	for i, s := range t.Env[:min(len(t.Env), MaxStrings)] {
		if strings.HasPrefix(s, "=") {
			p.add(fmt.Sprintf("env[%d]", i), "has no name before =")
		}
	}
	if len(t.Command) > 0 && t.Command[0] == "" {
		p.add("command[0]", "is empty")
	}
	if t.WorkingDir != "" {
		p.absolutePath("working_dir", t.WorkingDir)
	}
	p.line("user", t.User, MaxNameBytes)
}

func (t Task) validateMounts(p *problems) {
	if !p.count("volumes", len(t.Volumes), MaxVolumes) {
		return
	}
	seen := map[string]int{}
	for i, v := range t.Volumes {
		field := fmt.Sprintf("volumes[%d]", i)
		p.line(field+".host_path", v.HostPath, MaxPathBytes)
		if v.HostPath == "" {
			p.add(field+".host_path", "is missing")
		}
		p.absolutePath(field+".container_path", v.ContainerPath)
		if v.ContainerPath == "/" {
			p.add(field+".container_path", "is the container's root")
		}
		if first, twice := seen[v.ContainerPath]; twice && v.ContainerPath != "" {
			p.add(field+".container_path", "is the same as that of volumes[%d]", first)
			continue
		}
		seen[v.ContainerPath] = i
	}
}

func (t Task) validatePorts(p *problems) {
	word(p, "network", t.Network, NetworkModes())
	if !p.count("ports", len(t.Ports), MaxPorts) {
		return
	}
	if t.Network == NetworkNone && len(t.Ports) > 0 {
		p.add("ports", "cannot be published with network none")
	}
	type hostPort struct {
		port     int
		protocol PortProtocol
	}
	seen := map[hostPort]int{}
	for i, port := range t.Ports {
		field := fmt.Sprintf("ports[%d]", i)
		within(p, field+".container_port", port.ContainerPort, 1, 65535)
		word(p, field+".protocol", port.Protocol, PortProtocols())
		within(p, field+".host_port", port.HostPort, 1, 65535)
		key := hostPort{port.HostPort, port.Protocol}
		if key.protocol == "" {
			key.protocol = ProtocolTCP
		}
		if first, twice := seen[key]; twice {
			p.add(field+".host_port", "is the same as that of ports[%d]", first)
			continue
		}
		seen[key] = i
	}
}

func (t Task) validateLimits(p *problems) {
	within(p, "cpus", t.CPUs, 0, MaxCPUs)
	within(p, "memory_bytes", t.MemoryBytes, 0, math.MaxInt64)
	within(p, "pids_limit", t.PIDsLimit, 0, MaxPIDs)
	within(p, "shm_size_bytes", t.ShmSizeBytes, 0, math.MaxInt64)
	word(p, "ipc", t.IPC, IPCModes())
	within(p, "timeout_seconds", t.TimeoutSeconds, 0, MaxTimeoutSeconds)
	if t.StopGraceSeconds != nil {
		within(p, "stop_grace_seconds", *t.StopGraceSeconds, 0, MaxStopGraceSeconds)
	}
}

func (t Task) validateDevices(p *problems) {
	if !p.count("devices", len(t.Devices), MaxDevices) {
		return
	}
	type card struct {
		vendor DeviceType
		index  int
		uuid   string
	}
	seen := map[card]int{}
	for i, d := range t.Devices {
		field := fmt.Sprintf("devices[%d]", i)
		word(p, field+".vendor", d.Vendor, DeviceTypes())
		p.line(field+".uuid", d.UUID, MaxNameBytes)
		key := card{vendor: d.Vendor, index: -1, uuid: d.UUID}
		switch {
		case d.Index != nil:
			within(p, field+".index", *d.Index, 0, math.MaxInt16)
			key.index, key.uuid = *d.Index, ""
		case d.UUID == "":
			p.add(field, "names neither an index nor a uuid")
			continue
		}
		if first, twice := seen[key]; twice {
			p.add(field, "names the same card as devices[%d]", first)
			continue
		}
		seen[key] = i
	}
}

func (t Task) validateSlices(p *problems) {
	if !p.count("slices", len(t.Slices), MaxSlices) {
		return
	}
	for i, s := range t.Slices {
		field := fmt.Sprintf("slices[%d]", i)
		p.line(field+".uuid", s.UUID, MaxNameBytes)
		switch s.Kind {
		case SliceNVIDIAMIG:
			if !strings.HasPrefix(s.UUID, "MIG-") {
				p.add(field+".uuid", "is %q, must start with MIG-", clip(s.UUID))
			}
		case SliceNVIDIAMPS:
			p.ordinal(field+".index", s.Index)
		case SliceHygonHAMi:
			p.ordinal(field+".index", s.Index)
			p.ordinal(field+".vdev_id", s.VDevID)
		case "":
			p.add(field+".kind", "is missing")
		default:
			word(p, field+".kind", s.Kind, SliceKinds())
		}
		if s.ThreadPercentage != nil {
			within(p, field+".thread_percentage", *s.ThreadPercentage, 1, 100)
		}
		if s.MemoryLimitBytes != nil {
			within(p, field+".memory_limit_bytes", *s.MemoryLimitBytes, 1, math.MaxInt64)
		}
	}
}

// ordinal checks a number that must be given and counts from 0.
func (p *problems) ordinal(field string, n *int) {
	if n == nil {
		p.add(field, "is missing")
		return
	}
	within(p, field, *n, 0, math.MaxInt16)
}

func (t Task) validateWorkload(p *problems) {
	if t.HealthCheck != nil {
		t.HealthCheck.validate(p)
	}
	p.line("framework", t.Framework, MaxNameBytes)
	if t.CheckpointPath != "" {
		p.absolutePath("checkpoint_path", t.CheckpointPath)
	}
	p.line("resume_from_checkpoint", t.ResumeFromCheckpoint, MaxPathBytes)
	p.line("engine", t.Engine, MaxNameBytes)
	if t.Model != nil {
		if t.Model.Path != "" {
			p.absolutePath("model.path", t.Model.Path)
		}
		p.line("model.format", string(t.Model.Format), MaxNameBytes)
		p.line("model.name", t.Model.Name, MaxNameBytes)
	}
}

func (h HealthCheck) validate(p *problems) {
	const day = 24 * 3600
	if h.Type == "" {
		p.add("health_check.type", "is missing")
	}
	word(p, "health_check.type", h.Type, HealthCheckTypes())
	p.line("health_check.path", h.Path, MaxPathBytes)
	if h.Path != "" && !strings.HasPrefix(h.Path, "/") {
		p.add("health_check.path", "is %q, must start with /", clip(h.Path))
	}
	within(p, "health_check.port", h.Port, 1, 65535)
	within(p, "health_check.initial_delay_seconds", h.InitialDelaySeconds, 0, day)
	within(p, "health_check.interval_seconds", h.IntervalSeconds, 0, day)
	within(p, "health_check.timeout_seconds", h.TimeoutSeconds, 0, 3600)
	within(p, "health_check.failure_threshold", h.FailureThreshold, 0, 1000)
}

func (t Task) validateLabels(p *problems) {
	if !p.count("labels", len(t.Labels), MaxLabels) {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(t.Labels)) {
		field := fmt.Sprintf("labels[%s]", clip(key))
		if key == "" {
			p.add(field, "has no name")
		}
		p.line(field, key, MaxLabelKeyBytes)
		p.line(field, t.Labels[key], MaxLabelValueBytes)
		if strings.HasPrefix(key, ReservedLabelPrefix) {
			p.add(field, "is reserved for the agent")
		}
	}
}
