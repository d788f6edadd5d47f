//go:build cgo

package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/heteroflow/node-agent/gpu/nvidia/nvml/wire"
)

// version is set by the build.
var version = "dev"

func main() { os.Exit(run(os.Args[1:], os.Stdin)) }

func run(args []string, in io.Reader) int {
	flags := flag.NewFlagSet("heteroflow-nvml", flag.ContinueOnError)
	root := flags.String("root", "/", "where the host's file system is mounted")
	lib := flags.String("library", "", "libnvidia-ml.so.1 to load; without it, the usual places below -root")
	once := flags.String("once", "", "answer one question, cards, full or cdi, in readable form, and end")
	show := flags.Bool("version", false, "print the version and end")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	out, err := claimStdout()
	if err != nil {
		fmt.Fprintln(os.Stderr, "heteroflow-nvml: take standard output:", err)
		return 1
	}
	if *show {
		fmt.Fprintf(out, "heteroflow-nvml %s, protocol %d\n", version, wire.Version)
		return 0
	}
	h := &helper{places: places(*root), proc: "/proc"}
	if *lib != "" {
		h.places = []string{*lib}
	}
	if *once != "" {
		err = h.once(*once, *root, out)
	} else {
		err = serve(in, out, h.answer)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "heteroflow-nvml:", err)
		return 1
	}
	return 0
}

// claimStdout returns a file for the responses and makes standard output a
// second standard error: what a C library prints there must not mix with them.
func claimStdout() (*os.File, error) {
	fd, err := unix.FcntlInt(os.Stdout.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, err
	}
	if err := unix.Dup3(int(os.Stderr.Fd()), int(os.Stdout.Fd()), 0); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "responses"), nil
}
