package identity_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/heteroflow/node-agent/agent/identity"
	"github.com/heteroflow/node-agent/agent/journal"
)

func machine(t *testing.T, id string, macs ...string) identity.Sources {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"machine-id": id, "boot-id": "boot-1\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return identity.Sources{
		MachineIDFiles: []string{filepath.Join(dir, "absent"), filepath.Join(dir, "machine-id")},
		BootIDFile:     filepath.Join(dir, "boot-id"),
		MACs: func() (out []net.HardwareAddr) {
			for _, m := range macs {
				mac, err := net.ParseMAC(m)
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, mac)
			}
			return out
		},
	}
}

// load starts an agent on the machine with the state directory and stops it again.
func load(t *testing.T, dir, configured string, src identity.Sources) identity.Identity {
	t.Helper()
	id, err := start(t, dir, configured, src)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func start(t *testing.T, dir, configured string, src identity.Sources) (identity.Identity, error) {
	t.Helper()
	j, err := journal.Open(dir, journal.Options{MachineID: src.MachineID()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}()
	return identity.Load(j, configured, src)
}

func TestTheNodeIDIsDerivedOnceAndStays(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	first := load(t, dir, "", machine(t, "aaaa\n", "02:00:00:00:00:01"))
	if !strings.HasPrefix(first.NodeID, "node-") || first.BootID != "boot-1" {
		t.Fatalf("got %+v", first)
	}
	if strings.Contains(first.NodeID, "aaaa") {
		t.Fatal("the node id shows the machine id")
	}
	again := load(t, dir, "", machine(t, "aaaa\n", "02:00:00:00:00:99"))
	if again.NodeID != first.NodeID {
		t.Fatal("another network card changed the node id")
	}
	if again.InstanceID == first.InstanceID {
		t.Fatal("two starts have one instance id")
	}
}

func TestAClonedDiskGetsItsOwnNodeID(t *testing.T) {
	dir := t.TempDir()
	first := load(t, dir, "", machine(t, "aaaa", "02:00:00:00:00:01"))
	clone := load(t, dir, "", machine(t, "bbbb", "02:00:00:00:00:02"))
	if clone.NodeID == first.NodeID {
		t.Fatal("the clone took the node id of its origin")
	}
}

func TestAMachineIDThatCannotBeReadKeepsTheStoredNodeID(t *testing.T) {
	dir := t.TempDir()
	first := load(t, dir, "", machine(t, "aaaa", "02:00:00:00:00:01"))
	again := load(t, dir, "", identity.Sources{MACs: func() []net.HardwareAddr { return nil }})
	if again.NodeID != first.NodeID {
		t.Fatalf("got %+v", again)
	}
}

func TestTwoMachinesThatShareAMachineIDDifferByTheirCards(t *testing.T) {
	a := load(t, t.TempDir(), "", machine(t, "aaaa", "02:00:00:00:00:01"))
	b := load(t, t.TempDir(), "", machine(t, "aaaa", "02:00:00:00:00:02"))
	if a.NodeID == b.NodeID {
		t.Fatal("same node id")
	}
}

func TestAConfiguredIDIsTakenAsItIsOrRefused(t *testing.T) {
	if id := load(t, t.TempDir(), "gpu-07.rack-3", machine(t, "aaaa")); id.NodeID != "gpu-07.rack-3" {
		t.Fatalf("got %+v", id)
	}
	for _, bad := range []string{"a b", "../x", "-x", strings.Repeat("x", 129)} {
		if _, err := start(t, t.TempDir(), bad, machine(t, "aaaa")); err == nil || !strings.Contains(err.Error(), "node.id") {
			t.Errorf("%q: got %v", bad, err)
		}
	}
}

func TestAMachineWithoutAnyIdentityIsTold(t *testing.T) {
	if _, err := start(t, t.TempDir(), "", machine(t, "")); err == nil || !strings.Contains(err.Error(), "set node.id") {
		t.Fatalf("got %v", err)
	}
}
