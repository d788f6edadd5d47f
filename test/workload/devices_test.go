package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/test/workload/report"
)

func TestPrintDevicesFindsDevNull(t *testing.T) {
	node, err := inspectNode("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	want := report.Node{Path: "/dev/null", Type: "char", Major: 1, Minor: 3, Mode: "0666", Access: "rw"}
	if diff := cmp.Diff(want, node); diff != "" {
		t.Errorf("node (-want +got):\n%s", diff)
	}
}

func TestDeviceNumbersAreSplitAsTheKernelPacksThem(t *testing.T) {
	tests := []struct {
		name         string
		dev          uint64
		major, minor uint32
	}{
		{"small numbers", 195<<8 | 7, 195, 7},
		{"a minor above 255", 1<<20 | 235<<8 | 1, 235, 257},
		{"a major above 4095", 1<<44 | 5<<8 | 2, 4096 + 5, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if major(tt.dev) != tt.major || minor(tt.dev) != tt.minor {
				t.Errorf("%d:%d, want %d:%d", major(tt.dev), minor(tt.dev), tt.major, tt.minor)
			}
		})
	}
}

func TestDeviceNodesSkipsWhatIsNoDevice(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/null", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	nodes, err := deviceNodes(dir)
	if err != nil || len(nodes) != 0 {
		t.Errorf("nodes %v, %v; want none", nodes, err)
	}
}

func TestMountPointsUndoesTheKernelsEscapes(t *testing.T) {
	mountinfo := "22 1 0:21 / / rw - ext4 /dev/root rw\n" +
		"23 22 0:22 / /with\\040space rw,nosuid shared:1 - tmpfs t rw\n" +
		"24 22 0:23 / /back\\134slash\\9 rw - tmpfs t rw\n" +
		"short line\n"
	want := []report.Text{"/", "/with space", `/back\slash\9`}
	if diff := cmp.Diff(want, mountPoints([]byte(mountinfo))); diff != "" {
		t.Errorf("mount points (-want +got):\n%s", diff)
	}
}

func TestCgroupLimitsReadsBothVersions(t *testing.T) {
	tests := []struct {
		name    string
		unified string
		files   map[string]string
		want    map[string]string
	}{
		{"v2, own group as root", "/", map[string]string{"memory.max": "1024\n", "cpu.max": "max 100000\n"}, map[string]string{"memory.max": "1024", "cpu.max": "max 100000"}},
		{"v2, own group below root", "/a/b", map[string]string{"memory.max": "max", "a/b/memory.max": "5"}, map[string]string{"memory.max": "5"}},
		{"v1", "/", map[string]string{"memory/memory.limit_in_bytes": "7", "cpu,cpuacct/cpu.cfs_quota_us": "-1"}, map[string]string{"memory.limit_in_bytes": "7", "cpu.cfs_quota_us": "-1"}},
		{"not mounted", "/", nil, map[string]string{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			for name, data := range tt.files {
				path := filepath.Join(root, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(tt.want, cgroupLimits(root, tt.unified)); diff != "" {
				t.Errorf("limits (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnifiedPath(t *testing.T) {
	tests := []struct{ name, membership, want string }{
		{"v2", "0::/docker/abc\n", "/docker/abc"},
		{"hybrid", "4:memory:/x\n0::/\n", "/"},
		{"v1 only", "4:memory:/x\n", "/"},
		{"outside of the namespace's root", "0::/../other\n", "/other"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := unifiedPath([]byte(tt.membership)); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestPrintSelfDescribesThisProcess(t *testing.T) {
	dir := t.TempDir()
	code, out, errs := call(t, "print-self", "--writable", dir, "--writable", "/proc/version")
	if code != 0 {
		t.Fatal(errs)
	}
	var self report.Self
	if err := json.Unmarshal([]byte(out), &self); err != nil {
		t.Fatal(err)
	}
	if self.UID != os.Getuid() || self.IPCNamespace == 0 || len(self.Interfaces) == 0 {
		t.Errorf("self = %+v", self)
	}
	if diff := cmp.Diff(map[string]bool{dir: true, "/proc/version": os.Getuid() == 0}, self.Writable); diff != "" {
		t.Errorf("writable (-want +got):\n%s", diff)
	}
}
