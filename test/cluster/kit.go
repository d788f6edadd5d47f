package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/heteroflow/node-agent/test/image"
	"github.com/heteroflow/node-agent/test/stage"
)

// Kit is what all Worlds of a package share, made when the first of them needs it: the
// agent's binary and a registry with the workload.
type Kit struct {
	tags   []string
	once   sync.Once
	dir    string
	images *stage.Images
	err    error

	mu    sync.Mutex
	later []func() error
}

// NewKit makes a kit whose agent is built with the tags.
func NewKit(tags ...string) *Kit { return &Kit{tags: tags} }

// Main is a package's TestMain: it runs the tests and gives up what they shared.
func (k *Kit) Main(m *testing.M) {
	code := m.Run()
	if err := k.close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// Prepare makes what is shared, unless it has been made.
func (k *Kit) Prepare(t testing.TB) {
	t.Helper()
	k.once.Do(func() { k.err = k.make(context.Background()) })
	if k.err != nil {
		t.Fatal(k.err)
	}
}

func (k *Kit) make(ctx context.Context) (err error) {
	if k.dir, err = os.MkdirTemp("", "heteroflow-cluster-"); err != nil {
		return err
	}
	if _, err := stage.BuildAgent(ctx, k.dir, k.tags...); err != nil {
		return err
	}
	k.images, err = stage.StartImages(ctx, image.Options{})
	return err
}

// Later has f called when all tests of the package are over.
func (k *Kit) Later(f func() error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.later = append(k.later, f)
}

// Binary is the path of the agent's binary.
func (k *Kit) Binary() string { return filepath.Join(k.dir, "heteroflow-agent") }

// Images is the registry with the workload.
func (k *Kit) Images() *stage.Images { return k.images }

func (k *Kit) close() error {
	var errs []error
	for _, f := range k.later {
		errs = append(errs, f())
	}
	if k.images != nil {
		errs = append(errs, k.images.Close())
	}
	if k.dir != "" {
		errs = append(errs, os.RemoveAll(k.dir))
	}
	return errors.Join(errs...)
}
