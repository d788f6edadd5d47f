package report_test

import (
	"encoding/json"
	"testing"

	"github.com/heteroflow/node-agent/test/workload/report"
)

func TestTextEncoding(t *testing.T) {
	tests := []struct {
		name string
		text report.Text
		want string
	}{
		{"valid UTF-8 is a string", "K=größe", `"K=größe"`},
		{"the empty text is a string", "", `""`},
		{"other bytes are base64", "K=\xff", `{"base64":"Sz3/"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := json.Marshal(tt.text)
			if err != nil || string(got) != tt.want {
				t.Errorf("encoded %s, %v; want %s", got, err, tt.want)
			}
		})
	}
}

func FuzzTextSurvivesEncoding(f *testing.F) {
	for _, seed := range []string{"", "plain", "\xff\xfe", `{"base64":"AA=="}`, "a\x00b", "\u2028"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		data, err := json.Marshal(report.Text(s))
		if err != nil {
			t.Fatal(err)
		}
		var back report.Text
		if err := json.Unmarshal(data, &back); err != nil || string(back) != s {
			t.Errorf("%q came back as %q, %v", s, back, err)
		}
	})
}

func TestTextRefusesOtherJSON(t *testing.T) {
	for _, data := range []string{`7`, `["x"]`, `{"base64":"!"}`} {
		var text report.Text
		if err := json.Unmarshal([]byte(data), &text); err == nil {
			t.Errorf("%s was taken as %q", data, text)
		}
	}
}

func TestEnvironmentGetTakesTheLastEntry(t *testing.T) {
	env := report.Environment{"A=1", "AB=3", "A=2=2", "odd"}
	tests := []struct {
		key, want string
		found     bool
	}{
		{"A", "2=2", true},
		{"AB", "3", true},
		{"odd", "", false},
		{"B", "", false},
	}
	for _, tt := range tests {
		if got, found := env.Get(tt.key); got != tt.want || found != tt.found {
			t.Errorf("Get(%q) = %q, %v; want %q, %v", tt.key, got, found, tt.want, tt.found)
		}
	}
}
