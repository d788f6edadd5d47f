package gpu

// Device is one card (or one chip of a multi-chip card: what a task can be
// given) as PROTOCOL.md §9 names it. An empty string or a nil pointer means
// that nobody said; it is then absent in JSON.
type Device struct {
	// Index is the number by which the vendor's tool addresses the device in
	// this round. It shifts when a card disappears: UUID and BusID are the
	// identity. Nil only in Parsed, where the output may not say it.
	Index           *int       `json:"index,omitempty"`
	UUID            string     `json:"uuid,omitempty"`
	Vendor          Vendor     `json:"vendor"`
	Type            Vendor     `json:"type"`
	Model           string     `json:"model,omitempty"`
	BusID           string     `json:"bus_id,omitempty"` // as text.BusID normalises it: 0000:c1:00.0
	NUMANode        *int       `json:"numa_node,omitempty"`
	MemoryTotal     *int64     `json:"memory_total_bytes,omitempty"`
	DriverVersion   string     `json:"driver_version,omitempty"`
	FirmwareVersion string     `json:"firmware_version,omitempty"`
	Serial          string     `json:"serial,omitempty"`
	MIGMode         string     `json:"mig_mode,omitempty"` // the mode now, never a pending one
	Instances       []Instance `json:"instances,omitempty"`

	// Card and Chip are the board and chip numbers of tools that count so
	// (Ascend card+chip); Minor is the number in the vendor's device node
	// (/dev/davinciN, /dev/nvidiaN, /dev/iluvatarN), which differs from Index.
	// They are for the CDI generator and for attribution, not for the wire.
	Card  *int `json:"-"`
	Chip  *int `json:"-"`
	Minor *int `json:"-"`
}

// MIG modes of a Device: whether it is set to be cut into Instances.
const (
	MIGEnabled  = "enabled"
	MIGDisabled = "disabled"
)

// Instance is one hardware slice of a device (NVIDIA MIG).
type Instance struct {
	GI      *int   `json:"gi_id,omitempty"`
	CI      *int   `json:"ci_id,omitempty"`
	UUID    string `json:"uuid,omitempty"`
	Profile string `json:"profile,omitempty"`
}

// Health words of Stats. A tool's own words are mapped to these three; a word
// that is not known is left absent and goes into HealthMessage.
const (
	HealthOK      = "ok"
	HealthWarning = "warning"
	HealthFailed  = "failed"
)

// Stats is one device's measurements of one round, PROTOCOL.md §9.
type Stats struct {
	// Vendor is set only when the cards of several vendors are merged into one
	// list, where Index alone would be ambiguous.
	Vendor        Vendor   `json:"vendor,omitempty"`
	Index         *int     `json:"index,omitempty"`
	UUID          string   `json:"uuid,omitempty"`
	Temperature   *float64 `json:"temperature_celsius,omitempty"`
	Utilization   *float64 `json:"utilization_percent,omitempty"` // 0..100 of the compute units
	MemoryUsed    *int64   `json:"memory_used_bytes,omitempty"`
	MemoryTotal   *int64   `json:"memory_total_bytes,omitempty"`
	Power         *float64 `json:"power_watts,omitempty"`
	PowerLimit    *float64 `json:"power_limit_watts,omitempty"`
	Health        string   `json:"health,omitempty"`
	HealthMessage string   `json:"health_message,omitempty"`
}

// Codes of failures that this package itself finds. Detectors add their own
// short snake_case words.
const (
	// CodeMissing: remembered from an earlier round, not listed any more.
	CodeMissing = "missing"
	// CodeNotListed: on the PCI bus, but the vendor's tool does not list it
	// although it lists others.
	CodeNotListed = "not_listed"
	// CodeNoDriver: on the PCI bus, and the vendor's tool is absent or failed.
	CodeNoDriver = "no_driver"
)

// Failure says that one card failed and which one. At least one of Index, UUID
// and BusID is set.
type Failure struct {
	Vendor  Vendor `json:"vendor,omitempty"` // as in Stats
	Index   *int   `json:"index,omitempty"`
	UUID    string `json:"uuid,omitempty"`
	BusID   string `json:"bus_id,omitempty"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Capability says how a card can be shared. A flag is true only when the tool
// confirmed it in this round: rather too little than too much.
type Capability struct {
	Vendor     Vendor   `json:"vendor,omitempty"` // as in Stats
	Index      *int     `json:"index,omitempty"`
	MIGCapable bool     `json:"mig_capable"`
	MPSCapable bool     `json:"mps_capable"`
	SliceKinds []string `json:"slice_kinds,omitempty"` // "nvidia-mig", "nvidia-mps", "hygon-hami"
}

// Topology is how the cards of one vendor are connected.
type Topology struct {
	Kind  string     `json:"kind"` // the vendor whose words the links are
	Links []Link     `json:"links,omitempty"`
	NUMA  []Affinity `json:"numa,omitempty"`
	NICs  []NICLink  `json:"nics,omitempty"`
}

// Link is one pair of cards, by index, given once with A < B. Type is the
// vendor's word: NV12, PIX, PXB, NODE, SYS, HCCS, XL.
type Link struct {
	A    int    `json:"a"`
	B    int    `json:"b"`
	Type string `json:"type"`
}

// Affinity is where a card sits.
type Affinity struct {
	Index int    `json:"index"`
	Node  *int   `json:"node,omitempty"` // NUMA node
	CPUs  string `json:"cpus,omitempty"` // a CPU list, "0-23,48-71"
}

// NICLink is the way from a card to a network interface, which is named as the
// matrix names it (NIC0, mlx5_0).
type NICLink struct {
	Index int    `json:"index"`
	NIC   string `json:"nic"`
	Type  string `json:"type"`
}
