package smi

import (
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// processTypes are what the Type column may say: compute, graphics, MPS.
var processTypes = map[string]bool{
	"C": true, "G": true, "C+G": true, "M": true, "M+C": true, "M+G": true, "M+C+G": true, "G+C": true,
}

// processCell reads a row of the process table: GPU, from driver 450 on GI and
// CI, pid, from 320 on the type, name, memory.
func processCell(cell string) (gpu.Process, bool) {
	words := strings.Fields(cell)
	if len(words) < 3 {
		return gpu.Process{}, false
	}
	card := text.Natural(strings.TrimSuffix(words[0], "."))
	at := 1
	if len(words) > 4 && processTypes[words[4]] {
		at = 3
	}
	pid := text.Int(words[at])
	if card == nil || pid == nil || *pid <= 0 {
		return gpu.Process{}, false
	}
	name := words[at+1:]
	if processTypes[name[0]] {
		name = name[1:]
	}
	p := gpu.Process{PID: *pid, Index: card}
	if n := len(name); n > 0 {
		if used := text.Bytes(name[n-1], ""); used != nil {
			p.MemoryUsed, name = used, name[:n-1]
		} else if unread(name[n-1]) {
			name = name[:n-1]
		}
	}
	if s := strings.Join(name, " "); !unread(s) {
		p.Name = s
	}
	return p, true
}
