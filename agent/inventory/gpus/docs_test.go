package gpus

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/heteroflow/node-agent/gpu"
)

var knownGap = regexp.MustCompile(`(?m)^\t\t"([a-zA-Z0-9._-]+)":`)

func TestTheSupportPageHasEveryVendorAndEveryKnownGap(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	raw, err := os.ReadFile(filepath.Join(root, "docs", "gpu-support.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(raw)
	for _, vendor := range gpu.Vendors() {
		if !strings.Contains(page, "`"+string(vendor)+"`") {
			t.Errorf("%s is not on the page", vendor)
		}
		source, err := os.ReadFile(filepath.Join(root, "gpu", string(vendor), "corpus_test.go"))
		if err != nil {
			continue // there is no recording of this vendor's tool
		}
		for _, gap := range knownGap.FindAllStringSubmatch(string(source), -1) {
			if !strings.Contains(page, "| "+string(vendor)+" `"+gap[1]+"` |") {
				t.Errorf("the known gap %s of %s is not on the page", gap[1], vendor)
			}
		}
	}
}
