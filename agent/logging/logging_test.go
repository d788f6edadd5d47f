package logging_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/heteroflow/node-agent/agent/logging"
	"github.com/heteroflow/node-agent/protocol"
)

func TestOneEventIsOneLineOfJSONWithStableNames(t *testing.T) {
	var out bytes.Buffer
	log, err := logging.New(&out, "info", "json")
	if err != nil {
		t.Fatal(err)
	}
	code := 3
	log.Debug("not shown")
	log.Info("task ended", logging.TaskID("7"), logging.Status(protocol.StatusFailed), logging.ExitCode(&code), logging.Took(1500*time.Millisecond))
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("%v in %q", err, out.String())
	}
	delete(line, "time")
	want := map[string]any{"level": "info", "message": "task ended", "task_id": "7", "status": "failed", "exit_code": 3.0, "took": "1.5s"}
	if len(line) != len(want) {
		t.Fatalf("got %v", line)
	}
	for k, v := range want {
		if line[k] != v {
			t.Errorf("%s: got %v, want %v", k, line[k], v)
		}
	}
}

func TestAnUnknownLevelIsAnError(t *testing.T) {
	if _, err := logging.New(&bytes.Buffer{}, "loud", "json"); err == nil {
		t.Fatal("accepted")
	}
}
