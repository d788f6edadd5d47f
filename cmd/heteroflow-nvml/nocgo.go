//go:build !cgo

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "heteroflow-nvml: built without cgo, so it cannot load NVIDIA's library; "+
		"build it with CGO_ENABLED=1 and a C compiler. The agent reads nvidia-smi meanwhile")
	os.Exit(1)
}
