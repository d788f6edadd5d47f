package ocispec_test

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/sys/user"
	image "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/containerd/ocispec"
	"github.com/heteroflow/node-agent/runtime/ulimit"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func input() ocispec.Input {
	return ocispec.Input{
		Spec: runtime.Spec{
			Name:    "task-1",
			Image:   "reg.example/app:v1",
			Network: runtime.Network{Mode: runtime.NetworkNone},
			IPC:     runtime.IPCPrivate,
		},
		Image:       image.ImageConfig{Entrypoint: []string{"/app"}, Cmd: []string{"serve"}, Env: []string{"A=image", "B=image"}},
		User:        user.ExecUser{Home: "/root"},
		Hostname:    "task-1",
		CgroupsPath: "/heteroflow/task-1",
		Limits:      ulimit.Wanted,
	}
}

func build(t *testing.T, in ocispec.Input) *specs.Spec {
	t.Helper()
	s, err := ocispec.Build(in)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The seccomp profile is the module's own, depends on the kernel and is left out.
func TestGoldenSpecs(t *testing.T) {
	full := input()
	full.Spec = runtime.Spec{
		Name: "task-2", Image: "reg.example/app:v1", Entrypoint: []string{"/bin/train"}, Args: []string{"--epochs", "3"},
		Env: []string{"A=task", "C=task"}, WorkingDir: "/app",
		Mounts: []runtime.Mount{
			{Source: "/data/in", Target: "/app/in/deep", ReadOnly: true}, {Source: "/data", Target: "/app"},
		},
		Network:   runtime.Network{Mode: runtime.NetworkBridge},
		IPC:       runtime.IPCPrivate,
		Resources: runtime.Resources{CPUs: 1.5, MemoryBytes: 1 << 30, PidsLimit: 100, ShmSizeBytes: 8 << 30},
	}
	full.User = user.ExecUser{Uid: 1001, Gid: 1001, Sgids: []int{2001, 1001}, Home: "/home/app"}
	full.Hosts, full.ResolvConf, full.HostnameFile = "/state/hosts", "/state/resolv.conf", "/state/hostname"
	full.NetNS, full.Cgroup2, full.LimitSwap = "/run/netns/task-2", true, true
	host := input()
	host.Spec.Network.Mode, host.Spec.IPC, host.HostQueues = runtime.NetworkHost, runtime.IPCHost, true

	for name, in := range map[string]ocispec.Input{"plain": input(), "full": full, "host": host} {
		t.Run(name, func(t *testing.T) {
			s := build(t, in)
			s.Linux.Seccomp = nil
			got, err := json.MarshalIndent(s, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", name+".json")
			if *update {
				if err := os.WriteFile(path, append(got, '\n'), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
				t.Errorf("%s (-want +got):\n%s", path, diff)
			}
		})
	}
}

func TestTheSeccompProfileFollowsTheCapabilities(t *testing.T) {
	profile := build(t, input()).Linux.Seccomp
	if profile == nil || profile.DefaultAction != specs.ActErrno {
		t.Fatalf("got %+v, want a profile that refuses by default", profile)
	}
	allowed := func(name string) bool {
		return slices.ContainsFunc(profile.Syscalls, func(c specs.LinuxSyscall) bool {
			return c.Action == specs.ActAllow && len(c.Args) == 0 && slices.Contains(c.Names, name)
		})
	}
	if !allowed("chroot") {
		t.Error("chroot is refused, though CAP_SYS_CHROOT is given")
	}
	if allowed("mount") || allowed("kexec_load") {
		t.Error("mount or kexec_load is allowed, though CAP_SYS_ADMIN is not given")
	}
}

func TestCommandFollowsDockersRules(t *testing.T) {
	img := image.ImageConfig{Entrypoint: []string{"e"}, Cmd: []string{"c"}}
	cases := map[string]struct {
		entrypoint, args []string
		image            image.ImageConfig
		want             []string
	}{
		"nothing given is the image's":         {nil, nil, img, []string{"e", "c"}},
		"arguments replace the image's":        {nil, []string{"a"}, img, []string{"e", "a"}},
		"an entrypoint drops the image's args": {[]string{"x"}, nil, img, []string{"x"}},
		"both given":                           {[]string{"x"}, []string{"a"}, img, []string{"x", "a"}},
		"an image without entrypoint":          {nil, nil, image.ImageConfig{Cmd: []string{"c"}}, []string{"c"}},
		"no command anywhere":                  {nil, nil, image.ImageConfig{}, nil},
		"an empty command":                     {[]string{""}, nil, img, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := ocispec.Command(runtime.Spec{Entrypoint: tc.entrypoint, Args: tc.args}, tc.image)
			if tc.want == nil {
				if !errors.Is(err, runtime.ErrInvalid) {
					t.Errorf("got %v, %v, want ErrInvalid", got, err)
				}
			} else if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
}

func TestABareNameInTheImagesEnvironmentIsDropped(t *testing.T) {
	in := input()
	in.Image.Env = []string{"NVIDIA_VISIBLE_DEVICES", "=x", "OK=1"}
	for _, kv := range build(t, in).Process.Env {
		if !strings.Contains(kv, "=") || strings.HasPrefix(kv, "=") || strings.HasPrefix(kv, "NVIDIA") {
			t.Errorf("got %q", kv)
		}
	}
}

// rootFS is an image's root with the given files; a value that begins with "->" is the
// target of a symbolic link.
func rootFS(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, ok := strings.CutPrefix(content, "->"); ok {
			err = os.Symlink(target, path)
		} else {
			err = os.WriteFile(path, []byte(content), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestUsersAreFoundInTheImage(t *testing.T) {
	files := map[string]string{
		"etc/passwd": "root:x:0:0:root:/root:/bin/sh\napp:x:1001:1002::/home/app:/bin/sh\n",
		"etc/group":  "root:x:0:\napp:x:1002:\nextra:x:2001:app\nvideo:x:44:\n",
	}
	cases := map[string]user.ExecUser{
		"":           {Uid: 0, Gid: 0, Home: "/root"},
		"app":        {Uid: 1001, Gid: 1002, Sgids: []int{2001}, Home: "/home/app"},
		"1001":       {Uid: 1001, Gid: 1002, Sgids: []int{2001}, Home: "/home/app"},
		"app:video":  {Uid: 1001, Gid: 44, Home: "/home/app"},
		"app:44":     {Uid: 1001, Gid: 44, Home: "/home/app"},
		"7777":       {Uid: 7777, Gid: 0, Home: "/"},
		"7777:8888":  {Uid: 7777, Gid: 8888, Home: "/"},
		"7777:extra": {Uid: 7777, Gid: 2001, Home: "/"},
	}
	root := rootFS(t, files)
	for spec, want := range cases {
		got, err := ocispec.ResolveUser(root, spec)
		if len(got.Sgids) == 0 {
			got.Sgids = nil
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%q: %v\n%s", spec, err, diff)
		}
	}
	for _, spec := range []string{"nobody-here", "app:nobody-here", "-1", "4294967296"} {
		if got, err := ocispec.ResolveUser(root, spec); !errors.Is(err, runtime.ErrInvalid) {
			t.Errorf("%q: got %+v, %v, want ErrInvalid", spec, got, err)
		}
	}
}

func TestAHostileImageCannotReachTheHostsUsers(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "passwd")
	if err := os.WriteFile(outside, []byte("app:x:4242:4242::/:/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, link := range map[string]string{"absolute": outside, "relative": strings.Repeat("../", 20) + outside} {
		root := rootFS(t, map[string]string{"etc/passwd": "->" + link})
		if got, err := ocispec.ResolveUser(root, "app"); !errors.Is(err, runtime.ErrInvalid) {
			t.Errorf("%s link out of the image: got %+v, %v, want ErrInvalid", name, got, err)
		}
	}
	inside := rootFS(t, map[string]string{"etc/passwd": "->/nix/passwd", "nix/passwd": "app:x:5:5::/:/bin/sh\n"})
	if got, err := ocispec.ResolveUser(inside, "app"); err != nil || got.Uid != 5 {
		t.Errorf("a link within the image: got %+v, %v", got, err)
	}

	pipe := rootFS(t, map[string]string{"etc/group": ""})
	if err := syscall.Mkfifo(filepath.Join(pipe, "etc/passwd"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ocispec.ResolveUser(pipe, "app"); !errors.Is(err, runtime.ErrInvalid) {
		t.Errorf("a named pipe for /etc/passwd: %v, want ErrInvalid", err)
	}
	large := rootFS(t, map[string]string{"etc/passwd": strings.Repeat("x", 5<<20)})
	if _, err := ocispec.ResolveUser(large, "app"); !errors.Is(err, runtime.ErrInvalid) {
		t.Errorf("5 MiB of /etc/passwd: %v, want ErrInvalid", err)
	}
	if got, err := ocispec.ResolveUser(t.TempDir(), "12:34"); err != nil || got.Uid != 12 || got.Gid != 34 {
		t.Errorf("ids in an image without /etc: got %+v, %v", got, err)
	}
}

func FuzzResolveUser(f *testing.F) {
	f.Add("app:video", "app:x:1:2::/:\n", "video:x:4:app\n")
	f.Add(":", ":::::::", "a:b:c:d,,e")
	f.Fuzz(func(t *testing.T, spec, passwd, group string) {
		got, err := ocispec.ResolveUser(rootFS(t, map[string]string{"etc/passwd": "" + strings.TrimPrefix(passwd, "->"), "etc/group": strings.TrimPrefix(group, "->")}), spec)
		if err == nil && (got.Uid < 0 || got.Gid < 0) {
			t.Fatalf("%q: negative id %+v", spec, got)
		}
	})
}
