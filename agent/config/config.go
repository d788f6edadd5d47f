// Package config is the agent's configuration: one struct, filled from defaults, the
// file, the environment and the command line, in that order, each over the one before.
//
// Unknown keys are errors, and every problem is reported at once. The struct's tags
// are the reference: the page docs/configuration.md is generated from them. The system
// key is never part of it: it is read from its own file by [ReadKey].
package config

import "time"

// Config is everything an operator can set.
type Config struct {
	Server    Server    `koanf:"server"`
	Node      Node      `koanf:"node"`
	Runtime   Runtime   `koanf:"runtime"`
	Heartbeat Heartbeat `koanf:"heartbeat"`
	GPU       GPU       `koanf:"gpu"`
	Tasks     Tasks     `koanf:"tasks"`
	Pull      Pull      `koanf:"pull"`
	Report    Report    `koanf:"report"`
	Volumes   Volumes   `koanf:"volumes"`
	Log       Log       `koanf:"log"`

	StateDir        string        `koanf:"state_dir" doc:"Directory of the agent's own durable state: node id, undelivered results. Created with mode 0700."`
	ShutdownTimeout time.Duration `koanf:"shutdown_timeout" doc:"How long an orderly stop may take before the agent exits anyway. Task containers are never stopped by it."`
}

// Server tells where the control plane is and how to talk to it.
type Server struct {
	URL            string        `koanf:"url" doc:"Base URL of the control plane, http:// or https://. Required."`
	KeyFile        string        `koanf:"key_file" doc:"File that holds the system key, mode 0600 or stricter. Under systemd the credential heteroflow-key (LoadCredential=) is used instead when it is there."`
	CAFile         string        `koanf:"ca_file" doc:"PEM file of certificate authorities to trust for https instead of the system's."`
	ClientCertFile string        `koanf:"client_cert_file" doc:"PEM client certificate for mutual TLS; needs client_key_file."`
	ClientKeyFile  string        `koanf:"client_key_file" doc:"PEM private key of client_cert_file, mode 0600 or stricter."`
	Timeout        time.Duration `koanf:"timeout" doc:"Time limit of one request, heartbeat and held wake request aside."`
}

// Node is who this machine is to the control plane.
type Node struct {
	ID string `koanf:"id" doc:"Node id. Empty: derived once from machine-id and MAC address and kept in the state directory."`
}

// Runtime selects the container daemon.
type Runtime struct {
	Name       string     `koanf:"name" doc:"auto, docker or containerd. auto takes containerd when its socket answers, else Docker. Once one has answered it stays chosen until the agent restarts."`
	DockerHost string     `koanf:"docker_host" doc:"Docker Engine API endpoint, unix:// or tcp://."`
	Containerd Containerd `koanf:"containerd"`
}

// Containerd is how containerd is used.
type Containerd struct {
	Address     string `koanf:"address" doc:"The daemon's socket, a path."`
	Namespace   string `koanf:"namespace" doc:"containerd namespace of the agent's own images and containers."`
	Snapshotter string `koanf:"snapshotter" doc:"Snapshotter that unpacks images."`
	OCIRuntime  string `koanf:"oci_runtime" doc:"Name or path of the OCI runtime (runc, crun, nvidia-container-runtime). Empty: the daemon's own."`
	HostsDir    string `koanf:"hosts_dir" doc:"Directory of per-registry hosts.toml files: mirrors, private authorities, plain http."`
	Bridge      string `koanf:"bridge" doc:"Network interface that tasks with a bridge network share."`
	Subnet      string `koanf:"subnet" doc:"IPv4 network of the bridge, like 10.213.0.0/16. It must not be in use elsewhere."`
	RunDir      string `koanf:"run_dir" doc:"Directory of network namespaces; must not survive a reboot."`
}

// Heartbeat is the upward channel.
type Heartbeat struct {
	Period  time.Duration `koanf:"period" doc:"Time between heartbeats."`
	Timeout time.Duration `koanf:"timeout" doc:"Time limit of one heartbeat. A heartbeat that failed is not repeated: the next carries fresh data."`
}

// GPU is how the accelerators of the node are found and measured.
type GPU struct {
	Period          time.Duration `koanf:"period" doc:"Time between two rounds of asking a vendor's tool about its cards. Values older than three periods are not reported."`
	InventoryPeriod time.Duration `koanf:"inventory_period" doc:"Time between two full inventories, which also ask for what rarely changes: topology, firmware, serial numbers. A card that comes or goes starts one at once."`
	HostRoot        string        `koanf:"host_root" doc:"Where the host's root file system is mounted, for an agent in a container: the vendors' tools are found there and run with it as their root, which needs CAP_SYS_CHROOT. Empty: the agent runs on the host."`
	CDIDir          string        `koanf:"cdi_dir" doc:"Directory of the CDI specs by which containers get cards. One that the container runtime reads."`
	Virtual         bool          `koanf:"virtual" doc:"Report one virtual device on a node on which no accelerator is found. false: such a node reports none."`
}

// Tasks is the downward channel and what runs from it.
type Tasks struct {
	Workers          int           `koanf:"workers" doc:"Tasks that may run at once; more wait, those that are to wake from sleep first. At most 128. 0: the number of CPU cores, at least 2 and at most 16."`
	PollPeriod       time.Duration `koanf:"poll_period" doc:"Time between polls for new tasks and for changes to running ones."`
	WakePollPeriod   time.Duration `koanf:"wake_poll_period" doc:"The same while the server's wake channel and the last poll worked, as a safety net."`
	ReconcilePeriod  time.Duration `koanf:"reconcile_period" doc:"Time between comparisons of this node's containers with the server's tasks."`
	MinContainerAge  time.Duration `koanf:"min_container_age" doc:"A container younger than this is not removed for the server's saying that its task has ended, is another node's or is not known, which may not have reached all of the server yet. What the server asks for is done at any age: to stop or cancel a task, to run it anew here, or to delete one that it had here before."`
	ContainerLogSize int64         `koanf:"container_log_bytes" doc:"Size in bytes at which a task's log file is rotated."`
	ContainerLogs    int           `koanf:"container_log_files" doc:"Log files kept for a task."`
	LogTailBytes     int64         `koanf:"log_tail_bytes" doc:"How much of the end of a task's output is sent with its result, in bytes."`
}

// Pull bounds the image pulls of tasks.
type Pull struct {
	Attempts          int           `koanf:"attempts" doc:"Tries at pulling a task's image. An image that is present costs none."`
	Timeout           time.Duration `koanf:"timeout" doc:"Time limit of one try."`
	InactivityTimeout time.Duration `koanf:"inactivity_timeout" doc:"A try in which no byte arrived for this long has stalled and is given up."`
	UnpackFactor      float64       `koanf:"unpack_factor" doc:"How many bytes one byte of a compressed layer is taken to become when it is unpacked. A pull that would fill the disk where the runtime keeps images is refused by this forecast: programs come to 2 to 3, model weights to little more than 1."`
	TrustNodeCache    bool          `koanf:"trust_node_cache" doc:"true: an image that is on the node is used for any task that names it, also one that another task's credentials fetched; its registry is not asked and may be away. false: the registry must confirm for each task, with that task's credentials or without any, that it may pull the image; a task does not start while the registry cannot be reached. For a node that several tenants share."`
}

// Report bounds the delivery of a task's result.
type Report struct {
	Attempts       int           `koanf:"attempts" doc:"Tries at delivering a result before it is left to the reconciliation loop."`
	InitialBackoff time.Duration `koanf:"initial_backoff" doc:"Pause after the first try; doubles with each."`
	MaxBackoff     time.Duration `koanf:"max_backoff" doc:"Longest pause between tries."`
	Budget         time.Duration `koanf:"budget" doc:"Time limit of all tries together."`
}

// Volumes says which host paths a task may mount.
type Volumes struct {
	Allow []string `koanf:"allow" doc:"Host directories below which tasks may mount paths. System directories, runtime sockets and the agent's own state are refused whatever stands here. A read-only volume is so with all that is mounted below it when its container is made; what is mounted there later is writable once the task is woken. On Docker, a task that may write to a directory above another task's volume can put a link in its place while that one starts: give tenants who do not trust each other directories of their own, or use containerd, where the volumes are checked before the program runs."`
}

// Log is the agent's own log, written to standard error.
type Log struct {
	Level  string `koanf:"level" doc:"debug, info, warn or error."`
	Format string `koanf:"format" doc:"json, or console for reading by eye."`
}

// Default is the configuration before the operator has said anything.
func Default() Config {
	return Config{
		Server: Server{KeyFile: "/etc/heteroflow/agent.key", Timeout: 15 * time.Second},
		Runtime: Runtime{
			Name: "auto", DockerHost: "unix:///var/run/docker.sock",
			Containerd: Containerd{
				Address: "/run/containerd/containerd.sock", Namespace: "heteroflow", Snapshotter: "overlayfs",
				HostsDir: "/etc/containerd/certs.d", Bridge: "heteroflow0", Subnet: "10.213.0.0/16",
				RunDir: "/run/heteroflow/containerd",
			},
		},
		Heartbeat: Heartbeat{Period: 5 * time.Second, Timeout: 10 * time.Second},
		GPU:       GPU{Period: 5 * time.Second, InventoryPeriod: 5 * time.Minute, CDIDir: "/var/run/cdi", Virtual: true},
		Tasks: Tasks{
			PollPeriod:       5 * time.Second,
			WakePollPeriod:   time.Minute,
			ReconcilePeriod:  time.Minute,
			MinContainerAge:  time.Minute,
			ContainerLogSize: 16 << 20,
			ContainerLogs:    4,
			LogTailBytes:     64 << 10,
		},
		Pull:            Pull{Attempts: 3, Timeout: 5 * time.Minute, InactivityTimeout: time.Minute, UnpackFactor: 2, TrustNodeCache: true},
		Report:          Report{Attempts: 6, InitialBackoff: time.Second, MaxBackoff: 10 * time.Second, Budget: time.Minute},
		Volumes:         Volumes{Allow: []string{"/data", "/mnt", "/srv"}},
		Log:             Log{Level: "info", Format: "json"},
		StateDir:        "/var/lib/heteroflow",
		ShutdownTimeout: 20 * time.Second,
	}
}
