package agent

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/heteroflow/node-agent/agent/config"
	"github.com/heteroflow/node-agent/agent/pathfence"
)

func TestNoTaskTouchesWhatTheAgentAndTheRuntimeKeepWhereverItIs(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name, "it") }
	credentials := filepath.Join(dir, "credentials")
	t.Setenv("CREDENTIALS_DIRECTORY", credentials)
	cfg := config.Default()
	cfg.Volumes.Allow = []string{dir}
	cfg.StateDir, cfg.GPU.CDIDir = at("state"), at("cdi")
	cfg.Server.KeyFile, cfg.Server.ClientKeyFile = at("key"), at("client-key")
	cfg.Runtime.DockerHost = "unix://" + at("docker")
	c := &cfg.Runtime.Containerd
	c.Address, c.RunDir, c.HostsDir = at("containerd"), at("run"), at("certs.d")

	kept := []string{"state", "cdi", "key", "client-key", "docker", "containerd", "run", "certs.d", "credentials"}
	for _, name := range append(kept, "data") {
		file := at(name)
		if name == "credentials" {
			file = filepath.Join(credentials, config.CredentialName)
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	fence, err := newFence(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range kept {
		if _, err := fence.Check(filepath.Join(dir, name), pathfence.Read); !errors.As(err, new(*pathfence.DeniedError)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := fence.Check(filepath.Join(dir, "data"), pathfence.Write); err != nil {
		t.Errorf("a directory beside them: %v", err)
	}
}
