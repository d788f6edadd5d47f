package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

const marker = "hunter2-marker"

func secretTask() Task {
	return Task{
		ID: "t1", Status: StatusScheduled, Image: "busybox", Env: []string{"TOKEN=" + marker},
		RegistryAuth: &RegistryAuth{Server: "registry.example", Username: "bob", Password: marker, IdentityToken: marker},
	}
}

func TestASecretPrintsAsStarsWithEveryVerb(t *testing.T) {
	auth := *secretTask().RegistryAuth
	values := []any{
		Secret(marker), new(Secret(marker)),
		[]Secret{marker},
		map[string]Secret{"a": marker},
		auth, &auth,
		struct{ Auth RegistryAuth }{auth},
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%10s", "%-5.2v"} {
		for _, v := range values {
			out := fmt.Sprintf(verb, v)
			if strings.Contains(out, marker) || strings.Contains(out, fmt.Sprintf("%x", marker)) {
				t.Errorf("%s of %T shows the secret: %s", verb, v, out)
			}
		}
	}
	if got := fmt.Sprintf("%v %+v %#v %s %q", Secret(marker), Secret(marker), Secret(marker), Secret(marker), Secret(marker)); got != "*** *** *** *** ***" {
		t.Errorf("got %q", got)
	}
}

func TestASecretGoesOverTheWireAsItIs(t *testing.T) {
	data, err := json.Marshal(secretTask())
	if err != nil {
		t.Fatal(err)
	}
	var back Task
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	if back.RegistryAuth.Password.Reveal() != marker || back.RegistryAuth.IdentityToken != marker {
		t.Error("the secret did not survive the wire")
	}
}

func TestLoggersShowNeitherCredentialsNorEnvironment(t *testing.T) {
	var out bytes.Buffer
	core := zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(&out), zap.DebugLevel)
	task := secretTask()
	zap.New(core).Info("zap",
		zap.Any("task", task), zap.Any("task_pointer", &task), zap.Stringer("auth", task.RegistryAuth),
		zap.Any("auth_value", *task.RegistryAuth), zap.Any("password", task.RegistryAuth.Password))
	slog.New(slog.NewTextHandler(&out, nil)).Info("slog", "task", task, "auth", task.RegistryAuth)
	if strings.Contains(out.String(), marker) {
		t.Errorf("the log shows the secret: %s", out.String())
	}
	if !strings.Contains(out.String(), "t1") {
		t.Errorf("the log does not name the task: %s", out.String())
	}
}
