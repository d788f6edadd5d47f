package checkpoint

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

func checkZipString(s string) error { return checkZip(strings.NewReader(s), int64(len(s))) }

func TestATorchFileCutAtAnyByteIsNotWhole(t *testing.T) {
	if err := checkZipString(torch); err != nil {
		t.Fatal(err)
	}
	for cut := range len(torch) {
		if err := checkZipString(torch[:cut]); err == nil {
			t.Errorf("cut at %d of %d passed", cut, len(torch))
		}
	}
}

// The files in testdata/torch-1.13 were written by PyTorch 1.13: torch.save, the same with
// _use_new_zipfile_serialization=False, and the .metadata of a distributed checkpoint.
func TestFilesWrittenByTorch(t *testing.T) {
	root, err := os.OpenRoot("testdata/torch-1.13")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	d, err := openDir(root, ".", newBudget(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.inFile("saved.pt", checkTorch), d.inFile("dcp.metadata", checkPickle), d.torchWhole("legacy.pt")); err != nil {
		t.Error(err)
	}
	if err := d.inFile("legacy.pt", checkTorch); !errors.Is(err, errLegacy) {
		t.Errorf("legacy file: %v, want errLegacy", err)
	}
	saved, err := root.ReadFile("saved.pt")
	if err != nil {
		t.Fatal(err)
	}
	for cut := range saved {
		if err := checkZipString(string(saved[:cut])); err == nil {
			t.Errorf("cut at %d of %d passed", cut, len(saved))
		}
	}
}

func TestZipFiles(t *testing.T) {
	var many []string
	for i := range 65_600 { // more than a plain zip can count: a zip64 directory
		many = append(many, fmt.Sprint(i))
	}
	large := torchArchive(many...)
	var commented bytes.Buffer
	w := zip.NewWriter(&commented)
	_, err := w.CreateHeader(&zip.FileHeader{Name: "x"})
	if err := errors.Join(err, w.SetComment(strings.Repeat("PK\x05\x06", 1000)), w.Close()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		data  string
		whole bool
	}{
		{"many entries", large, true},
		{"many entries, cut", large[:len(large)-1], false},
		{"many entries, without the large directory's end", large[:len(large)-98] + large[len(large)-22:], false},
		{"a comment", commented.String(), true},
		{"bytes lost in the middle", torch[:50] + torch[90:], false},
		{"no entries", "PK\x05\x06" + strings.Repeat("\x00", 18), false},
		{"text", "not a zip", false},
		{"nothing", "", false},
		{"one byte", "P", false},
	} {
		if err := checkZipString(c.data); (err == nil) != c.whole {
			t.Errorf("%s: %v, want whole %v", c.name, err, c.whole)
		}
	}
}

func TestSafetensorsHeaders(t *testing.T) {
	for header, want := range map[string]int64{
		`{}`:                         0,
		`{"__metadata__":{"a":"b"}}`: 0,
		`{"a":{"data_offsets":[0,5]},"b":{"data_offsets":[5,7]}}`: 7,
		`{"a":{"data_offsets":[5,0]}}`:                            -1,
		`{"a":{"data_offsets":[-1,4]}}`:                           -1,
		`{"a":{"data_offsets":[0]}}`:                              -1,
		`{"a":{}}`:                                                -1,
		`{"a":{"data_offsets":[0,9223372036854775807]}}`:          -1,
		`[]`: -1,
		``:   -1,
	} {
		got, err := safetensorsData([]byte(header))
		if want < 0 && err == nil || want >= 0 && (err != nil || got != want) {
			t.Errorf("%s: %d, %v, want %d", header, got, err, want)
		}
	}
}

func TestPythonJSON(t *testing.T) {
	for in, want := range map[string]string{
		`{"a": NaN, "b": [Infinity, -Infinity]}`: `{"a": null, "b": [null, null]}`,
		`{"NaN": "Infinity \" NaN \\"}`:          `{"NaN": "Infinity \" NaN \\"}`,
		`NaN`:                                    `null`,
		`{"a`:                                    `{"a`,
		`"\`:                                     `"\`,
	} {
		if got := string(pythonJSON([]byte(in))); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func TestPointerNamesStayInTheDirectory(t *testing.T) {
	for _, text := range []string{"", " \n", ".", "..", "a/b", "/a", `a\b`, "a\x00b", "a\nb", strings.Repeat("a", 256)} {
		if name, err := component([]byte(text)); err == nil {
			t.Errorf("%q accepted as %q", text, name)
		}
	}
	if name, err := component([]byte(" global_step5\r\n")); err != nil || name != "global_step5" {
		t.Errorf("got %q, %v", name, err)
	}
}

func FuzzCheckZip(f *testing.F) {
	for _, seed := range []string{torch, cutTorch, oldTorch, "PK\x03\x04PK\x05\x06", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data string) {
		if checkZipString(data) == nil && (!strings.HasPrefix(data, "PK\x03\x04") || !strings.Contains(data, "PK\x01\x02")) {
			t.Errorf("%q passed", data)
		}
	})
}

func FuzzTextParsers(f *testing.F) {
	for _, seed := range []string{
		"100", "release", "global_step5\n", distMeta, `{"global_step": 1, "x": NaN}`, `{"weight_map":{"a":"b"}}`,
		"model_checkpoint_path: \"/a/ckpt-1\"\nall_model_checkpoint_paths: \"b/ckpt\\055\"", `{"a":{"data_offsets":[0,5]}}`,
	} {
		f.Add([]byte(seed))
	}
	inside := func(t *testing.T, names ...string) {
		for _, name := range names {
			if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
				t.Errorf("%q leads elsewhere", name)
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if name, err := component(data); err == nil {
			inside(t, name)
		}
		if c, err := parseTracker(data); err == nil {
			inside(t, c.name)
		}
		if step, ok := parseStep(data); ok && step < 0 {
			t.Errorf("step %d", step)
		}
		if files, err := parseWeightIndex(data); err == nil {
			inside(t, files...)
		}
		for _, prefix := range parseTFState(data) {
			parts := strings.Split(prefix, "/")
			inside(t, parts...)
			if len(parts) > 2 {
				t.Errorf("prefix %q is too deep", prefix)
			}
		}
		if n, err := safetensorsData(data); err == nil && n < 0 {
			t.Errorf("%d bytes of tensors", n)
		}
		if step, err := parseTrainerState(data); err == nil && !bytes.Contains(bytes.ToLower(data), []byte("global")) && !bytes.ContainsRune(data, '\\') {
			t.Errorf("step %d from nowhere", step)
		}
		if backend, err := parseDistMetadata(data); err == nil && backend == "" {
			t.Error("no backend and no error")
		}
		if once := pythonJSON(data); !slices.Equal(once, pythonJSON(once)) {
			t.Errorf("%q is not stable", once)
		}
	})
}
