package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/heteroflow/node-agent/agent/inventory/gpus"
	"github.com/heteroflow/node-agent/gpu"
)

func newGPUWatch(n node) *cobra.Command {
	var period time.Duration
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Show the cards again and again until interrupted",
		Long: "Show the cards again and again until interrupted: a live table in a terminal, else one line\n" +
			"a card, failure or error and period, with the heartbeat's names of the values.",
		Args: usage(cobra.NoArgs),
	}
	cmd.Flags().DurationVar(&period, "period", 0, "time between two rounds, at least 1s (default: gpu.period of the configuration)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		cfg, err := n.config()
		if err != nil {
			return err
		}
		if cmd.Flags().Changed("period") {
			cfg.Period, cfg.InventoryPeriod = period, max(period, cfg.InventoryPeriod)
			if err := cfg.Validate(); err != nil {
				return usageError{fmt.Errorf("--period: %w", err)}
			}
		}
		machine := n.machine(cfg.HostRoot)
		defer func() { err = errors.Join(err, machine.Close()) }()
		all, err := registry(machine, cfg)
		if err != nil {
			return err
		}
		show := printLines
		if out, ok := cmd.OutOrStdout().(*os.File); ok && isTerminal(out) {
			show = printScreen
		}
		collector := gpu.NewCollector(all, gpus.Periods(cfg.Period, cfg.InventoryPeriod))
		return watch(cmd.Context(), collector, cfg.Period, func(s gpu.Snapshot) error {
			return show(cmd.OutOrStdout(), time.Now(), s)
		})
	}
	return cmd
}

// watch runs the collector until ctx ends and shows what it knows: as soon as every vendor
// has answered, but after one period at the latest, and then every period.
func watch(ctx context.Context, c *gpu.Collector, period time.Duration, show func(gpu.Snapshot) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var collecting sync.WaitGroup
	defer collecting.Wait()
	defer cancel()
	collecting.Go(func() { c.Run(ctx) })
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for ready := c.Ready(); ; ready = nil {
		select {
		case <-ctx.Done():
			return nil // the way to end it
		case <-ready:
		case <-ticker.C:
		}
		if err := show(c.Latest()); err != nil {
			return err
		}
	}
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// Control sequences of ECMA-48.
const (
	cursorHome = "\x1b[H"
	eraseLine  = "\x1b[K" // from the cursor to the end of the line
	eraseRest  = "\x1b[J" // from the cursor to the end of the screen
)

// printScreen draws the table over the last one, without a flicker.
func printScreen(w io.Writer, now time.Time, s gpu.Snapshot) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  (end with Ctrl-C)\n\n", now.Format(time.DateTime))
	if err := printCards(&b, s); err != nil {
		return err
	}
	_, err := io.WriteString(w, cursorHome+strings.ReplaceAll(b.String(), "\n", eraseLine+"\n")+eraseRest)
	return err
}

// printLines prints a line for each card, failure and error.
func printLines(w io.Writer, now time.Time, s gpu.Snapshot) error {
	var b strings.Builder
	at := now.UTC().Format(time.RFC3339)
	for _, d := range s.Devices {
		m := measured(s, d)
		fmt.Fprintf(&b, "%s vendor=%s", at, d.Vendor)
		value(&b, "index", d.Index)
		quoted(&b, "uuid", d.UUID)
		value(&b, "temperature_celsius", m.Temperature)
		value(&b, "utilization_percent", m.Utilization)
		value(&b, "memory_used_bytes", m.MemoryUsed)
		value(&b, "memory_total_bytes", first(m.MemoryTotal, d.MemoryTotal))
		value(&b, "power_watts", m.Power)
		value(&b, "power_limit_watts", m.PowerLimit)
		quoted(&b, "health", m.Health)
		quoted(&b, "health_message", m.HealthMessage)
		b.WriteByte('\n')
	}
	for _, f := range s.Failures {
		fmt.Fprintf(&b, "%s failed", at)
		quoted(&b, "vendor", string(f.Vendor))
		value(&b, "index", f.Index)
		quoted(&b, "uuid", f.UUID)
		quoted(&b, "bus_id", f.BusID)
		quoted(&b, "code", f.Code)
		quoted(&b, "message", f.Message)
		b.WriteByte('\n')
	}
	if s.CollectorError != "" {
		fmt.Fprintf(&b, "%s error message=%s\n", at, strconv.Quote(s.CollectorError))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func value[T any](b *strings.Builder, key string, v *T) {
	if v != nil {
		fmt.Fprintf(b, " %s=%v", key, *v)
	}
}

func quoted(b *strings.Builder, key, s string) {
	if s != "" {
		fmt.Fprintf(b, " %s=%s", key, strconv.Quote(s))
	}
}
