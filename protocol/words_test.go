package protocol

import (
	"encoding/json"
	"fmt"
	"testing"
)

type enumeration interface {
	~string
	comparable
	Known() bool
}

func checkWords[W enumeration](t *testing.T, words []W) {
	t.Helper()
	t.Run(fmt.Sprintf("%T", words[0]), func(t *testing.T) {
		seen := map[W]bool{}
		for _, w := range words {
			if !w.Known() || w == "" || seen[w] {
				t.Errorf("%q: known %t, listed before %t", string(w), w.Known(), seen[w])
			}
			seen[w] = true
		}
		var decoded W
		if err := json.Unmarshal([]byte(`"from the future"`), &decoded); err != nil {
			t.Fatal(err)
		}
		if decoded.Known() {
			t.Error("an unknown word counts as known")
		}
		if back, err := json.Marshal(decoded); err != nil || string(back) != `"from the future"` {
			t.Errorf("an unknown word came back as %s, %v", back, err)
		}
	})
}

func TestUnknownWordsSurviveDecodingAndEncoding(t *testing.T) {
	checkWords(t, TaskStatuses())
	checkWords(t, Reasons())
	checkWords(t, TaskTypes())
	checkWords(t, NetworkModes())
	checkWords(t, IPCModes())
	checkWords(t, PortProtocols())
	checkWords(t, HealthCheckTypes())
	checkWords(t, HealthStates())
	checkWords(t, NodeStates())
	checkWords(t, DrainSources())
	checkWords(t, ExecModes())
	checkWords(t, DeviceTypes())
	checkWords(t, DeviceHealths())
	checkWords(t, MIGModes())
	checkWords(t, SliceKinds())
	checkWords(t, SliceActions())
	checkWords(t, ImageActions())
	checkWords(t, ImageMatches())
	checkWords(t, FileActions())
	checkWords(t, FileTypes())
	checkWords(t, ChecksumAlgorithms())
	checkWords(t, ModelFormats())
	checkWords(t, ModelSources())
	checkWords(t, EngineSources())
	checkWords(t, PullPurposes())
	checkWords(t, RequestStatuses())
	checkWords(t, RequestReasons())
}
