package cdi

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/heteroflow/node-agent/gpu"
)

// Source makes the spec of one vendor's devices. The recipes of this package are one;
// another is a vendor's own library, which knows more than a table can.
type Source interface {
	Make(ctx context.Context, vendor gpu.Vendor, devices []gpu.Device) (Made, error)
}

// Made is what a Source has made of a vendor's devices.
type Made struct {
	// Spec names each device by its index and, where it has one, its uuid, and each MIG
	// instance by its uuid. Kind and version are filled in later. Nil: no device can be
	// given to a container.
	Spec *specs.Spec
	// Absent are the devices that are not in Spec, and why.
	Absent []Absence
	// Omitted is what a container might have used and will not find.
	Omitted []Omission
}

// Absence is a device that no container can be given.
type Absence struct {
	Device gpu.Device
	Reason string
}

// Omission is something of the host that a spec leaves out.
type Omission struct {
	Path   string
	Reason string
}

// recipe is what the cards of one vendor need in a container. Paths are the host's, and
// are looked up anew for each spec.
type recipe struct {
	// cards are the nodes of one card.
	cards []cardNode
	// dri is where, by its PCI address, the names of a card's nodes in /dev/dri stand; "":
	// it has none there. driRequired: it is nothing without them.
	dri         string
	driRequired bool
	// listed finds nodes of a card that no pattern gives.
	listed func(*build, gpu.Device) ([]*specs.DeviceNode, error)
	// alone says why a card can be given only where it is the only one; "": each can.
	alone string
	// shared are the nodes beside any card, and sharedDirs directories of such nodes. Which
	// of them there are depends on the driver's version and the card's generation.
	shared, sharedDirs []string
	mounts             []string // files and directories, where they exist
	libraries          []string // files looked for in the linker's default directories
	env                []string
	// more adds what no table can say.
	more func(*build)
	// platform is the recipe of a machine for which this one does not hold; nil: it does.
	platform func(host, []gpu.Device) *recipe
}

// cardNode is a device node of one card: a pattern with one %d and what says its number, or
// with neither.
type cardNode struct {
	pattern  string
	number   func(host, gpu.Device) (int, error)
	optional bool
}

func (c cardNode) path(h host, d gpu.Device) (string, error) {
	if c.number == nil {
		return c.pattern, nil
	}
	n, err := c.number(h, d)
	if err != nil {
		return "", fmt.Errorf("device node %s: %w", c.pattern, err)
	}
	return fmt.Sprintf(c.pattern, n), nil
}

// build is a spec in the making.
type build struct {
	host    host
	recipe  recipe
	devices []gpu.Device
	made    Made
	edits   specs.ContainerEdits // of every container with one of the devices
	owners  map[string]string    // by device node, the cards that have them
}

// recipes makes specs from the table of this package.
type recipes struct{ host host }

// Make implements Source. It fails for a vendor that has no recipe.
func (r recipes) Make(_ context.Context, vendor gpu.Vendor, devices []gpu.Device) (Made, error) {
	recipe, ok := table[vendor]
	if !ok {
		return Made{}, fmt.Errorf("make CDI spec: nothing is known of what cards of vendor %q need in a container", vendor)
	}
	if recipe.platform != nil {
		if other := recipe.platform(r.host, devices); other != nil {
			recipe = *other
		}
	}
	b := &build{host: r.host, recipe: recipe, devices: devices, owners: map[string]string{}}
	b.makeShared()
	b.made.Spec = &specs.Spec{}
	for _, d := range devices {
		b.addCard(d)
	}
	if len(b.made.Spec.Devices) == 0 {
		b.made.Spec = nil
		return b.made, nil
	}
	b.made.Spec.ContainerEdits = b.edits
	return b.made, nil
}

func (b *build) makeShared() {
	for _, name := range b.recipe.shared {
		b.node(&b.edits, name)
	}
	for _, dir := range b.recipe.sharedDirs {
		names, err := b.host.list(dir, "*")
		if err != nil {
			b.omit(dir, err)
		}
		for _, name := range names {
			b.node(&b.edits, path.Join(dir, name))
		}
	}
	for _, name := range b.recipe.mounts {
		b.mount(name)
	}
	for _, library := range b.recipe.libraries {
		b.library(library)
	}
	b.edits.Env = slices.Clone(b.recipe.env)
	if b.recipe.more != nil {
		b.recipe.more(b)
	}
}

// node adds a device node if it is there.
func (b *build) node(edits *specs.ContainerEdits, name string) {
	node, err := b.host.node(name)
	if err != nil {
		b.omit(name, err)
		return
	}
	edits.DeviceNodes = append(edits.DeviceNodes, node)
}

// mount adds a mount if its source is there.
func (b *build) mount(name string) {
	mount, err := b.host.mount(name)
	if err != nil {
		b.omit(name, err)
		return
	}
	b.addMount(mount)
}

// addMount adds a mount unless something is mounted there already.
func (b *build) addMount(mount *specs.Mount) {
	if !slices.ContainsFunc(b.edits.Mounts, func(m *specs.Mount) bool { return m.ContainerPath == mount.ContainerPath }) {
		b.edits.Mounts = append(b.edits.Mounts, mount)
	}
}

// libraryDirs are where the dynamic linker looks by default, of both architectures.
var libraryDirs = []string{
	"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib",
}

func (b *build) library(name string) {
	for _, dir := range libraryDirs {
		if mount, err := b.host.mount(path.Join(dir, name)); err == nil {
			b.addMount(mount)
			return
		}
	}
	b.omit(name, errors.New("in none of the linker's default directories"))
}

func (b *build) omit(name string, err error) {
	b.made.Omitted = append(b.made.Omitted, Omission{Path: name, Reason: err.Error()})
}

// addCard adds a card under its names, or says why it cannot.
//
// A card cut into MIG instances runs nothing as a whole, so it has no name of its own.
func (b *build) addCard(d gpu.Device) {
	nodes, err := b.cardNodes(d)
	switch {
	case d.Index == nil:
		err = errors.New("its index is not known")
	case b.recipe.alone != "" && len(b.devices) > 1:
		err = errors.New(b.recipe.alone)
	case err == nil:
		err = b.own(d, nodes)
	}
	if err != nil {
		b.made.Absent = append(b.made.Absent, Absence{Device: d, Reason: err.Error()})
		return
	}
	if d.Vendor == gpu.NVIDIA && d.MIGMode == migEnabled {
		b.addInstances(d, nodes)
		return
	}
	edits := specs.ContainerEdits{DeviceNodes: nodes}
	if len(nodes) == 0 { // the virtual card: a CDI device has to edit something
		edits.Env = []string{virtualEnv + "=" + d.UUID}
	}
	for _, name := range b.names(d) {
		b.made.Spec.Devices = append(b.made.Spec.Devices, specs.Device{Name: name, ContainerEdits: edits})
	}
}

// own notes that nodes are a card's. An error when one is another's, as where the number of
// a node had to be guessed.
func (b *build) own(d gpu.Device, nodes []*specs.DeviceNode) error {
	for _, n := range nodes {
		if other, taken := b.owners[n.Path]; taken {
			return fmt.Errorf("device node %s is that of card %s", n.Path, other)
		}
	}
	for _, n := range nodes {
		b.owners[n.Path] = fmt.Sprint(*d.Index)
	}
	return nil
}

// migEnabled is gpu.Device.MIGMode of a card cut into instances.
const migEnabled = "enabled"

// cardNodes are the nodes of one card; an error when one that it cannot do without is
// missing.
func (b *build) cardNodes(d gpu.Device) ([]*specs.DeviceNode, error) {
	if b.recipe.listed != nil {
		return b.recipe.listed(b, d)
	}
	var nodes []*specs.DeviceNode
	for _, c := range b.recipe.cards {
		name, err := c.path(b.host, d)
		if err != nil {
			return nil, err
		}
		node, err := b.host.node(name)
		switch {
		case err == nil:
			nodes = append(nodes, node)
		case c.optional:
			b.omit(name, err)
		default:
			return nil, fmt.Errorf("device node %s: %w", name, err)
		}
	}
	if b.recipe.dri == "" {
		return nodes, nil
	}
	dri, err := b.driNodes(d)
	switch {
	case err != nil && b.recipe.driRequired:
		return nil, err
	case err != nil:
		b.omit(fmt.Sprintf("/dev/dri of card %s", d.BusID), err)
	}
	return append(nodes, dri...), nil
}

// driNodes finds a card's nodes in /dev/dri by its PCI address. Their numbers say nothing:
// card0 is often the server's management VGA.
func (b *build) driNodes(d gpu.Device) ([]*specs.DeviceNode, error) {
	if d.BusID == "" {
		return nil, errors.New("its PCI address is not known, so neither are its nodes in /dev/dri")
	}
	dir := fmt.Sprintf(b.recipe.dri, d.BusID)
	names, err := b.host.list(dir, "card[0-9]*", "renderD[0-9]*")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s: no node of /dev/dri in it", dir)
	}
	var nodes []*specs.DeviceNode
	for _, name := range names {
		node, err := b.host.node(path.Join("/dev/dri", name))
		if err != nil {
			return nil, fmt.Errorf("device node /dev/dri/%s: %w", name, err)
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}

// names are those of a card: its index, and its uuid unless another card has the same,
// as virtual functions of some vendors do, or CDI cannot have it for a name.
func (b *build) names(d gpu.Device) []string {
	names := []string{fmt.Sprint(*d.Index)}
	if d.UUID == "" || d.UUID == names[0] {
		return names
	}
	if err := checkName(d.UUID); err != nil {
		b.omit("device name "+d.UUID, err)
		return names
	}
	for _, other := range b.devices {
		if other.Index != nil && *other.Index != *d.Index && (other.UUID == d.UUID || fmt.Sprint(*other.Index) == d.UUID) {
			b.omit("device name "+d.UUID, errors.New("another card has it, too"))
			return names
		}
	}
	return append(names, d.UUID)
}
