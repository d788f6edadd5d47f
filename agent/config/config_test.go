package config_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/agent/config"
)

var update = flag.Bool("update", false, "rewrite golden files")

func write(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "agent.yaml")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestEachSourceGoesOverTheOneBefore(t *testing.T) {
	file := write(t, "server: {url: 'http://file'}\ntasks: {workers: 3, poll_period: 7s}\nheartbeat: {period: 9s}\n")
	cfg, err := config.Load(config.Sources{
		File:    file,
		Environ: []string{"PATH=/bin", "HETEROFLOW_TASKS_WORKERS=4", "HETEROFLOW_HEARTBEAT_PERIOD=8s", "HETEROFLOW_VOLUMES_ALLOW=/a,/b"},
		Set:     []string{"heartbeat.period=2s"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := config.Default()
	want.Server.URL = "http://file"
	want.Tasks.Workers = 4
	want.Tasks.PollPeriod = 7 * time.Second
	want.Heartbeat.Period = 2 * time.Second
	want.Volumes.Allow = []string{"/a", "/b"}
	if diff := cmp.Diff(want, cfg); diff != "" {
		t.Fatal(diff)
	}
}

func TestASectionCanBeReadWithoutTheRest(t *testing.T) {
	cfg, err := config.Read(config.Sources{
		File:    write(t, "gpu: {period: 9s}\n"),
		Environ: []string{"HETEROFLOW_GPU_VIRTUAL=false"},
		Set:     []string{"gpu.host_root=/host"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := config.Default()
	want.GPU.Period, want.GPU.Virtual, want.GPU.HostRoot = 9*time.Second, false, "/host"
	if diff := cmp.Diff(want, cfg); diff != "" {
		t.Error(diff)
	}
	if err := cfg.GPU.Validate(); err != nil {
		t.Error(err)
	}
	if cfg.Validate() == nil {
		t.Error("a configuration without a server is good enough to run an agent")
	}
}

func TestAllProblemsAreReportedAtOnceByKey(t *testing.T) {
	file := write(t, "server: {url: 'ftp://x', kye_file: y}\ntasks: {workers: many, poll_period: 5}\nstate_dir: here\nlog: {level: loud}\n")
	_, err := config.Load(config.Sources{
		File:    file,
		Environ: []string{"HETEROFLOW_WORKRES=1"},
		Set:     []string{"nonsense", "a.b=c"},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"server.url", "server.kye_file: no such setting", "tasks.workers", "duration 5 needs a unit",
		"state_dir", "log.level", "HETEROFLOW_WORKRES: no such setting", "nonsense: want KEY=VALUE", "a.b: no such setting",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error does not mention %q:\n%v", want, err)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	cases := map[string]struct {
		content, want string
	}{
		"a file that is not YAML":          {"server: [", "parse"},
		"a server url with credentials":    {"server: {url: 'http://user:word-mark@h'}", "must not contain credentials"},
		"a server url without host":        {"server: {url: 'http://'}", "server.url"},
		"no server url":                    {"log: {level: info}", "server.url: required"},
		"one half of a client certificate": {"server: {url: 'http://h', client_cert_file: /x}", "both or neither"},
		"an unpack factor below zero":      {"server: {url: 'http://h'}\npull: {unpack_factor: -0.5}", "pull.unpack_factor: -0.5"},
		"an unpack factor that is none":    {"server: {url: 'http://h'}\npull: {unpack_factor: .nan}", "pull.unpack_factor"},
		"a huge number of workers":         {"server: {url: 'http://h'}\ntasks: {workers: 100000}", "tasks.workers: 100000"},
		"a subnet that is an address":      {"server: {url: 'http://h'}\nruntime: {containerd: {subnet: 10.0.0.1/24}}", "runtime.containerd.subnet"},
		"a bridge name too long":           {"server: {url: 'http://h'}\nruntime: {containerd: {bridge: a-name-that-is-too-long}}", "runtime.containerd.bridge"},
		"a host root that is not absolute": {"server: {url: 'http://h'}\ngpu: {host_root: host}", "gpu.host_root"},
		"a hectic GPU period":              {"server: {url: 'http://h'}\ngpu: {period: 10ms}", "gpu.period"},
		"a switch that is neither":         {"server: {url: 'http://h'}\ngpu: {virtual: perhaps}", "virtual"},
		"a docker host of another kind":    {"server: {url: 'http://h'}\nruntime: {docker_host: 'ssh://h'}", "runtime.docker_host"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := config.Load(config.Sources{File: write(t, tc.content)})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %v, want an error with %q", err, tc.want)
			}
			if strings.Contains(err.Error(), "word-mark") {
				t.Fatalf("the error shows a password: %v", err)
			}
		})
	}
	if _, err := config.Load(config.Sources{File: "/does/not/exist.yaml"}); err == nil {
		t.Fatal("a named file that is missing was accepted")
	}
}

func TestReadKey(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	key, err := config.ReadKey(file("good", "0123456789abcdef\n", 0o600))
	if err != nil || string(key) != "0123456789abcdef" {
		t.Fatalf("a good key: %q, %v", string(key), err)
	}
	for name, path := range map[string]string{
		"chmod 600":          file("open", "0123456789abcdef", 0o644),
		"is empty":           file("empty", "\n", 0o600),
		"printable ASCII":    file("lines", "one\ntwo", 0o600),
		"no such file":       filepath.Join(dir, "missing"),
		"more than 4096":     file("long", strings.Repeat("k", 5000), 0o600),
		"set server.key_fil": filepath.Join(dir, "missing"),
	} {
		if _, err := config.ReadKey(path); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestTheSystemdCredentialTakesThePlaceOfTheKeyFile(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("CREDENTIALS_DIRECTORY", dir)
	cfg := config.Default()
	if got := cfg.KeyFile(); got != cfg.Server.KeyFile {
		t.Fatalf("without a credential: %s", got)
	}
	credential := filepath.Join(dir, config.CredentialName)
	if err := os.WriteFile(credential, []byte("0123456789abcdef"), 0o440); err != nil {
		t.Fatal(err)
	}
	if got := cfg.KeyFile(); got != credential {
		t.Fatalf("with a credential: %s", got)
	}
	if _, err := config.ReadKey(credential); err != nil {
		t.Fatalf("group bits of a credential: %v", err)
	}
}

func TestSecretsPrintAsStars(t *testing.T) {
	s := config.Secret("word-mark")
	if out := fmt.Sprintf("%v %+v %#v %s %q %x %d", s, s, s, s, s, s, s); strings.Contains(out, "mark") || strings.Contains(out, "776f7264") {
		t.Fatal(out)
	}
}

func TestTheReferencePageIsUpToDate(t *testing.T) {
	const page = "../../docs/configuration.md"
	var b strings.Builder
	if err := config.WriteReference(&b); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(page, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(have), b.String()); diff != "" {
		t.Fatalf("docs/configuration.md is stale; go test ./agent/config -update\n%s", diff)
	}
}

func TestEverySettingIsDocumented(t *testing.T) {
	seen := make(map[string]bool)
	for _, key := range config.Keys() {
		if key.Doc == "" || key.Name == "" || seen[key.Env] {
			t.Errorf("%+v: no doc, no name, or its variable is used twice", key)
		}
		seen[key.Env] = true
	}
}

func TestWhatIsPrintedLoadsAgain(t *testing.T) {
	cfg := config.Default()
	cfg.Server.URL = "https://plane.example"
	cfg.Pull.Timeout = 90 * time.Second
	var b strings.Builder
	if err := cfg.WriteYAML(&b); err != nil {
		t.Fatal(err)
	}
	again, err := config.Load(config.Sources{File: write(t, b.String())})
	if err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	if diff := cmp.Diff(cfg, again); diff != "" {
		t.Fatal(diff)
	}
}
