package smi

import (
	"fmt"
	"strings"
	"testing"

	"github.com/heteroflow/node-agent/gpu/text"
)

func BenchmarkParseQueryOf8Cards(b *testing.B) {
	const fields = "index,uuid,pci.bus_id,name,memory.total,memory.used,utilization.gpu,temperature.gpu,power.draw,power.limit"
	var out strings.Builder
	out.WriteString(strings.ReplaceAll(fields, ",", ", ") + "\n")
	for i := range 8 {
		fmt.Fprintf(&out, "%d, GPU-0a1b2c3%d, 00000000:%02X:00.0, NVIDIA H200, 143771, 6%d, 5%d, 4%d, 301.15, 700.00\n", i, i, 16*i+1, i, i, i)
	}
	argv := text.SplitCommand("nvidia-smi --query-gpu=" + fields + " --format=csv,nounits")
	for b.Loop() {
		if res, err := Parse(argv, 0, []byte(out.String())); err != nil || len(res.GPUs) != 8 {
			b.Fatal(len(res.GPUs), err)
		}
	}
}

func BenchmarkParseEachForm(b *testing.B) {
	for _, name := range []string{"table-580.txt", "log-mig.txt", "log.xml"} {
		output, argv := read(b, name), text.SplitCommand(outputs[name])
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := Parse(argv, 0, output); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
