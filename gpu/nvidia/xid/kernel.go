package xid

import (
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// The kinds of kernel events.
const (
	KindXID   = "xid"
	KindSXID  = "sxid" // of an NVSwitch: the fabric, no card
	KindOff   = "fallen_off_bus"
	maxQuoted = 300
)

const address = `((?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)`

var (
	// For an instance of a card in MIG mode " GPU-I:05", or that and " GPU-CI:00", follows the address.
	xidLine  = text.Lazy(`NVRM:\s+Xid\s+\((?:PCI:)?` + address + `(?:\s+GPU-C?I:\w+)*\):\s+(\d{1,4})\b`)
	sxidLine = text.Lazy(`SXid\s+\((?:PCI:)?` + address + `\):\s+(\d{1,6})\b`)
	offLine  = text.Lazy(`(?i)fallen off the bus`)
	gpuLine  = text.Lazy(`NVRM:.*\bGPU\b.*?\b` + address)
	prefix   = text.Lazy(`^.*?(NVRM:|nvidia-nvswitch)`)
)

// ParseKernel reads the driver's messages in an excerpt of the kernel log, one
// event a line. ok is false when there is none of the driver's lines in it.
func ParseKernel(lines []string) (events []gpu.KernelEvent, ok bool) {
	named := "" // the card of a message that is broken over several lines
	for _, line := range lines {
		driver := strings.Contains(line, "NVRM:")
		if m := sxidLine.FindStringSubmatch(line); m != nil {
			events, ok = append(events, event(KindSXID, m[1], m[2], line)), true
			continue
		}
		if !driver {
			named = ""
			continue
		}
		ok = true
		if m := xidLine.FindStringSubmatch(line); m != nil {
			events = append(events, event(KindXID, m[1], m[2], line))
			named = ""
			continue
		}
		if m := gpuLine.FindStringSubmatch(line); m != nil {
			named = m[1]
		}
		if offLine.MatchString(line) && named != "" {
			events = append(events, event(KindOff, named, "", line))
			named = ""
		}
	}
	return events, ok
}

func event(kind, bus, code, line string) gpu.KernelEvent {
	e := gpu.KernelEvent{Kind: kind, Code: text.Int(code), Message: words(line)}
	if b := text.BusID(bus); b != "" {
		e.BusIDs = []string{b}
	}
	return e
}

// words is the message without the log's own prefix.
func words(line string) string {
	line = strings.TrimSpace(prefix.ReplaceAllString(line, "$1"))
	return strings.ToValidUTF8(line[:min(len(line), maxQuoted)], "")
}
