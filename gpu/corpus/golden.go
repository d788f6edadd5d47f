package corpus

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// Golden parses the outputs in testdata, NAME.txt of the command at commands[NAME],
// and compares what they mean with NAME.json, which it writes first on update.
func Golden(t *testing.T, parse gpu.ParseFunc, update bool, commands map[string]string) {
	t.Helper()
	for name, command := range commands {
		t.Run(name, func(t *testing.T) {
			in, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
			if err != nil {
				t.Fatal(err)
			}
			p, err := parse(text.SplitCommand(command), 0, in)
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.MarshalIndent(struct {
				Parsed  gpu.Parsed `json:"parsed"`
				Numbers []string   `json:"numbers,omitempty"`
			}{p, numbers(p)}, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", name+".json")
			if update {
				if err := os.WriteFile(golden, append(got, '\n'), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
				t.Errorf("%s (-want +got):\n%s", command, diff)
			}
		})
	}
}

// numbers are those of the devices that their JSON leaves out.
func numbers(p gpu.Parsed) []string {
	var out []string
	for _, d := range p.GPUs {
		out = append(out, strings.Join([]string{number("card", d.Card), number("chip", d.Chip), number("minor", d.Minor)}, " "))
	}
	return out
}

func number(name string, n *int) string {
	if n == nil {
		return name + " -"
	}
	return fmt.Sprint(name, " ", *n)
}

// Brief says in a line each what an output means: its devices, with the values
// that are there, failures, processes and error, for tables of small cases.
//
//	0: card 3 chip 1 model=910B3 bus=0000:c1:00.0 total=65536 used=3310 util=0 temp=45 power=91.5
//	failure 0 health_alarm: health Alarm
func Brief(p gpu.Parsed) string {
	var b strings.Builder
	for i, d := range p.GPUs {
		fmt.Fprintf(&b, "%s:", show(d.Index))
		say(&b, "card", d.Card)
		say(&b, "chip", d.Chip)
		say(&b, "minor", d.Minor)
		for _, v := range []struct{ name, value string }{
			{"model", d.Model},
			{"bus", d.BusID},
			{"uuid", d.UUID},
			{"serial", d.Serial},
			{"driver", d.DriverVersion},
			{"firmware", d.FirmwareVersion},
			{"mig", d.MIGMode},
		} {
			if v.value != "" {
				fmt.Fprintf(&b, " %s=%s", v.name, v.value)
			}
		}
		say(&b, "total=", mib(d.MemoryTotal))
		for j, s := range p.Stats {
			if position(p.GPUs, s, j) == i {
				measurements(&b, s)
			}
		}
		b.WriteByte('\n')
	}
	for _, f := range p.Failures {
		b.WriteString("failure")
		say(&b, "", f.Index)
		if f.BusID != "" {
			b.WriteString(" " + f.BusID)
		}
		fmt.Fprintf(&b, " %s: %s\n", f.Code, f.Message)
	}
	for _, p := range p.Processes {
		b.WriteString("process")
		say(&b, "on", p.Index)
		fmt.Fprintf(&b, " %d %s", p.PID, p.Name)
		say(&b, "used=", mib(p.MemoryUsed))
		b.WriteByte('\n')
	}
	if p.CollectorError != nil {
		fmt.Fprintf(&b, "error %s\n", p.CollectorError)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func measurements(b *strings.Builder, s gpu.Stats) {
	say(b, "used=", mib(s.MemoryUsed))
	say(b, "util=", s.Utilization)
	say(b, "temp=", s.Temperature)
	say(b, "power=", s.Power)
	say(b, "limit=", s.PowerLimit)
	if s.Health != "" {
		b.WriteString(" health=" + s.Health)
	}
	if s.HealthMessage != "" {
		fmt.Fprintf(b, " (%s)", s.HealthMessage)
	}
}

// say writes a value with its name, where there is one.
func say[T any](b *strings.Builder, name string, v *T) {
	switch {
	case v == nil:
	case name == "" || strings.HasSuffix(name, "="):
		fmt.Fprintf(b, " %s%v", name, *v)
	default:
		fmt.Fprintf(b, " %s %v", name, *v)
	}
}
