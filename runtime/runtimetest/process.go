package runtimetest

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/test/image"
	"github.com/heteroflow/node-agent/test/workload/report"
)

// self returns what the workload sees of itself. spec's args are replaced.
func (s *suite) self(t *testing.T, spec runtime.Spec, args ...string) report.Self {
	t.Helper()
	spec.Args = append([]string{"print-self"}, args...)
	return decode[report.Self](t, s.output(t, spec))
}

func decode[T any](t *testing.T, data []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("%v in %q", err, data)
	}
	return v
}

func (s *suite) testProcess(t *testing.T) {
	t.Run("odd bytes in the environment come through, over the image's own", s.environment)
	t.Run("a text that no runtime could pass on is refused", func(t *testing.T) {
		for _, odd := range []string{"A=\xff", "A=a\x00b", "=x", "A"} {
			spec := s.spec("exit", "0")
			spec.Env = []string{odd}
			_, err := s.rt.Create(t.Context(), spec)
			wantClass(t, err, runtime.ErrInvalid)
		}
	})
	t.Run("args replace the image's and keep its entrypoint", func(t *testing.T) {
		c, exit := s.finish(t, s.spec("exit", "--message", "a  b\n\"c\" $HOME 'd'", "0"))
		wantCode(t, exit, 0)
		if out := string(s.logs(t, c.ID)); out != "a  b\n\"c\" $HOME 'd'\n" {
			t.Errorf("got %q", out)
		}
	})
	t.Run("an entrypoint replaces the image's and drops its args", func(t *testing.T) {
		spec := s.spec()
		spec.Entrypoint = []string{"/workload", "exit", "7"}
		_, exit := s.finish(t, spec)
		wantCode(t, exit, 7)
		spec = s.spec("8")
		spec.Entrypoint = []string{"/workload", "exit"}
		_, exit = s.finish(t, spec)
		wantCode(t, exit, 8)
	})
	t.Run("without entrypoint and args the image's are used", func(t *testing.T) {
		_, exit := s.finish(t, s.spec())
		wantCode(t, exit, 0)
	})
	t.Run("users and groups are found by name or number", s.users)
	t.Run("a user the image does not know cannot be started as", func(t *testing.T) {
		spec := s.spec("exit", "0")
		spec.User = "nobody-here"
		err := s.createAndStart(t, spec)
		wantOneOf(t, err, runtime.ErrInvalid, runtime.ErrStartFailed)
		if err == nil || !strings.Contains(err.Error(), "nobody-here") {
			t.Errorf("the error does not name the user: %v", err)
		}
	})
	t.Run("the working directory is the spec's, else the image's", func(t *testing.T) {
		spec := s.spec()
		if self := s.self(t, spec); self.Cwd != "/" {
			t.Errorf("got %q", self.Cwd)
		}
		spec = s.spec()
		spec.WorkingDir = "/tmp"
		if self := s.self(t, spec); self.Cwd != "/tmp" {
			t.Errorf("got %q", self.Cwd)
		}
	})
	t.Run("no process gains privileges", func(t *testing.T) {
		if self := s.self(t, s.spec()); self.Status["NoNewPrivs"] != "1" || self.Status["Seccomp"] != "2" {
			t.Errorf("got %v", self.Status)
		}
	})
	t.Run("a private ipc namespace is not the host's and ipc host is", s.ipcNamespaces)
}

// createAndStart returns the first error of the two.
func (s *suite) createAndStart(t *testing.T, spec runtime.Spec) error {
	t.Helper()
	c, err := s.rt.Create(t.Context(), spec)
	if err != nil {
		return err
	}
	s.removeLater(t, c.ID)
	err = s.rt.Start(t.Context(), c.ID)
	if now := s.inspect(t, c.ID); err != nil && (now.State != runtime.StateCreated || now.Exit != nil) {
		t.Errorf("after a failed start: %+v", now)
	}
	return err
}

func wantOneOf(t *testing.T, err error, classes ...error) {
	t.Helper()
	if !slices.ContainsFunc(classes, func(class error) bool { return errors.Is(err, class) }) {
		t.Errorf("got error %v, want one of %q", err, classes)
	}
}

func (s *suite) environment(t *testing.T) {
	spec := s.spec("print-env")
	want := map[string]string{
		"SPACES":    "  two  spaces  ",
		"LINES":     "one\ntwo\r\n\tthree\n",
		"QUOTES":    `"double" 'single' ` + "`back`",
		"SHELL_ISH": "$HOME ${X} $(id) \\ % ; & | < > * ?",
		"UTF8":      "öäü 模型 🚀 \u202e",
		"EMPTY":     "",
		"EQUALS":    "a=b=c",
		"CONTROL":   "\x01\x1b[31m\x7f",
		"JSON":      `{"a":["<b>&"]}`,
		"LARGE":     strings.Repeat("x", 100_000),
		"IMAGE_ENV": "overridden",
	}
	for key, value := range want {
		spec.Env = append(spec.Env, key+"="+value)
	}
	got := decode[report.Environment](t, s.output(t, spec))
	for key, value := range want {
		if v, ok := got.Get(key); !ok || v != value {
			t.Errorf("%s: got %.100q, want %.100q", key, v, value)
		}
	}
	if n := strings.Count(joined(got), "IMAGE_ENV="); n != 1 {
		t.Errorf("the image's variable is there %d times", n)
	}
	plain := decode[report.Environment](t, s.output(t, s.spec("print-env")))
	if v, ok := plain.Get("IMAGE_ENV"); !ok || v != "1" {
		t.Errorf("the image's variable is %q", v)
	}
}

func joined(e report.Environment) string {
	var all strings.Builder
	for _, entry := range e {
		all.WriteString(string(entry) + "\x00")
	}
	return all.String()
}

func (s *suite) users(t *testing.T) {
	cases := map[string]struct {
		uid, gid int
		member   []int // of at least these groups
	}{
		"":           {0, 0, nil},
		"app":        {image.AppUID, image.AppUID, []int{image.ExtraGID}},
		"1001":       {image.AppUID, image.AppUID, nil},
		"4321":       {4321, 0, nil},
		"4321:1234":  {4321, 1234, nil},
		"app:extra":  {image.AppUID, image.ExtraGID, nil},
		"1001:extra": {image.AppUID, image.ExtraGID, nil},
	}
	for user, want := range cases {
		spec := s.spec()
		spec.User = user
		self := s.self(t, spec)
		if self.UID != want.uid || self.GID != want.gid {
			t.Errorf("%q: got %d:%d, want %d:%d", user, self.UID, self.GID, want.uid, want.gid)
		}
		for _, group := range want.member {
			if !slices.Contains(self.Groups, group) {
				t.Errorf("%q: in groups %v, want %d among them", user, self.Groups, group)
			}
		}
	}
}

func (s *suite) ipcNamespaces(t *testing.T) {
	var host syscall.Stat_t
	if err := syscall.Stat("/proc/self/ns/ipc", &host); err != nil {
		t.Fatal(err)
	}
	spec := s.spec()
	if self := s.self(t, spec); self.IPCNamespace == host.Ino {
		t.Error("a private ipc namespace is the host's")
	}
	spec = s.spec()
	spec.IPC = runtime.IPCHost
	if self := s.self(t, spec); self.IPCNamespace != host.Ino {
		t.Errorf("ipc host is namespace %d, the host's is %d", self.IPCNamespace, host.Ino)
	}
}

func (s *suite) testMounts(t *testing.T) {
	t.Run("a directory is mounted, writable or read-only", func(t *testing.T) {
		dir := t.TempDir()
		spec := s.spec()
		spec.Mounts = []runtime.Mount{
			{Source: dir, Target: "/rw"},
			{Source: dir, Target: "/deep/ro", ReadOnly: true},
		}
		self := s.self(t, spec, "--writable", "/rw", "--writable", "/deep/ro")
		if diff := cmp.Diff(map[string]bool{"/rw": true, "/deep/ro": false}, self.Writable); diff != "" {
			t.Error(diff)
		}
		spec = s.spec("touch", "/rw/made by the container")
		spec.Mounts = []runtime.Mount{{Source: dir, Target: "/rw"}}
		s.output(t, spec)
		if _, err := os.Stat(filepath.Join(dir, "made by the container")); err != nil {
			t.Error(err)
		}
	})
	t.Run("a file is mounted", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "a file, with: odd=characters")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		spec := s.spec("touch", "/mounted, here")
		spec.Mounts = []runtime.Mount{{Source: file, Target: "/mounted, here", ReadOnly: true}}
		c, exit := s.finish(t, spec)
		if out := string(s.logs(t, c.ID)); exit.Code == nil || *exit.Code == 0 || !strings.Contains(out, "read-only file system") {
			t.Errorf("a read-only file was touched: %+v, %q", exit, out)
		}
	})
	t.Run("a source that is not there is an error and is not made", func(t *testing.T) {
		missing := filepath.Join(t.TempDir(), "missing")
		spec := s.spec("exit", "0")
		spec.Mounts = []runtime.Mount{{Source: missing, Target: "/data"}}
		err := s.createAndStart(t, spec)
		wantOneOf(t, err, runtime.ErrInvalid, runtime.ErrStartFailed)
		if err == nil || !strings.Contains(err.Error(), missing) {
			t.Errorf("the error does not name the source: %v", err)
		}
		if _, err := os.Lstat(missing); !os.IsNotExist(err) {
			t.Errorf("the source was made: %v", err)
		}
	})
	t.Run("a source that goes before the start is an error and is not made", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "going")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		spec := s.spec("exit", "0")
		spec.Mounts = []runtime.Mount{{Source: dir, Target: "/data"}}
		c := s.create(t, spec)
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		wantClass(t, s.rt.Start(t.Context(), c.ID), runtime.ErrStartFailed)
		if _, err := os.Lstat(dir); !os.IsNotExist(err) {
			t.Errorf("the source was made: %v", err)
		}
	})
}
