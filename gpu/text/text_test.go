package text

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAbsentWordsAreNeverANumber(t *testing.T) {
	for _, s := range []string{
		"", " ", "NA", "N/A", "n/a", "-", "--", "ERR!", "[N/A]", "[Not Supported]", "[Unknown Error]",
		"[GPU requires reset]", "[Insufficient Permissions]", "inf", "NaN",
	} {
		if !Absent(s) {
			t.Errorf("Absent(%q) = false", s)
		}
		if v, unit, ok := Number(s); ok {
			t.Errorf("Number(%q) = %v %q", s, v, unit)
		}
	}
	for _, s := range []string{"0", "-1", "Off", "None", "[", "NAN0", "OK"} {
		if Absent(s) {
			t.Errorf("Absent(%q) = true", s)
		}
	}
}

func TestNumberSplitsValueAndUnit(t *testing.T) {
	for _, c := range []struct {
		in   string
		want float64
		unit string
		ok   bool
	}{
		{"28C", 28, "C", true},
		{" 107 W", 107, "W", true},
		{"40.0%", 40, "%", true},
		{"35℃", 35, "℃", true},
		{"1,024 MiB", 1024, "MiB", true},
		{"-3", -3, "", true},
		{"0x1e", 0, "x1e", true}, // a unit no caller accepts
		{"P0", 0, "", false},
		{"1e400", 1, "e400", true},
		{"..", 0, "", false},
		{"--5", 0, "", false},
	} {
		got, unit, ok := Number(c.in)
		if got != c.want || unit != c.unit || ok != c.ok {
			t.Errorf("Number(%q) = %v, %q, %v; want %v, %q, %v", c.in, got, unit, ok, c.want, c.unit, c.ok)
		}
	}
}

func TestValuesWithAnotherUnitAreAbsent(t *testing.T) {
	for _, c := range []struct {
		name string
		got  *float64
		want *float64
	}{
		{"a temperature in C", Celsius("40.0c"), new(40.0)},
		{"a temperature with the degree sign", Celsius("35℃"), new(35.0)},
		{"a temperature in F", Celsius("104F"), nil},
		{"a power in watts", Watts("107W"), new(107.0)},
		{"a power in milliwatts", Watts("116384 mW"), new(116.384)},
		{"a power in percent", Watts("10%"), nil},
		{"a percentage", Percent("100 %"), new(100.0)},
		{"a percentage in MiB", Percent("5MiB"), nil},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestBytes(t *testing.T) {
	for _, c := range []struct {
		in, unit string
		want     *int64
	}{
		{"2MiB", "", new(int64(2 << 20))},
		{"2", "MiB", new(int64(2 << 20))},
		{"2 MB", "", new(int64(2 << 20))},
		{"15519744 KB", "", new(int64(15519744 << 10))},
		{"1.5GiB", "", new(int64(3 << 29))},
		{"96 parsec", "", nil},
		{"7", "", nil},
		{"-1", "MiB", nil},
		{"99999999999999999999", "TiB", nil},
		{"9223372036854775807", "B", nil},
	} {
		if diff := cmp.Diff(c.want, Bytes(c.in, c.unit)); diff != "" {
			t.Errorf("Bytes(%q, %q) (-want +got):\n%s", c.in, c.unit, diff)
		}
	}
}

func TestBusIDTakesEveryToolsFormToThatOfSysfs(t *testing.T) {
	for in, want := range map[string]string{
		"0000:C1:00.0":     "0000:c1:00.0",
		"00000000:17:00.0": "0000:17:00.0",
		"0000000F:01:00.0": "000f:01:00.0",
		"00008ED0:00:00.0": "8ed0:00:00.0",
		"10000:01:00.0":    "10000:01:00.0",
		"00:2d:00.0":       "0000:2d:00.0", // Enflame: domain of two digits or none
		"00:3d:0.0":        "0000:3d:00.0",
		"3d:00.1":          "0000:3d:00.1",
		"0000:83:00":       "0000:83:00.0",
		"NA":               "",
		"0000:00:00.0":     "",
		"0000:01:20.0":     "", // device numbers end at 1f
		"0000:01:00.8":     "",
		"GPU-0000:01:00.0": "",
	} {
		if got := BusID(in); got != want {
			t.Errorf("BusID(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestAnAddressInPartsIsThatOfSysfs(t *testing.T) {
	for _, c := range []struct {
		parts [4]string
		want  string
	}{
		{[4]string{"0x0000", "0x2A", "0x00", "0x0"}, "0000:2a:00.0"},
		{[4]string{"0001", "17", "00", "1"}, "0001:17:00.1"},
		{[4]string{"", "3b", "0", ""}, "0000:3b:00.0"},
		{[4]string{"0", "", "0", "0"}, ""},
		{[4]string{"0", "N/A", "0", "0"}, ""},
		{[4]string{"0", "17", "", "0"}, ""},
		{[4]string{"0", "1:7", "0", "0"}, ""},
	} {
		if got := JoinBusID(c.parts[0], c.parts[1], c.parts[2], c.parts[3]); got != c.want {
			t.Errorf("%q: %q, want %q", c.parts, got, c.want)
		}
	}
}

func TestWhatCannotBeIsAbsent(t *testing.T) {
	for _, c := range []struct {
		name string
		got  any
		want any
	}{
		{"a number of a card", Natural(" 7 "), new(7)},
		{"less than none", Natural("-1"), (*int)(nil)},
		{"more than any machine has", Natural("4194305"), (*int)(nil)},
		{"a share", Share("100%"), new(100.0)},
		{"more than all", Share("101%"), (*float64)(nil)},
		{"a limit", Positive(new(0.5)), new(0.5)},
		{"a limit of nothing", Positive(new(0.0)), (*float64)(nil)},
		{"no limit", Positive[int64](nil), (*int64)(nil)},
		{"a value with its unit", WithUnit("40 W"), "40 W"},
		{"a value that was cut", WithUnit("40"), ""},
		{"no value", WithUnit("N/A"), ""},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestSectionsAreToldByIndentation(t *testing.T) {
	var s Sections
	for _, c := range []struct{ line, above string }{
		{"Memory:", ""},
		{"    Used : 1", "Memory"},
		{"    ----", "Memory"},
		{"    Pool", "Memory"},
		{"\t\t\t\t\tUsed : 2", "Pool"},
		{"    Free : 3", "Memory"},
		{"Power", ""},
	} {
		if got := s.Place(c.line); got != c.above {
			t.Errorf("%q stands below %q, want %q", c.line, got, c.above)
		}
		if _, _, ok := KeyValue(c.line); !ok || strings.HasSuffix(c.line, ":") {
			s.Open(c.line)
		}
	}
	for range 100 { // headings that only grow deeper are bounded
		s.Open(strings.Repeat(" ", len(s)+8) + "x")
	}
	if len(s) != deepest {
		t.Errorf("%d headings are open", len(s))
	}
}

func TestAMonitorsRowsAreReadByColumn(t *testing.T) {
	head := func(names []string) bool { return len(names) > 1 && names[0] == "gpu" }
	for _, c := range []struct {
		name, in string
		want     []map[string]string
		ok       bool
	}{
		{
			"names, units, samples, a program with arguments, a cut row",
			"# gpu  sm  command\n# Idx   %  name\n    0   5  python  a b\n    1   -  -\n    2\n",
			[]map[string]string{
				{"gpu": "Idx", "sm": "%", "command": "name"},
				{"gpu": "0", "sm": "5", "command": "python a b"},
				{"gpu": "1", "sm": "-", "command": "-"},
			},
			true,
		},
		{
			"commas, and blanks in a value", "#gpu, sm, state\n0, 5, not idle,\n",
			[]map[string]string{{"gpu": "0", "sm": "5", "state": "not idle"}},
			true,
		},
		{"a heading repeated with another column", "*gpu a\n0 1\n*gpu b\n0 2", []map[string]string{
			{"gpu": "0", "a": "1"}, {"gpu": "0", "b": "2"},
		}, true},
		{"no heading", "0 1 2\n", nil, false},
	} {
		rows, ok := Monitor(Lines([]byte(c.in)), head)
		if diff := cmp.Diff(c.want, rows); diff != "" || ok != c.ok {
			t.Errorf("%s: ok %v (-want +got):\n%s", c.name, ok, diff)
		}
	}
}

func TestLinesAreCleaned(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     []string
	}{
		{
			"escapes, CR, NUL and bytes that are no UTF-8", "\x1b[4mGPU0\x1b[0m\tx\r\n\n a\x00b \xff\n",
			[]string{"GPU0\tx", "", " ab \uFFFD"},
		},
		{
			"colours whose escape character a paste lost, or shows", "\t[4mGPU0\tGPU1[0m\n^[[1;32m0^[[0m [GPU is lost]\n",
			[]string{"\tGPU0\tGPU1", "0 [GPU is lost]"},
		},
		{"brackets that are no colour", "0, [N/A], [12m\n", []string{"0, [N/A], [12m"}},
		{"blanks that do not break", "| 0\u00a0 C500\u202f|\u2007\n", []string{"| 0  C500 | "}},
		{"a byte order mark", "\ufeffGPU 0: x\n", []string{"GPU 0: x"}},
		{"UTF-16 of Windows' shells", "\xff\xfeG\x00P\x00U\x00\r\x00\n\x000\x00", []string{"GPU", "0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Lines([]byte(c.in))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRowsThatWereWrappedAreOneAgain(t *testing.T) {
	for _, c := range []struct {
		name     string
		in, want []string
	}{
		{
			"by a mail program",
			[]string{"| 0  T4 | 0000:01:00.0", "Off |   0 |", "| a longer line of it |"},
			[]string{"| 0  T4 | 0000:01:00.0 Off |   0 |", "", "| a longer line of it |"},
		},
		{
			"by a terminal, within a word, behind a bar, before one, twice",
			[]string{
				"+-----------", "-----+", "| 0 | 0000:0", "1:00.0 |0 |", "| 1 |       ", "   7 |  0 |",
				"| 2 | 1:00.0", "|  0 |", "| 3 | 1:00. ", "0       Off ", " |  0 |", "x",
			},
			[]string{
				"+-----------", "-----+", "| 0 | 0000:01:00.0 |0 |", "", "| 1 |          7 |  0 |", "",
				"| 2 | 1:00.0|  0 |", "", "| 3 | 1:00. 0       Off  |  0 |", "", "", "x",
			},
		},
		{
			"cropped at one width, and not broken",
			[]string{"| 0  T4 | 00", "| 40C  | 10", "| 1  T4 | 00", "$ prompt"},
			[]string{"| 0  T4 | 00", "| 40C  | 10", "| 1  T4 | 00$ prompt", ""}, // the cropped cell is nobody's
		},
		{
			"cropped once",
			[]string{"| 0  T4 | 0000:01:00.0", "| 40C  |", "and so on"},
			[]string{"| 0  T4 | 0000:01:00.0", "| 40C  |", "and so on"},
		},
		{"nothing", nil, nil},
	} {
		if diff := cmp.Diff(c.want, Unwrap(c.in)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestCells(t *testing.T) {
	for _, c := range []struct {
		in   string
		want []string
	}{
		{"|   0  C500 | 0000:37:00.0 |", []string{"0  C500", "0000:37:00.0"}},
		{"│ a ┃ b ║", []string{"a", "b"}},
		{"| a || b |", []string{"a", "", "b"}},
		{"+------+-----+", nil},
		{"|======+=====|", nil},
		{"no table", nil},
		{"# [run 2] >> | a | b |", []string{"a", "b"}},
		{"> | a | b |", []string{"a", "b"}},
		{"# [run 2] >> |----+----|", nil},
		{"# a comment", nil},
		{"| cut in the mid", []string{"cut in the mid"}},
		{"|", []string{""}},
	} {
		if diff := cmp.Diff(c.want, Cells(c.in)); diff != "" {
			t.Errorf("Cells(%q) (-want +got):\n%s", c.in, diff)
		}
	}
}

func TestPair(t *testing.T) {
	for _, c := range []struct {
		in, a, b string
		ok       bool
	}{
		{"60156/ 65536", "60156", "65536", true},
		{"957   / 10810", "957", "10810", true},
		{"N/A / 350W", "N/A", "350W", true},
		{"N/A / N/A", "N/A", "N/A", true},
		{"N/A /  N/A", "N/A", "N/A", true},
		{"N/A", "", "", false},
		{"1/2/3", "", "", false},
		{"/", "", "", true},
	} {
		a, b, ok := Pair(c.in)
		if a != c.a || b != c.b || ok != c.ok {
			t.Errorf("Pair(%q) = %q, %q, %v; want %q, %q, %v", c.in, a, b, ok, c.a, c.b, c.ok)
		}
	}
}

func TestKeyValueKeepsColonsOfValues(t *testing.T) {
	for _, c := range []struct {
		in, key, value string
		ok             bool
	}{
		{"\tPower Draw : 153.59W", "Power Draw", "153.59W", true},
		{"Bus Id: 0000:09:00.0", "Bus Id", "0000:09:00.0", true},
		{"Processes:", "Processes", "", true},
		{"0000:09:00.0", "", "", false},
		{": x", "", "x", false},
	} {
		key, value, ok := KeyValue(c.in)
		if ok != c.ok || ok && (key != c.key || value != c.value) {
			t.Errorf("KeyValue(%q) = %q, %q, %v", c.in, key, value, ok)
		}
	}
}

func TestJSONIsCutOutOfBanners(t *testing.T) {
	if got := string(JSON([]byte("mx-smi  version: 2.2\n{\"a\": {}}\nEnd of Log\n"))); got != `{"a": {}}` {
		t.Errorf("got %q", got)
	}
	for _, s := range []string{"", "no", "}{"} {
		if got := JSON([]byte(s)); got != nil {
			t.Errorf("JSON(%q) = %q", s, got)
		}
	}
}

func TestToolArgsFindsTheToolInWhatPeopleType(t *testing.T) {
	for _, c := range []struct {
		line string
		want []string
		ok   bool
	}{
		{"ixsmi", []string{}, true},
		{"npu-smi info (in a container)", []string{"info"}, true},
		{"sudo /usr/local/bin/ixsmi -q -x", []string{"-q", "-x"}, true},
		{"docker run --rm --env A=all ubuntu:22.04 ixsmi -L", []string{"-L"}, true},
		{"timeout 2 ixsmi dmon", []string{"dmon"}, true},
		{`echo "get_server_list" | ixsmi -a | grep x`, []string{"-a"}, true},
		{"ixsmi; ixsmi -q", []string{}, true},
		{`C:\Windows\ixsmi.exe -q`, []string{"-q"}, true},
		{"lspci", nil, false},
		{"ixsmi --display='MEMORY, POWER'", []string{"--display=MEMORY, POWER"}, true},
	} {
		got, ok := ToolArgs(SplitCommand(c.line), "ixsmi", "npu-smi")
		if ok != c.ok {
			t.Errorf("%s: found %v", c.line, ok)
		}
		if c.ok && ok {
			if diff := cmp.Diff(c.want, append([]string{}, got...)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.line, diff)
			}
		}
	}
}

func FuzzText(f *testing.F) {
	for _, s := range []string{
		"| 0 / MLU370-X8 | 0000:13:00.0 |", "N/A / 350W", "\x1b[4mGPU0\x1b[0m", "Power Draw : 153.59W",
		"echo 'a b' | tool (x)", "{\"a\":1}", "28℃", "00000000:17:00.0", "1e309", "9223372036854775807 TiB",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, line := range Lines([]byte(s)) {
			for _, cell := range Cells(line) {
				Pair(cell)
				if key, value, ok := KeyValue(cell); ok && len(key)+len(value) >= len(cell) {
					t.Errorf("KeyValue(%q) = %q, %q: longer than the line", cell, key, value)
				}
			}
		}
		JSON([]byte(s))
		var above Sections
		for _, line := range Lines([]byte(s)) {
			above.Place(line)
			above.Open(line)
		}
		Monitor(Lines([]byte(s)), func(names []string) bool { return len(names) > 0 && names[0] == "gpu" })
		if id := JoinBusID("0", s, s, ""); id != BusID(id) {
			t.Errorf("JoinBusID of %q: %q", s, id)
		}
		ToolArgs(SplitCommand(s), "tool")
		if id := BusID(s); id != BusID(id) {
			t.Errorf("BusID(%q) = %q, which becomes %q", s, id, BusID(id))
		}
		if b := Bytes(s, "TiB"); b != nil && *b < 0 {
			t.Errorf("Bytes(%q) = %d", s, *b)
		}
		if n, _, ok := Number(s); ok && n != n {
			t.Errorf("Number(%q) is not a number", s)
		}
	})
}
