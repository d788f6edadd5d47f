package config

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"time"
)

// MaxWorkers bounds tasks.workers: what a node holds must fit into one list of the control
// plane's, of at most protocol.MaxListLimit tasks, with room for those that owe a result.
const MaxWorkers = 128

// MaxUnpackFactor bounds pull.unpack_factor: no compression of layers comes near it.
const MaxUnpackFactor = 1_000_000

// Validate returns every problem, each naming its key.
func (c Config) Validate() error {
	var v problems
	v.serverURL(c.Server.URL)
	if (c.Server.ClientCertFile == "") != (c.Server.ClientKeyFile == "") {
		v.add("server.client_cert_file, server.client_key_file", "both or neither must be set")
	}
	v.absolute("state_dir", c.StateDir)
	v.absolute("server.key_file", c.Server.KeyFile)
	for i, dir := range c.Volumes.Allow {
		v.absolute(fmt.Sprintf("volumes.allow[%d]", i), dir)
	}
	v.oneOf("runtime.name", c.Runtime.Name, "auto", "docker", "containerd")
	v.oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	v.oneOf("log.format", c.Log.Format, "json", "console")
	if u, err := url.Parse(c.Runtime.DockerHost); err != nil || !slices.Contains([]string{"unix", "tcp"}, u.Scheme) {
		v.add("runtime.docker_host", "%q: want unix:///path or tcp://host:port", c.Runtime.DockerHost)
	}

	v.containerd(c.Runtime.Containerd)
	v.absolute("gpu.cdi_dir", c.GPU.CDIDir)

	v.atLeast("server.timeout", c.Server.Timeout, time.Second)
	v.atLeast("heartbeat.period", c.Heartbeat.Period, 100*time.Millisecond)
	v.atLeast("heartbeat.timeout", c.Heartbeat.Timeout, 100*time.Millisecond)
	v.atLeast("tasks.poll_period", c.Tasks.PollPeriod, 100*time.Millisecond)
	v.atLeast("tasks.wake_poll_period", c.Tasks.WakePollPeriod, 100*time.Millisecond)
	v.atLeast("tasks.reconcile_period", c.Tasks.ReconcilePeriod, 100*time.Millisecond)
	v.atLeast("tasks.min_container_age", c.Tasks.MinContainerAge, 0)
	v.atLeast("pull.timeout", c.Pull.Timeout, time.Second)
	v.atLeast("pull.inactivity_timeout", c.Pull.InactivityTimeout, time.Second)
	v.atLeast("report.initial_backoff", c.Report.InitialBackoff, time.Millisecond)
	v.atLeast("report.max_backoff", c.Report.MaxBackoff, c.Report.InitialBackoff)
	v.atLeast("report.budget", c.Report.Budget, c.Report.InitialBackoff)
	v.atLeast("shutdown_timeout", c.ShutdownTimeout, time.Second)

	v.between("tasks.workers", int64(c.Tasks.Workers), 0, MaxWorkers)
	v.between("tasks.container_log_bytes", c.Tasks.ContainerLogSize, 64<<10, 1<<30)
	v.between("tasks.container_log_files", int64(c.Tasks.ContainerLogs), 1, 100)
	v.between("tasks.log_tail_bytes", c.Tasks.LogTailBytes, 0, 1<<20)
	v.between("pull.attempts", int64(c.Pull.Attempts), 1, 100)
	if f := c.Pull.UnpackFactor; !(f >= 0 && f <= MaxUnpackFactor) { // NaN neither
		v.add("pull.unpack_factor", "%v: want 0 to %d", f, MaxUnpackFactor)
	}
	v.between("report.attempts", int64(c.Report.Attempts), 1, 100)
	return errors.Join(append(v, c.GPU.Validate())...)
}

// Validate returns every problem of the section, each naming its key.
func (g GPU) Validate() error {
	var v problems
	v.atLeast("gpu.period", g.Period, time.Second)
	v.atLeast("gpu.inventory_period", g.InventoryPeriod, g.Period)
	if g.HostRoot != "" {
		v.absolute("gpu.host_root", g.HostRoot)
	}
	return errors.Join(v...)
}

func (p *problems) containerd(c Containerd) {
	p.absolute("runtime.containerd.address", c.Address)
	p.absolute("runtime.containerd.hosts_dir", c.HostsDir)
	p.absolute("runtime.containerd.run_dir", c.RunDir)
	if !namespacePattern.MatchString(c.Namespace) {
		p.add("runtime.containerd.namespace", "%q: want letters, digits and single . _ - between them", c.Namespace)
	}
	if c.Snapshotter == "" {
		p.add("runtime.containerd.snapshotter", "required")
	}
	if !interfacePattern.MatchString(c.Bridge) {
		p.add("runtime.containerd.bridge", "%q: want an interface name of 1 to 15 letters, digits, _ and -", c.Bridge)
	}
	if prefix, err := netip.ParsePrefix(c.Subnet); err != nil || !prefix.Addr().Is4() || prefix.Bits() > 29 || prefix != prefix.Masked() {
		p.add("runtime.containerd.subnet", "%q: want an IPv4 network of at least 8 addresses, like 10.213.0.0/16", c.Subnet)
	}
}

var (
	namespacePattern = regexp.MustCompile(`^[A-Za-z0-9]+([._-][A-Za-z0-9]+)*$`)
	interfacePattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,15}$`)
)

type problems []error

func (p *problems) add(key, format string, args ...any) {
	*p = append(*p, fmt.Errorf("%s: "+format, append([]any{key}, args...)...))
}

func (p *problems) serverURL(raw string) {
	if raw == "" {
		p.add("server.url", "required: the base URL of the control plane")
		return
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https"):
		p.add("server.url", "want http://host[:port] or https://host[:port]")
	case u.User != nil:
		p.add("server.url", "must not contain credentials: the key belongs in server.key_file")
	case u.RawQuery != "" || u.Fragment != "":
		p.add("server.url", "must not have a query or a fragment")
	}
}

func (p *problems) absolute(key, path string) {
	if !filepath.IsAbs(path) {
		p.add(key, "%q: want an absolute path", path)
	}
}

func (p *problems) oneOf(key, value string, words ...string) {
	if !slices.Contains(words, value) {
		p.add(key, "%q: want one of %v", value, words)
	}
}

func (p *problems) atLeast(key string, value, least time.Duration) {
	if value < least {
		p.add(key, "%v: want at least %v", value, least)
	}
}

func (p *problems) between(key string, value, least, most int64) {
	if value < least || value > most {
		p.add(key, "%d: want %d to %d", value, least, most)
	}
}
