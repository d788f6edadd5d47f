package recipe

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/cdi/hostfs"
	"github.com/heteroflow/node-agent/gpu/cdi/spec"
	"github.com/heteroflow/node-agent/gpu/virtual"
)

// build is a spec in the making.
type build struct {
	host    hostfs.FS
	recipe  recipe
	devices []gpu.Device
	made    spec.Made
	edits   specs.ContainerEdits // of every container with one of the devices
	owners  map[string]string    // by device node, the cards that have them
}

// Source is a spec.Source: the recipes of all vendors, on a host.
type Source struct{ Host hostfs.FS }

// Make implements spec.Source. It fails for a vendor that has no recipe.
func (s Source) Make(_ context.Context, vendor gpu.Vendor, devices []gpu.Device) (spec.Made, error) {
	recipe, ok := table[vendor]
	if !ok {
		return spec.Made{}, fmt.Errorf("make CDI spec: nothing is known of what cards of vendor %q need in a container", vendor)
	}
	if recipe.platform != nil {
		if other := recipe.platform(s.Host, devices); other != nil {
			recipe = *other
		}
	}
	b := &build{host: s.Host, recipe: recipe, devices: devices, owners: map[string]string{}}
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
		b.node(name)
	}
	for _, dir := range b.recipe.sharedDirs {
		names, err := b.host.List(dir, "*")
		if err != nil {
			b.omit(dir, err)
		}
		for _, name := range names {
			b.node(path.Join(dir, name))
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
func (b *build) node(name string) {
	node, err := b.host.DeviceNode(name)
	if err != nil {
		b.omit(name, err)
		return
	}
	b.edits.DeviceNodes = append(b.edits.DeviceNodes, node)
}

// mount adds a mount if its source is there.
func (b *build) mount(name string) {
	mount, err := b.host.Mount(name)
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
		if mount, err := b.host.Mount(path.Join(dir, name)); err == nil {
			b.addMount(mount)
			return
		}
	}
	b.omit(name, errors.New("in none of the linker's default directories"))
}

func (b *build) omit(name string, err error) {
	b.made.Omitted = append(b.made.Omitted, spec.Omission{Path: name, Reason: err.Error()})
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
		b.made.Absent = append(b.made.Absent, spec.Absence{Device: d, Reason: err.Error()})
		return
	}
	if d.Vendor == gpu.NVIDIA && d.MIGMode == gpu.MIGEnabled {
		b.addInstances(d, nodes)
		return
	}
	edits := specs.ContainerEdits{DeviceNodes: nodes}
	if len(nodes) == 0 { // the virtual card: a CDI device has to edit something
		edits.Env = []string{virtual.CardEnv + "=" + d.UUID}
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
		node, err := b.host.DeviceNode(name)
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
	names, err := b.host.List(dir, "card[0-9]*", "renderD[0-9]*")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s: no node of /dev/dri in it", dir)
	}
	var nodes []*specs.DeviceNode
	for _, name := range names {
		node, err := b.host.DeviceNode(path.Join("/dev/dri", name))
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
	if err := spec.CheckName(d.UUID); err != nil {
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
