package spec

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	lib "tags.cncf.io/container-device-interface/pkg/cdi"
)

// One spec for each rule of CDI's SPEC.md that its library does not know, so that engines
// read the file and fail, or do something else, when it is used.
func TestRulesOfCDIThatItsLibraryDoesNotCheck(t *testing.T) {
	const device = `{"name": "0", "containerEdits": {"env": ["A=b"]}}`
	kind := func(kind string) string {
		return `{"cdiVersion": "1.1.0", "kind": "` + kind + `", "devices": [` + device + `]}`
	}
	edits := func(edits string) string {
		return `{"cdiVersion": "1.1.0", "kind": "a.example/gpu", "containerEdits": {` + edits + `}, "devices": [` + device + `]}`
	}
	label := strings.Repeat("a", 64)
	cases := map[string]struct{ spec, want string }{
		"a vendor is a DNS subdomain: no underscore": {kind("a_b.example/gpu"), "no DNS subdomain"},
		"a vendor is a DNS subdomain: no empty part": {kind("a..example/gpu"), "no DNS subdomain"},
		"a vendor is a DNS subdomain: no dash first": {kind("a.-example/gpu"), "no DNS subdomain"},
		"a vendor is a DNS subdomain: short parts":   {kind(label + ".example/gpu"), "no DNS subdomain"},
		"a vendor has at most 253 characters":        {kind(strings.Repeat("abc.", 63) + "de/gpu"), "no DNS subdomain"},
		"a class has at most 63 characters":          {kind("a.example/" + label), "at most 63"},
		"the path of a hook is absolute":             {edits(`"hooks": [{"hookName": "poststop", "path": "bin/x"}]`), `hook "bin/x"`},
		"the timeout of a hook is more than 0":       {edits(`"hooks": [{"hookName": "poststop", "path": "/x", "timeout": 0}]`), "timeout of 0 s"},
		"the timeout of a hook is not less than 0":   {edits(`"hooks": [{"hookName": "poststop", "path": "/x", "timeout": -1}]`), "timeout of -1 s"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "spec.json")
			if err := os.WriteFile(file, []byte(tc.spec), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := lib.ReadSpec(file, 0); err != nil {
				t.Errorf("the library does check it: %v", err)
			}
			if _, err := Parse([]byte(tc.spec)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestADeviceThatEditsNothingIsRefused(t *testing.T) {
	_, err := Parse([]byte(`{"cdiVersion": "0.5.0", "kind": "a.example/b", "devices": [{"name": "0", "containerEdits": {"env": []}}]}`))
	if err == nil || !strings.Contains(err.Error(), `device "0": it edits nothing`) {
		t.Errorf("got %v", err)
	}
}
