// Package cdischema holds the recorded CDI specs against the standard's JSON schema. It is
// a module of its own: the schema is at hand only in a release of the standard's module
// (0.8.1) that is older than the library with which the specs are made.
package cdischema

import (
	"os"
	"path/filepath"
	"testing"

	"tags.cncf.io/container-device-interface/schema"
)

func TestTheRecordedSpecsAreWhatTheSchemaDescribes(t *testing.T) {
	files, err := filepath.Glob("../../gpu/cdi/testdata/golden/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no specs: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.BuiltinSchema().ValidateData(data); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// A schema that cannot be read accepts everything.
func TestTheSchemaIsThere(t *testing.T) {
	for name, spec := range map[string]string{
		"no devices":           `{"cdiVersion": "0.5.0", "kind": "a.example/gpu"}`,
		"a name of a number":   `{"cdiVersion": "0.5.0", "kind": "a.example/gpu", "devices": [{"name": 0, "containerEdits": {}}]}`,
		"a node without path":  `{"cdiVersion": "0.5.0", "kind": "a.example/gpu", "devices": [{"name": "0", "containerEdits": {"deviceNodes": [{}]}}]}`,
		"a mount from nowhere": `{"cdiVersion": "0.5.0", "kind": "a.example/gpu", "devices": [{"name": "0", "containerEdits": {"mounts": [{"containerPath": "/x"}]}}]}`,
	} {
		if err := schema.BuiltinSchema().ValidateData([]byte(spec)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
