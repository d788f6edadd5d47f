package cdi

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/heteroflow/node-agent/gpu"
)

// fakeHost makes the tree that a file of testdata/host describes. Its device nodes are
// plain files: only their numbers are needed, and root is not.
func fakeHost(t *testing.T, name string) host {
	t.Helper()
	h := host{root: t.TempDir()}
	numbers := map[string]deviceNumber{}
	f, err := os.Open(filepath.Join("testdata/host", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for scan := bufio.NewScanner(f); scan.Scan(); {
		fields := strings.Fields(scan.Text())
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		switch at := func(i int) string { return filepath.Join(h.root, fields[i]) }; fields[0] {
		case "c":
			n := deviceNumber{kind: "c", gid: 44}
			if _, err := fmt.Sscanf(fields[1]+" "+fields[2], "%d:%d %o", &n.major, &n.minor, &n.mode); err != nil {
				t.Fatal(err)
			}
			numbers[at(3)] = n
			makeFile(t, at(3), "")
		case "f":
			content := strings.Join(fields[2:], " ")
			makeFile(t, at(1), strings.ReplaceAll(content, `\n`, "\n"))
		case "d":
			makeFile(t, filepath.Join(at(1), "x"), "")
		case "l":
			if err := os.Symlink(fields[2], at(1)); err != nil {
				makeFile(t, at(1), "")
				err = errors.Join(os.Remove(at(1)), os.Symlink(fields[2], at(1)))
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	h.number = func(path string) (deviceNumber, error) {
		n, ok := numbers[path]
		if !ok {
			return n, &fs.PathError{Op: "lstat", Path: path, Err: unix.ENOENT}
		}
		return n, nil
	}
	return h
}

func makeFile(t *testing.T, name, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(content), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func fakeGenerator(t *testing.T, hostName string) *Generator {
	t.Helper()
	g := New(Options{Dir: t.TempDir()})
	g.own.host = fakeHost(t, hostName)
	return g
}

func card(v gpu.Vendor, index int, change func(*gpu.Device)) gpu.Device {
	d := gpu.Device{Vendor: v, Type: v, Index: new(index), Minor: new(index)}
	if change != nil {
		change(&d)
	}
	return d
}

// nodes are what the detectors of each host of testdata/host would find.
var nodes = map[string][]gpu.Device{
	"nvidia": {
		card(gpu.NVIDIA, 0, func(d *gpu.Device) {
			d.Minor, d.UUID, d.MIGMode = new(1), "GPU-11111111-2222-3333-4444-555555555555", "enabled"
			d.Instances = []gpu.Instance{
				{GI: new(1), CI: new(0), UUID: "MIG-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"},
				{GI: new(2), CI: new(0), UUID: "MIG-of-which-no-rights-are-listed"},
			}
		}),
		card(gpu.NVIDIA, 1, func(d *gpu.Device) { d.Minor, d.UUID = new(0), "GPU-66666666-2222-3333-4444-555555555555" }),
		card(gpu.NVIDIA, 2, func(d *gpu.Device) { d.UUID = "GPU-77777777-2222-3333-4444-555555555555" }),
	},
	"nvidia-container": {
		card(gpu.NVIDIA, 0, func(d *gpu.Device) { d.Minor, d.BusID = nil, "0000:01:00.0" }),
		card(gpu.NVIDIA, 1, func(d *gpu.Device) { d.Minor, d.BusID = nil, "0000:02:00.0" }),
		card(gpu.NVIDIA, 2, func(d *gpu.Device) { d.Minor, d.BusID = nil, "0000:03:00.0" }),
	},
	"nvidia-wsl": {card(gpu.NVIDIA, 0, func(d *gpu.Device) { d.Minor, d.UUID = nil, "GPU-11111111-2222-3333-4444-555555555555" })},
	"nvidia-tegra": {card(gpu.NVIDIA, 0, func(d *gpu.Device) {
		d.Minor, d.Model, d.UUID = nil, "Orin (nvgpu)", "54d0709b-558d-5a59-9c65-0c5fc14a21a4"
	})},
	"ascend":     {card(gpu.Ascend, 0, nil), card(gpu.Ascend, 1, func(d *gpu.Device) { d.Minor = new(5) })},
	"ascend-950": {card(gpu.Ascend, 0, nil)},
	"hygon": {
		card(gpu.Hygon, 0, func(d *gpu.Device) { d.BusID, d.UUID = "0000:09:00.0", "T6A123" }),
		card(gpu.Hygon, 1, func(d *gpu.Device) { d.BusID = "0000:0a:00.0" }),
	},
	"cambricon": {card(gpu.Cambricon, 0, nil), card(gpu.Cambricon, 1, nil)},
	"kunlun": {
		card(gpu.Kunlun, 0, func(d *gpu.Device) { d.UUID = "same" }),
		card(gpu.Kunlun, 1, func(d *gpu.Device) { d.UUID, d.Minor = "same", nil }),
	},
	"musa":     {card(gpu.MUSA, 0, func(d *gpu.Device) { d.BusID, d.UUID = "0000:01:00.0", "not a name for CDI" })},
	"iluvatar": {card(gpu.Iluvatar, 0, func(d *gpu.Device) { d.Minor = new(3) })},
	"metax":    {card(gpu.MetaX, 0, func(d *gpu.Device) { d.BusID = "0000:0f:00.0" })},
	"enflame": {
		card(gpu.Enflame, 0, func(d *gpu.Device) { d.Minor, d.UUID, d.BusID = nil, "T6R231060602", "0000:2c:00.0" }),
		card(gpu.Enflame, 1, func(d *gpu.Device) { d.Minor, d.BusID = nil, "0000:2d:00.0" }),
		card(gpu.Enflame, 2, func(d *gpu.Device) { d.Minor, d.BusID = nil, "0000:2e:00.0" }),
	},
	"biren": {
		card(gpu.Biren, 0, func(d *gpu.Device) { d.Minor, d.BusID = nil, "0000:01:00.0" }),
		card(gpu.Biren, 1, func(d *gpu.Device) { d.Minor, d.BusID = nil, "0000:02:00.0" }),
		card(gpu.Biren, 2, func(d *gpu.Device) { d.Minor, d.BusID = nil, "0000:03:00.0" }),
	},
	"biren-1.11": {card(gpu.Biren, 0, func(d *gpu.Device) { d.Minor, d.BusID = nil, "0000:01:00.0" })},
	"virtual":    {card(gpu.Virtual, 0, func(d *gpu.Device) { d.UUID = "virtual-0" })},
}
