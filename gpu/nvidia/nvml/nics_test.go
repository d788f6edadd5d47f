package nvml

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/gpu"
)

// device adds a PCI device to a sysfs and returns its directory.
func device(t *testing.T, sysfs, path string, node int) string {
	t.Helper()
	dir := filepath.Join(sysfs, "devices", path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "numa_node"), []byte(strconv.Itoa(node)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	link(t, dir, filepath.Join(sysfs, "bus/pci/devices", filepath.Base(path)))
	return dir
}

func link(t *testing.T, target, name string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
}

func TestNetworkInterfacesAreAsFarAsTheBridgesBetween(t *testing.T) {
	sysfs := t.TempDir()
	const port = "pci0000:10/0000:10:01.0/0000:11:00.0/" // a root port and the upper end of a switch
	device(t, sysfs, port+"0000:12:00.0/0000:13:00.0", 0)
	cards := []gpu.Device{
		{Index: new(0), BusID: "0000:13:00.0"},
		{Index: new(1), BusID: "0000:99:00.0"}, // not in sysfs
		{Index: new(2)},
	}
	for name, path := range map[string]string{
		"mlx5_0": port + "0000:12:01.0/0000:14:00.0",
		"mlx5_1": port + "0000:12:02.0/0000:15:00.0/0000:16:01.0/0000:17:00.0",
		"mlx5_2": "pci0000:10/0000:10:02.0/0000:20:00.0",
		"mlx5_3": "pci0000:40/0000:40:01.0/0000:41:00.0",
	} {
		link(t, device(t, sysfs, path, 0), filepath.Join(sysfs, "class/infiniband", name, "device"))
	}
	link(t, device(t, sysfs, "pci0000:80/0000:80:01.0/0000:81:00.0", 1), filepath.Join(sysfs, "class/infiniband/mlx5_4/device"))
	link(t, device(t, sysfs, "pci0000:c0/0000:c0:01.0/0000:c1:00.0", -1), filepath.Join(sysfs, "class/infiniband/mlx5_5/device"))
	if err := os.MkdirAll(filepath.Join(sysfs, "class/infiniband/rxe0"), 0o700); err != nil { // software: no device
		t.Fatal(err)
	}
	want := []gpu.NICLink{
		{Index: 0, NIC: "mlx5_0", Type: "PIX"},
		{Index: 0, NIC: "mlx5_1", Type: "PXB"},
		{Index: 0, NIC: "mlx5_2", Type: "PHB"},
		{Index: 0, NIC: "mlx5_3", Type: "NODE"},
		{Index: 0, NIC: "mlx5_4", Type: "SYS"},
		{Index: 0, NIC: "mlx5_5", Type: "SYS"},
	}
	if diff := cmp.Diff(want, nics(sysfs, cards)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := nics(t.TempDir(), cards); got != nil {
		t.Errorf("without any: %+v", got)
	}
}
