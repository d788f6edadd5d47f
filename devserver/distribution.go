package devserver

import (
	"context"
	"crypto/md5" //nolint:gosec // the protocol names MD5 beside SHA-256; it guards against accidents only
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/protocol"
)

const tagDistribution = "distribution"

// downloadTimeout lets a slow line fetch a binary of some 30 MiB.
const downloadTimeout = 10 * time.Minute

// machines are the architectures that are distributed, and how an ELF file
// names them.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// AgentFile is the name of an agent's binary in the distribution directory.
func AgentFile(arch string) string { return "heteroflow-agent-linux-" + arch }

type stream struct{ Body func(huma.Context) }

func (s *Server) registerDistribution(api huma.API) {
	op := func(id, path, summary string) huma.Operation {
		return huma.Operation{
			OperationID: id, Method: http.MethodGet, Path: path, Summary: summary, Tags: []string{tagDistribution},
			Middlewares: huma.Middlewares{extend(downloadTimeout)}, Errors: []int{404, 422},
		}
	}
	huma.Register(api, op("download-agent", protocol.StaticAgentPath, "Download the agent's binary; never another architecture's"),
		func(_ context.Context, in *struct {
			Arch string `query:"arch" default:"amd64" maxLength:"16" doc:"amd64 or arm64."`
		},
		) (*stream, error) {
			return s.serveAgent(in.Arch)
		})
	for _, script := range protocol.InstallScripts() {
		huma.Register(api, op("download-"+script, "/"+script, "Download "+script),
			func(context.Context, *struct{}) (*stream, error) {
				return s.serveFile(script, "text/x-shellscript; charset=utf-8", "put it into the server's distribution directory", nil)
			})
	}
}

func (s *Server) serveAgent(arch string) (*stream, error) {
	machine, ok := machines[arch]
	if !ok {
		return nil, newError(http.StatusNotFound, "there is no agent for architecture %q, only for amd64 and arm64", arch)
	}
	name := AgentFile(arch)
	build := fmt.Sprintf("build it with CGO_ENABLED=0 GOOS=linux GOARCH=%s go build -o %s ./cmd/heteroflow-agent "+
		"and put it into the server's distribution directory", arch, name)
	return s.serveFile(name, "application/octet-stream", build, func(f io.ReaderAt) error {
		binary, err := elf.NewFile(f)
		if err != nil {
			return fmt.Errorf("is not an ELF file: %w", err)
		}
		if binary.Machine != machine {
			return fmt.Errorf("is built for %s", binary.Machine)
		}
		return nil
	})
}

// serveFile answers with a file of the distribution directory, after check
// (if any) has looked at the very file that is sent.
func (s *Server) serveFile(name, contentType, remedy string, check func(io.ReaderAt) error) (*stream, error) {
	absent := newError(http.StatusNotFound, "%s is not here: %s", name, remedy)
	if s.config.DistDir == "" {
		return nil, absent
	}
	file, err := os.Open(filepath.Join(s.config.DistDir, name))
	if err != nil {
		if !os.IsNotExist(err) {
			s.log.Error("distribution file cannot be opened", zap.Error(err))
		}
		return nil, absent
	}
	sums, info, err := s.sums.of(file)
	if err == nil && check != nil {
		if problem := check(file); problem != nil {
			s.log.Error("distribution file is refused", zap.String("file", name), zap.Error(problem))
			err = newError(http.StatusNotFound, "%s on the server %s: %s", name, problem, remedy)
		}
	}
	if err != nil {
		_ = file.Close()                       // opened for reading only
		if answer, ok := err.(*apiError); ok { //nolint:errorlint // made right above
			return nil, answer
		}
		return nil, s.fail(err)
	}
	return &stream{Body: func(ctx huma.Context) {
		defer func() { _ = file.Close() }() // opened for reading only
		r, w := humago.Unwrap(ctx)
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Content-Disposition", "attachment; filename="+name)
		w.Header().Set("ETag", `"`+sums.sha256+`"`)
		w.Header().Set(protocol.HeaderChecksumSHA256, sums.sha256)
		w.Header().Set(protocol.HeaderChecksumMD5, sums.md5)
		http.ServeContent(w, r, name, info.ModTime(), file)
	}}, nil
}

// checksums remembers the digests of files that have not changed.
type checksums struct {
	mu    sync.Mutex
	known map[string]sums
}

type sums struct {
	size        int64
	modified    time.Time
	md5, sha256 string
}

// of returns the digests of an open file, computed when its size or time is
// not what it was. The file is rewound.
func (c *checksums) of(file *os.File) (sums, os.FileInfo, error) {
	info, err := file.Stat()
	if err != nil {
		return sums{}, nil, err
	}
	if !info.Mode().IsRegular() {
		return sums{}, nil, fmt.Errorf("distribution file %s is not a regular file", file.Name())
	}
	c.mu.Lock()
	defer c.mu.Unlock() // one file is hashed at a time, and only once
	known, ok := c.known[file.Name()]
	if ok && known.size == info.Size() && known.modified.Equal(info.ModTime()) {
		return known, info, nil
	}
	quick, strong := md5.New(), sha256.New() //nolint:gosec // see the import
	if _, err := io.Copy(io.MultiWriter(quick, strong), file); err != nil {
		return sums{}, nil, fmt.Errorf("read distribution file: %w", err)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return sums{}, nil, fmt.Errorf("read distribution file: %w", err)
	}
	known = sums{
		size: info.Size(), modified: info.ModTime(),
		md5: hex.EncodeToString(quick.Sum(nil)), sha256: hex.EncodeToString(strong.Sum(nil)),
	}
	if c.known == nil {
		c.known = map[string]sums{}
	}
	c.known[file.Name()] = known
	return known, info, nil
}
