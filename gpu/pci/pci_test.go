package pci

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sysfs makes a tree like the kernel's: device directories are links.
func sysfs(t *testing.T, devices map[string]map[string]string) string {
	t.Helper()
	root := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(root, devicesDir), 0o750))
	for bus, files := range devices {
		at := filepath.Join(root, "devices/pci0000:00", bus)
		must(os.MkdirAll(at, 0o750))
		for name, content := range files {
			if name == "driver" || name == "physfn" {
				must(os.Symlink("../../../bus/pci/drivers/"+content, filepath.Join(at, name)))
				continue
			}
			must(os.WriteFile(filepath.Join(at, name), []byte(content+"\n"), 0o400))
		}
		must(os.Symlink("../../../devices/pci0000:00/"+bus, filepath.Join(root, devicesDir, bus)))
	}
	return root
}

func dev(vendor, device, class string) map[string]string {
	return map[string]string{"vendor": vendor, "device": device, "class": class}
}

func TestScanKnowsEachVendorsCardsFromItsOtherDevices(t *testing.T) {
	root := sysfs(t, map[string]map[string]string{
		"0000:01:00.0": dev("0x10de", "0x2330", "0x030200"), // H100
		"0000:01:00.1": dev("0x10de", "0x22ba", "0x040300"), // a card's audio
		"0000:02:00.0": dev("0x10de", "0x22a3", "0x068000"), // NVSwitch
		"0000:03:00.0": dev("0x19e5", "0xd802", "0x120000"),
		"0000:04:00.0": dev("0x19e5", "0x1711", "0x030000"), // Huawei's management VGA
		"0000:05:00.0": dev("0x20e9", "0xd500", "0x120000"), // an Ascend chip under another maker's id
		"0000:06:00.0": dev("0x1d94", "0x6210", "0x0b4000"),
		"0000:00:00.0": dev("0x1d94", "0x1450", "0x060000"), // Hygon CPU
		"0000:07:00.0": dev("0xcabc", "0x0370", "0x120000"),
		"0000:08:00.0": dev("0x2057", "0x3686", "0x120000"),
		"0000:09:00.0": dev("0x1d22", "0x1380", "0x010802"), // Kunlun's storage
		"0000:0a:00.0": dev("0x1e3e", "0x0002", "0x120000"),
		"0000:0b:00.0": dev("0x9999", "0x0a01", "0x038000"),
		"0000:0c:00.0": dev("0x1ed5", "0x0323", "0x030000"),
		"0000:0c:00.1": dev("0x1ed5", "0x03ff", "0x040300"), // its audio
		"0000:0d:00.0": dev("0x1e36", "0xc035", "0x120000"),
		"0000:0e:00.0": dev("0x8086", "0x9bc4", "0x030000"), // an integrated GPU
		"0000:0f:00.0": {"vendor": "0x10de"},                // vanished while it was read
	})
	cards, err := Scan(root)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, c := range cards {
		got[c.BusID] = c.Vendor
	}
	want := map[string]string{
		"0000:01:00.0": "nvidia", "0000:03:00.0": "ascend", "0000:05:00.0": "ascend", "0000:06:00.0": "hygon",
		"0000:07:00.0": "cambricon", "0000:08:00.0": "kunlun", "0000:0a:00.0": "iluvatar", "0000:0b:00.0": "metax",
		"0000:0c:00.0": "musa", "0000:0d:00.0": "enflame",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestScanReadsDriverNodeAndVirtualFunction(t *testing.T) {
	vf := dev("0x10de", "0x2330", "0x030200")
	vf["driver"], vf["numa_node"], vf["physfn"] = "vfio-pci", "1", "0000:01:00.0"
	pf := dev("0x10de", "0x2330", "0x030200")
	pf["driver"], pf["numa_node"] = "nvidia", "-1"
	root := sysfs(t, map[string]map[string]string{"0000:01:00.0": pf, "0000:01:00.4": vf})
	want := []Card{
		{Vendor: "nvidia", BusID: "0000:01:00.0", VendorID: 0x10de, DeviceID: 0x2330, Class: 0x030200, Driver: "nvidia"},
		{
			Vendor: "nvidia", BusID: "0000:01:00.4", VendorID: 0x10de, DeviceID: 0x2330, Class: 0x030200,
			Driver: "vfio-pci", NUMANode: new(1), Virtual: true,
		},
	}
	cards, err := Scan(root)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, cards); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if cards[0].PassedThrough() || !cards[1].PassedThrough() {
		t.Error("only the function bound to vfio-pci is passed through")
	}

	t.Run("a copy reads the same", func(t *testing.T) {
		dir := t.TempDir()
		if err := Copy(cards, dir); err != nil {
			t.Fatal(err)
		}
		again, err := Scan(dir)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, again); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestScanOfAMachineWithoutPCIFindsNothing(t *testing.T) {
	cards, err := Scan(t.TempDir())
	if err != nil || len(cards) != 0 {
		t.Errorf("got %v, %v", cards, err)
	}
	if _, err := Scan(filepath.Join(t.TempDir(), "absent")); err == nil {
		t.Error("a root that is not there is no error")
	}
}
