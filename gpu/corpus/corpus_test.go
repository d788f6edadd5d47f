package corpus

import (
	"testing"

	"github.com/heteroflow/node-agent/gpu"
)

// A parser that understands nothing must not pass on any recording that says
// something: the comparison sees what is missing.
func TestEveryRecordingLoadsAndIsMissedByABlindParser(t *testing.T) {
	blind := func([]string, int, []byte) (gpu.Parsed, error) { return gpu.Parsed{}, nil }
	for _, vendor := range gpu.Vendors() {
		t.Run(string(vendor), func(t *testing.T) {
			for _, f := range Load(t, vendor) {
				problems := f.Compare(blind)
				says := len(f.Expect.Devices)+len(f.Expect.Failures)+len(f.Expect.More.Processes) > 0 ||
					f.Expect.CollectorError != nil
				if says && len(problems) == 0 {
					t.Errorf("%s: a blind parser passes", f.Name)
				}
			}
		})
	}
}
