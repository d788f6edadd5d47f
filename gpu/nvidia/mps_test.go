package nvidia

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/heteroflow/node-agent/gpu/tool"
)

func TestTheMPSDaemonAnswersOrItIsSaidWhyNot(t *testing.T) {
	hung := mpsProbe(0, "")
	hung.Error = "timeout"
	cases := map[string]struct {
		pipes    bool
		recorded []tool.Recorded
		want     string // of the error; empty: it answers
	}{
		"it answers":              {true, []tool.Recorded{mpsProbe(0, "100.0\n")}, ""},
		"it answers with a limit": {true, []tool.Recorded{mpsProbe(0, "50.0\n")}, ""},
		"its pipes are not where they are looked for": {false, []tool.Recorded{mpsProbe(0, "100.0\n")}, MPSPipeDir},
		"only its pipes are left":                     {true, []tool.Recorded{mpsProbe(1, "Cannot find MPS control daemon process\n")}, "there is no MPS control daemon"},
		"silence":                                     {true, []tool.Recorded{mpsProbe(0, "")}, "default thread percentage"},
		"something else":                              {true, []tool.Recorded{mpsProbe(0, "Failed to connect\n")}, "Failed to connect"},
		"it does not come back":                       {true, []tool.Recorded{hung}, "did not end"},
		"its control program is not here":             {true, nil, "not installed"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			if tc.pipes {
				if err := os.MkdirAll(filepath.Join(root, MPSPipeDir), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			err := MPS{Run: tool.NewReplay(tc.recorded...), Root: root}.Answers(t.Context())
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
