package perf

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"
)

// writeStarts writes the table of docs/performance.md: median [10th to 90th percentile].
func writeStarts(w io.Writer, paths []path, starts, cycles map[string][]time.Duration) {
	rows := [][]string{
		{"path", "create and start, ms", "whole life, ms", "start / " + containerdClient, "start / " + dockerRun, "start / " + dockerRunBridge},
		{"---", "---", "---", "---", "---", "---"},
	}
	for _, p := range paths {
		rows = append(rows, []string{
			p.name, spread(starts[p.name]), spread(cycles[p.name]),
			ratio(starts[p.name], starts[containerdClient]), ratio(starts[p.name], starts[dockerRun]), ratio(starts[p.name], starts[dockerRunBridge]),
		})
	}
	writeTable(w, rows)
}

func writeRates(w io.Writer, paths []path, workers []int, rates []map[string]float64) {
	head, rule := []string{"containers a second"}, []string{"---"}
	for _, n := range workers {
		head, rule = append(head, fmt.Sprintf("%d workers", n)), append(rule, "---")
	}
	rows := [][]string{head, rule}
	for _, p := range paths {
		row := []string{p.name}
		for i := range workers {
			row = append(row, fmt.Sprintf("%.1f", rates[i][p.name]))
		}
		rows = append(rows, row)
	}
	writeTable(w, rows)
}

// writeTable lines the columns up. b.Output cannot fail, and a table is nobody's result.
func writeTable(w io.Writer, rows [][]string) {
	table := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	for _, row := range rows {
		fmt.Fprintf(table, "| %s\t|\n", strings.Join(row, "\t| "))
	}
	_ = table.Flush()
}

func spread(d []time.Duration) string {
	return fmt.Sprintf("%.0f [%.0f-%.0f]", milliseconds(median(d)), milliseconds(percentile(d, 10)), milliseconds(percentile(d, 90)))
}

func ratio(a, b []time.Duration) string {
	if b == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f", float64(median(a))/float64(median(b)))
}

// conditions say what else the machine had to do, which the figures depend on most.
func conditions() string {
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%s, %d CPUs, load average %s", time.Now().UTC().Format(time.DateTime), runtime.NumCPU(), strings.Join(strings.Fields(string(load))[:3], " "))
}
