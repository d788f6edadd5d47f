package cli

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/pflag"
	"go.uber.org/goleak"

	"github.com/heteroflow/node-agent/devserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestASecretComesFromItsFileOrTheEnvironment(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Setenv(envSystemKey, " from-env\n")
	for name, c := range map[string]struct {
		path, want, problem string
	}{
		"the environment":     {"", "from-env", ""},
		"a file":              {file("key", "from-file\n"), "from-file", ""},
		"an empty file":       {file("empty", "\n"), "", "1 bytes"},
		"a file of any size":  {file("big", strings.Repeat("x", 5000)), "", "5000 bytes"},
		"a file that is gone": {filepath.Join(dir, "gone"), "", "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readSecret("system key", c.path, envSystemKey)
			if got.Reveal() != c.want || (err == nil) != (c.problem == "") || err != nil && !strings.Contains(err.Error(), c.problem) {
				t.Errorf("got %q, %v", got.Reveal(), err)
			}
		})
	}
}

func TestNoFlagTakesAKey(t *testing.T) {
	serveCommand().Flags().VisitAll(func(f *pflag.Flag) {
		named := strings.Contains(f.Name, "key") || strings.Contains(f.Name, "token") || strings.Contains(f.Name, "secret")
		if named && !strings.HasSuffix(f.Name, "-file") {
			t.Errorf("--%s would show a key to every user of the machine", f.Name)
		}
	})
}

func TestServeStopsWithItsContextAndRefusesAWeakKeyInProduction(t *testing.T) {
	database := filepath.Join(t.TempDir(), "plane.db")
	t.Setenv(envOperatorToken, "")
	args := []string{"serve", "--listen", "127.0.0.1:0", "--database", database, "--production"}

	t.Setenv(envSystemKey, "changeme")
	if status := Run(t.Context(), args); status != 1 {
		t.Errorf("with a weak key: exit status %d", status)
	}
	t.Setenv(envSystemKey, "a-good-long-system-key")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	onceLogged(t, "control plane listens", stop, func() {
		if status := Run(ctx, args); status != 0 {
			t.Errorf("exit status %d", status)
		}
	})
}

// onceLogged has happen called when a line with these words comes out on standard error
// while do runs.
func onceLogged(t *testing.T, words string, happen, do func()) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		for lines := bufio.NewScanner(read); lines.Scan(); {
			t.Log(lines.Text())
			if strings.Contains(lines.Text(), words) {
				happen()
			}
		}
	})
	stderr := os.Stderr
	os.Stderr = write
	do()
	os.Stderr = stderr
	if err := write.Close(); err != nil {
		t.Error(err)
	}
	reading.Wait()
	if err := read.Close(); err != nil {
		t.Error(err)
	}
}

func TestOpenAPIPrintsTheDocument(t *testing.T) {
	cmd := openAPICommand()
	var out strings.Builder
	cmd.SetOut(&out)
	cmd.SetArgs(nil)
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	want, err := devserver.OpenAPI()
	if err != nil || out.String() != string(want) {
		t.Errorf("printed %d bytes, want %d; %v", out.Len(), len(want), err)
	}
}

func TestVersionSaysThatABareBuildIsOne(t *testing.T) {
	cmd := versionCommand()
	var out strings.Builder
	cmd.SetOut(&out)
	cmd.SetArgs(nil)
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), "heteroflow-devserver dev (") || !strings.Contains(out.String(), "built unknown") {
		t.Errorf("printed %q", out.String())
	}
}
