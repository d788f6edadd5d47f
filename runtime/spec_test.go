package runtime_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/heteroflow/node-agent/runtime"
)

func valid() runtime.Spec {
	return runtime.Spec{
		Name:    "task-1",
		Image:   "localhost:5000/team/app:v1",
		Network: runtime.Network{Mode: runtime.NetworkNone},
		IPC:     runtime.IPCPrivate,
		Logs:    runtime.LogLimits{MaxBytes: 1 << 20, MaxFiles: 2},
	}
}

func TestValidateNamesEachThingThatIsWrong(t *testing.T) {
	if err := valid().Validate(); err != nil {
		t.Fatalf("a valid spec: %v", err)
	}
	cases := map[string]struct {
		spoil func(*runtime.Spec)
		want  string
	}{
		"an empty name":                      {func(s *runtime.Spec) { s.Name = "" }, "name"},
		"a name with a slash":                {func(s *runtime.Spec) { s.Name = "a/b" }, "name"},
		"an image that is no reference":      {func(s *runtime.Spec) { s.Image = "UPPER case" }, "image reference"},
		"64 KiB of labels":                   {func(s *runtime.Spec) { s.Labels = map[string]string{"k": strings.Repeat("x", 64<<10)} }, "labels: 65537 bytes"},
		"an env entry without =":             {func(s *runtime.Spec) { s.Env = []string{"A=1", "HOME"} }, "env[1]"},
		"an env entry with NUL":              {func(s *runtime.Spec) { s.Env = []string{"A=\x00"} }, "env[0]"},
		"an env entry that is not UTF-8":     {func(s *runtime.Spec) { s.Env = []string{"A=1", "B=\xff"} }, "env[1]"},
		"an argument with NUL":               {func(s *runtime.Spec) { s.Args = []string{"a\x00b"} }, "args[0]"},
		"a label value that is not UTF-8":    {func(s *runtime.Spec) { s.Labels = map[string]string{"k": "\xff"} }, `label "k"`},
		"a mount target that is not UTF-8":   {func(s *runtime.Spec) { s.Mounts = []runtime.Mount{{Source: "/a", Target: "/\xff"}} }, "mounts[0]"},
		"a relative working dir":             {func(s *runtime.Spec) { s.WorkingDir = "x" }, "working dir"},
		"a mount source with dots":           {func(s *runtime.Spec) { s.Mounts = []runtime.Mount{{Source: "/a/../b", Target: "/x"}} }, "mounts[0].source"},
		"a mount over the root":              {func(s *runtime.Spec) { s.Mounts = []runtime.Mount{{Source: "/a", Target: "/"}} }, "mounts[0].target"},
		"a CDI device without a kind":        {func(s *runtime.Spec) { s.CDIDevices = []string{"a.example/gpu=0", "all"} }, "cdi_devices[1]"},
		"a device that is no absolute path":  {func(s *runtime.Spec) { s.Devices = []runtime.Device{{"dev/x", "/dev/x", "rw"}} }, "devices[0].host_path"},
		"a device outside of /dev":           {func(s *runtime.Spec) { s.Devices = []runtime.Device{{"/dev/x", "/etc/x", "rw"}} }, "devices[0].path"},
		"a device that may do nothing":       {func(s *runtime.Spec) { s.Devices = []runtime.Device{{"/dev/x", "/dev/x", ""}} }, "devices[0].permissions"},
		"a device with odd permissions":      {func(s *runtime.Spec) { s.Devices = []runtime.Device{{"/dev/x", "/dev/x", "rwx"}} }, "devices[0].permissions"},
		"a device that is not UTF-8":         {func(s *runtime.Spec) { s.Devices = []runtime.Device{{"/dev/\xff", "/dev/x", "r"}} }, "devices[0]: contains"},
		"an unknown network":                 {func(s *runtime.Spec) { s.Network.Mode = "wifi" }, "network mode"},
		"ports on the host network":          {func(s *runtime.Spec) { s.Network = runtime.Network{Mode: "host", Ports: make([]runtime.Port, 1)} }, "ports can be published only"},
		"a port without protocol":            {func(s *runtime.Spec) { s.Network = runtime.Network{Mode: "bridge", Ports: []runtime.Port{{1, 2, ""}}} }, "ports[0]"},
		"a negative limit":                   {func(s *runtime.Spec) { s.Resources.MemoryBytes = -1 }, "negative"},
		"a shm size with the host's ipc":     {func(s *runtime.Spec) { s.IPC = "host"; s.Resources.ShmSizeBytes = 1 }, "shm size"},
		"unbounded logs":                     {func(s *runtime.Spec) { s.Logs.MaxFiles = 0 }, "logs"},
		"an unknown ipc mode":                {func(s *runtime.Spec) { s.IPC = "" }, "ipc"},
		"two problems, the second one named": {func(s *runtime.Spec) { s.Name = ""; s.IPC = "x" }, "ipc"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := valid()
			tc.spoil(&s)
			err := s.Validate()
			if !errors.Is(err, runtime.ErrInvalid) || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %v, want ErrInvalid that says %q", err, tc.want)
			}
		})
	}
}

func TestHashChangesWithEveryFieldAndOnlyThen(t *testing.T) {
	base := valid()
	if base.Hash() != valid().Hash() {
		t.Fatal("equal specs have different hashes")
	}
	changed := valid()
	changed.Env = []string{"A=1"}
	if base.Hash() == changed.Hash() {
		t.Fatal("another env has the same hash")
	}
}

func TestParseReferenceReadsRegistriesPortsTagsAndDigests(t *testing.T) {
	const digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	longest := strings.Repeat("a", 255)
	cases := map[string]string{
		"ubuntu":                      "docker.io/library/ubuntu:latest",
		"localhost:5000/x":            "localhost:5000/x:latest",
		"localhost:5000/x:v1":         "localhost:5000/x:v1",
		"reg.example/a/b@" + digest:   "reg.example/a/b@" + digest,
		"reg.example/a:v@" + digest:   "reg.example/a:v@" + digest,
		"[2001:db8::1]:5000/x:v":      "[2001:db8::1]:5000/x:v",
		"172.29.1.1:5000/l/sglang:l1": "172.29.1.1:5000/l/sglang:l1",
		"HOST:5000/x":                 "HOST:5000/x:latest",
		"reg.example/" + longest:      "reg.example/" + longest + ":latest",
	}
	for in, want := range cases {
		got, err := runtime.ParseReference(in)
		if err != nil || got.String() != want {
			t.Errorf("%s: got %v, %v, want %s", in, got, err, want)
		}
	}
	for _, in := range []string{"", "a b", "x@sha256:12", "Upper/x:", "-", "UPPER/x", "reg.example/" + strings.Repeat("a", 256)} {
		if got, err := runtime.ParseReference(in); !errors.Is(err, runtime.ErrInvalid) {
			t.Errorf("%q: got %v, %v, want ErrInvalid", in, got, err)
		}
	}
}

func FuzzParseReference(f *testing.F) {
	for _, s := range []string{"ubuntu", "localhost:5000/x", "a@sha256:00", "[::1]:5000/x", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		got, err := runtime.ParseReference(in)
		if err != nil {
			return
		}
		again, err := runtime.ParseReference(got.String())
		if err != nil || again.String() != got.String() {
			t.Fatalf("%q became %q, which reads back as %v, %v", in, got, again, err)
		}
	})
}

func TestCredentialsPrintAsStarsInEveryFormat(t *testing.T) {
	auth := &runtime.RegistryAuth{Username: "user-mark", Password: "word-mark", IdentityToken: "token-mark"}
	req := runtime.PullRequest{Ref: "x", Auth: auth}
	encoded, err := json.Marshal(auth)
	if err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{
		fmt.Sprint(auth), fmt.Sprintf("%v %+v %#v %s %q", *auth, *auth, *auth, *auth, *auth),
		fmt.Sprintf("%+v", req), string(encoded),
	} {
		if strings.Contains(out, "mark") {
			t.Errorf("credentials in %q", out)
		}
	}
}

func TestOnlyStatesThatMayHoldAProcessAreAlive(t *testing.T) {
	want := map[runtime.State]bool{
		runtime.StateCreated: false, runtime.StateRunning: true, runtime.StatePaused: true,
		runtime.StateRestarting: true, runtime.StateRemoving: true, runtime.StateExited: false,
		runtime.StateDead: false, runtime.StateUnknown: true, "future": true,
	}
	for state, alive := range want {
		if state.Alive() != alive {
			t.Errorf("%s: alive %v, want %v", state, state.Alive(), alive)
		}
	}
}
