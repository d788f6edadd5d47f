package devserver

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/protocol"
)

var update = flag.Bool("update", false, "rewrite the API description")

const documentPath = "../docs/openapi.yaml"

func TestOpenAPIDocumentIsFresh(t *testing.T) {
	got, err := OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(documentPath, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(documentPath)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("docs/openapi.yaml is stale; run go generate ./devserver (-file +types):\n%s", diff)
	}
}

func TestOpenAPIDocumentNamesEveryPathOfTheProtocol(t *testing.T) {
	got, err := OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	paths := []string{
		protocol.TasksPath, protocol.TasksPath + "/{id}", protocol.TasksPath + "/{id}/checkpoint-resume",
		protocol.HeartbeatPath, protocol.WakePath, protocol.StaticAgentPath,
	}
	for _, channel := range protocol.Channels() {
		paths = append(paths, protocol.RequestsPath(channel), protocol.RequestsPath(channel)+"/{id}")
	}
	for _, script := range protocol.InstallScripts() {
		paths = append(paths, "/"+script)
	}
	for _, path := range paths {
		if !strings.Contains(string(got), "\n  "+path+":\n") {
			t.Errorf("%s is missing", path)
		}
	}
}
