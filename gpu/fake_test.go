package gpu

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/heteroflow/node-agent/gpu/pci"
	"github.com/heteroflow/node-agent/gpu/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a detector that answers what it is told to. Its answer may be changed
// between rounds.
type fake struct {
	vendor Vendor

	mu          sync.Mutex
	answer      func(ctx context.Context) (Report, error)
	inventories int
	collects    int
}

func (f *fake) Vendor() Vendor { return f.vendor }

func (f *fake) Inventory(ctx context.Context) (Report, error) {
	f.mu.Lock()
	f.inventories++
	answer := f.answer
	f.mu.Unlock()
	return answer(ctx)
}

func (f *fake) Collect(ctx context.Context) (Report, error) {
	f.mu.Lock()
	f.collects++
	answer := f.answer
	f.mu.Unlock()
	return answer(ctx)
}

func (f *fake) Parse([]string, int, []byte) (Parsed, error) { return Parsed{}, errors.New("no form") }
func (f *fake) Commands() [][]string                        { return nil }

func (f *fake) set(answer func(ctx context.Context) (Report, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer = answer
}

func (f *fake) rounds() (inventories, collects int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.inventories, f.collects
}

func detector(v Vendor, answer func(ctx context.Context) (Report, error)) *fake {
	return &fake{vendor: v, answer: answer}
}

// lists answers with these devices, each measured at 40 °C.
func lists(devices ...Device) func(context.Context) (Report, error) {
	return func(context.Context) (Report, error) {
		p := Parsed{GPUs: devices}
		for _, d := range devices {
			p.Stats = append(p.Stats, Stats{Index: d.Index, UUID: d.UUID, Temperature: new(40.0)})
		}
		return Combine("", p), nil
	}
}

func fails(err error) func(context.Context) (Report, error) {
	return func(context.Context) (Report, error) { return Report{}, err }
}

func notInstalled(context.Context) (Report, error) {
	return Report{}, fmt.Errorf("some-smi: %w", tool.ErrNotInstalled)
}

// hangs waits for the end of its round, as a tool that is killed then does.
func hangs(ctx context.Context) (Report, error) {
	<-ctx.Done()
	return Report{}, ctx.Err()
}

// card is the i-th device of a node; its bus id is 0000:<i+1>:00.0.
func card(v Vendor, i int) Device {
	return Device{
		Index: new(i), UUID: fmt.Sprintf("%s-%d", v, i), Vendor: v, Type: v, Model: "Model", BusID: bus(i),
	}
}

func bus(i int) string { return fmt.Sprintf("0000:%02x:00.0", i+1) }

// sysfs makes a tree with these cards on the bus.
func sysfs(t *testing.T, cards ...pci.Card) string {
	t.Helper()
	dir := t.TempDir()
	if err := pci.Copy(cards, dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// h100 is an NVIDIA card on the bus, with its driver and on a node.
func h100(i int) pci.Card {
	return pci.Card{BusID: bus(i), VendorID: 0x10de, DeviceID: 0x2330, Class: 0x030200, Driver: "nvidia", NUMANode: new(i % 2)}
}

func registry(t *testing.T, cfg Config) *Registry {
	t.Helper()
	if cfg.Sysfs == "" {
		cfg.Sysfs = t.TempDir()
	}
	r, err := NewRegistry(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// store is a Store in memory.
type store struct {
	cards []Known
	saves int
	err   error
}

func (s *store) Load() ([]Known, error) { return s.cards, s.err }

func (s *store) Save(cards []Known) error {
	s.cards, s.saves = cards, s.saves+1
	return s.err
}
