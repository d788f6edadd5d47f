package cli

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/heteroflow/node-agent/gpu"
)

// unknown stands in a table for what was not measured.
const unknown = "-"

// printCards prints a table of the cards, and below it what is wrong.
func printCards(w io.Writer, s gpu.Snapshot) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(s.Devices) > 0 {
		fmt.Fprintln(table, "GPU\tVENDOR\tMODEL\tBUS ID\tTEMP\tUTIL\tMEMORY\tPOWER\tHEALTH")
	}
	for _, d := range s.Devices {
		m := measured(s, d)
		fmt.Fprintln(table, strings.Join([]string{
			number(d.Index), string(d.Vendor), word(d.Model), word(d.BusID),
			amount(m.Temperature, 0, "°C"), amount(m.Utilization, 0, "%"),
			part(gib(m.MemoryUsed), gib(first(m.MemoryTotal, d.MemoryTotal)), "GiB"),
			part(m.Power, m.PowerLimit, "W"), health(m),
		}, "\t"))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	return printProblems(w, s)
}

// printProblems prints the failures of cards and of whole tools, a line each.
func printProblems(w io.Writer, s gpu.Snapshot) error {
	var b strings.Builder
	if len(s.Devices) == 0 && s.Topology == nil { // a matrix tells of cards without listing them
		b.WriteString("no card\n")
	}
	for _, f := range s.Failures {
		fmt.Fprintf(&b, "failed: %s: %s: %s\n", card(f), word(f.Code), word(f.Message))
	}
	if s.CollectorError != "" {
		fmt.Fprintf(&b, "error: %s\n", word(s.CollectorError))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// card names the card of a failure with all that is known of it.
func card(f gpu.Failure) string {
	var names []string
	if f.Vendor != "" {
		names = append(names, string(f.Vendor))
	}
	if f.Index != nil {
		names = append(names, "GPU "+strconv.Itoa(*f.Index))
	}
	for _, id := range []string{f.UUID, f.BusID} {
		if id != "" {
			names = append(names, word(id))
		}
	}
	return strings.Join(names, " ")
}

// measured returns the measurements of a device; on a mixed node they name the vendor.
func measured(s gpu.Snapshot, d gpu.Device) gpu.Stats {
	i := slices.IndexFunc(s.Stats, func(m gpu.Stats) bool {
		if m.Vendor != "" && m.Vendor != d.Vendor {
			return false
		}
		if m.UUID != "" && d.UUID != "" {
			return m.UUID == d.UUID
		}
		return m.Index != nil && d.Index != nil && *m.Index == *d.Index
	})
	if i < 0 {
		return gpu.Stats{}
	}
	return s.Stats[i]
}

func health(m gpu.Stats) string {
	switch {
	case m.HealthMessage != "" && m.Health != gpu.HealthOK && !strings.EqualFold(m.HealthMessage, m.Health):
		return strings.TrimSpace(m.Health + " (" + word(m.HealthMessage) + ")")
	default:
		return word(m.Health)
	}
}

func number(n *int) string {
	if n == nil {
		return unknown
	}
	return strconv.Itoa(*n)
}

// amount formats a measurement with so many decimals at most.
func amount(v *float64, decimals int, unit string) string {
	if v == nil {
		return unknown
	}
	return strconv.FormatFloat(*v, 'f', decimals, 64) + unit
}

// part formats "used/total unit".
func part(used, total *float64, unit string) string {
	if used == nil && total == nil {
		return unknown
	}
	return amount(used, 1, "") + "/" + amount(total, 1, "") + " " + unit
}

// gib converts bytes.
func gib(bytes *int64) *float64 {
	if bytes == nil {
		return nil
	}
	return new(float64(*bytes) / (1 << 30))
}

func first[T any](values ...*T) *T {
	for _, v := range values {
		if v != nil {
			return v
		}
	}
	return nil
}

// word prints a tool's words: nothing in them may steer the terminal.
func word(s string) string {
	if s == "" {
		return unknown
	}
	return strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return ' '
	}, s)
}
