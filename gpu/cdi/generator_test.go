package cdi

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	lib "tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/cdi/hosttest"
	"github.com/heteroflow/node-agent/gpu/cdi/spec"
	"github.com/heteroflow/node-agent/gpu/cdi/specfile"
)

var update = flag.Bool("update", false, "write the golden files anew")

func generator(t *testing.T, host string) *Generator {
	t.Helper()
	return &Generator{Dir: t.TempDir(), Host: hosttest.New(t, host)}
}

func generate(t *testing.T, g *Generator, devices ...gpu.Device) *Catalog {
	t.Helper()
	c, err := g.Generate(t.Context(), gpu.Snapshot{Devices: devices})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestSpecsOfEachVendorAreAsRecorded(t *testing.T) {
	covered := map[gpu.Vendor]bool{}
	for name, devices := range hosttest.Devices {
		vendor := devices[0].Vendor
		covered[vendor] = true
		t.Run(name, func(t *testing.T) {
			c := generate(t, generator(t, name), devices...)
			golden(t, name+".json", c.vendors[vendor].data)
			golden(t, name+".txt", []byte(describe(c)))
			if _, err := c.Save(); err != nil {
				t.Fatal(err)
			}
			// What engines will say of it.
			if _, err := lib.ReadSpec(specfile.Path(c.dir, vendor), 0); err != nil {
				t.Error(err)
			}
		})
	}
	for _, v := range gpu.Vendors() {
		if !covered[v] {
			t.Errorf("no host of vendor %s", v)
		}
	}
}

// What is in the golden files is what goes to engines.
func TestEachRecordedSpecObeysEveryRule(t *testing.T) {
	files, err := filepath.Glob("testdata/golden/*.json")
	if err != nil || len(files) != len(hosttest.Devices) {
		t.Fatalf("%d files for %d hosts, %v", len(files), len(hosttest.Devices), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := spec.Parse(data); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if _, err := lib.ReadSpec(file, 0); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// describe lists what a catalog leaves out.
func describe(c *Catalog) string {
	var out strings.Builder
	for _, a := range c.Absent() {
		fmt.Fprintf(&out, "absent: device %d: %s\n", *a.Device.Index, a.Reason)
	}
	for _, list := range c.Omitted() {
		for _, o := range list {
			fmt.Fprintf(&out, "omitted: %s: %s\n", o.Path, o.Reason)
		}
	}
	return out.String()
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata/golden", name)
	if *update {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got; -update accepts it):\n%s", name, diff)
	}
}
