package devserver

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/heteroflow/node-agent/protocol"
)

// elfHeader is the smallest file that debug/elf takes for a 64-bit little
// endian binary of the machine.
func elfHeader(machine byte) []byte {
	header := make([]byte, 64)
	copy(header, "\x7fELF\x02\x01\x01")
	header[16], header[18], header[20] = 2, machine, 1
	header[52], header[54], header[58] = 64, 56, 64
	return header
}

const (
	machineAMD64 = 62
	machineARM64 = 183
)

func distribute(t *testing.T, files map[string][]byte) *plane {
	t.Helper()
	dir := t.TempDir()
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return start(t, func(c *Config) { c.DistDir = dir })
}

func TestTheAgentIsServedWithItsChecksums(t *testing.T) {
	amd64, arm64 := append(elfHeader(machineAMD64), "amd"...), append(elfHeader(machineARM64), "arm"...)
	p := distribute(t, map[string][]byte{AgentFile("amd64"): amd64, AgentFile("arm64"): arm64, "install-agent.sh": []byte("#!/bin/sh\n")})
	for path, want := range map[string][]byte{
		"/static/agent": amd64, "/static/agent?arch=amd64": amd64, "/static/agent?arch=arm64": arm64, "/install-agent.sh": []byte("#!/bin/sh\n"),
	} {
		r := p.do(http.MethodGet, path, nil, protocol.HeaderAPIKey, "") // needs no key
		strong, quick := sha256.Sum256(want), md5.Sum(want)
		if r.status != http.StatusOK || !bytes.Equal(r.body, want) {
			t.Errorf("%s: %d %q", path, r.status, r.body)
		}
		if r.header.Get(protocol.HeaderChecksumSHA256) != hex.EncodeToString(strong[:]) || r.header.Get(protocol.HeaderChecksumMD5) != hex.EncodeToString(quick[:]) {
			t.Errorf("%s: checksums %v", path, r.header)
		}
		again := p.do(http.MethodGet, path, nil, "If-None-Match", r.header.Get("ETag"))
		if again.status != http.StatusNotModified || len(again.body) != 0 {
			t.Errorf("%s: with its own ETag %d", path, again.status)
		}
		if part := p.do(http.MethodGet, path, nil, "Range", "bytes=1-3"); part.status != http.StatusPartialContent || !bytes.Equal(part.body, want[1:4]) {
			t.Errorf("%s: range %d %q", path, part.status, part.body)
		}
		if headed := p.do(http.MethodHead, path, nil); headed.status != http.StatusOK || headed.header.Get("ETag") != r.header.Get("ETag") {
			t.Errorf("%s: HEAD %d", path, headed.status)
		}
	}
}

func TestAReplacedFileGetsItsOwnChecksums(t *testing.T) {
	p := distribute(t, map[string][]byte{"install-agent.sh": []byte("one")})
	first := p.do(http.MethodGet, "/install-agent.sh", nil).header.Get("ETag")
	if err := os.WriteFile(filepath.Join(p.server.config.DistDir, "install-agent.sh"), []byte("another"), 0o755); err != nil {
		t.Fatal(err)
	}
	r := p.do(http.MethodGet, "/install-agent.sh", nil)
	want := sha256.Sum256([]byte("another"))
	if r.header.Get("ETag") == first || r.header.Get(protocol.HeaderChecksumSHA256) != hex.EncodeToString(want[:]) {
		t.Errorf("got %v", r.header)
	}
}

func TestNeverAnotherArchitecturesBinary(t *testing.T) {
	for name, files := range map[string]map[string][]byte{
		"only the other build is there":     {AgentFile("amd64"): elfHeader(machineAMD64)},
		"the other build has the name":      {AgentFile("amd64"): elfHeader(machineAMD64), AgentFile("arm64"): elfHeader(machineAMD64)},
		"what has the name is not a binary": {AgentFile("arm64"): []byte("<html>404</html>")},
		"the name is a directory's":         nil,
	} {
		t.Run(name, func(t *testing.T) {
			p := distribute(t, files)
			if files == nil {
				if err := os.Mkdir(filepath.Join(p.server.config.DistDir, AgentFile("arm64")), 0o755); err != nil {
					t.Fatal(err)
				}
				if r := p.do(http.MethodGet, "/static/agent?arch=arm64", nil); r.status != http.StatusInternalServerError {
					t.Errorf("got %d %s", r.status, r.body)
				}
				return
			}
			body := refused(t, p.do(http.MethodGet, "/static/agent?arch=arm64", nil), http.StatusNotFound, protocol.CodeNotFound)
			if !strings.Contains(body.Error.Message, "GOARCH=arm64 go build") {
				t.Errorf("the message does not say how to build it: %s", body.Error.Message)
			}
		})
	}
}

func TestNothingElseIsServed(t *testing.T) {
	p := distribute(t, map[string][]byte{"secret.key": []byte("x")})
	for _, path := range []string{
		"/static/agent?arch=riscv64", "/static/agent?arch=../secret.key", "/static/agent?arch=", "/static/", "/secret.key",
		"/static/agent/../../secret.key", "/install-agent.sh", "/update-agent-quick.sh", "/update-agent-force.sh", "/deploy-agent-all-in-one.sh",
	} {
		if r := p.do(http.MethodGet, path, nil); r.status != http.StatusNotFound || bytes.Contains(r.body, []byte("secret\n")) {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
	bare := start(t)
	refused(t, bare.do(http.MethodGet, "/static/agent", nil), http.StatusNotFound, protocol.CodeNotFound)
}
