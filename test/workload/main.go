// Command workload is the program in the test images: a set of small modes,
// each of which does one thing a real task does to the agent (train, serve,
// run out of memory, ignore a stop, flood its log) or tells what a container
// really got (environment, devices, limits).
//
// It is static, needs nothing of its image and never reaches out to the
// network. Only serve and ignore-sigterm keep a goroutine beside main, and both
// end with their mode.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
)

// Exit statuses that tests rely on.
const (
	exitOK         = 0
	exitError      = 1
	exitUsage      = 2
	exitTerminated = 128 + int(syscall.SIGTERM) // what a shell reports for SIGTERM
)

// errUsage marks an error of the command line, which exits with exitUsage.
var errUsage = errors.New("usage")

// streams are the outputs a mode may write to.
type streams struct{ out, err io.Writer }

// mode is one thing the workload can do. run returns the exit status; with an
// error, which main prints, a status of exitOK is turned into exitError. Its
// context ends with SIGTERM or SIGINT.
type mode struct {
	name, args, summary string
	run                 func(ctx context.Context, s streams, args []string) (int, error)
}

func modes() []mode {
	return []mode{
		{"exit", "[--message M] [N]", "print M and exit with status N (default 0)", exit},
		{"train", "[flags]", "train in steps, checkpoint, resume from " + resumeVariable, train},
		{"serve", "[flags]", "serve /health and /v1/models over HTTP", serve},
		{"eat-memory", "[flags]", "touch memory until killed, alone or in a child", eatMemory},
		{"spam-logs", "[flags]", "write many log lines, some of them not UTF-8", spamLogs},
		{"ignore-sigterm", "", "say so on every SIGTERM and go on; only SIGKILL ends it", ignoreSIGTERM},
		{"print-env", "[--nul]", "print the environment as the kernel passed it", printEnv},
		{"print-devices", "", "print every device node under /dev, the mounts and the environment", printDevices},
		{"print-self", "[--writable PATH]...", "print identity, limits, shm, namespaces and interfaces", printSelf},
		{"sleep", "D", "sleep for the Go duration D; SIGTERM ends it with 143", sleep},
		{"await", "PATH", "wait until there is a file at PATH; SIGTERM ends it with 143", await},
		{"forkbomb", "--max N", "fork until N children live or the kernel refuses, then end them all", forkBomb},
		{"note", "FILE MODE [ARGUMENT...]", "append a line to FILE when MODE starts, and another when it ends", note},
		{"touch", "PATH...", "create each file, or set its time to now", touch},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	status := run(ctx, streams{os.Stdout, os.Stderr}, os.Args[1:])
	stop()
	os.Exit(status)
}

func run(ctx context.Context, s streams, args []string) int {
	if len(args) == 0 {
		printHelp(s.err)
		return exitUsage
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		printHelp(s.out)
		return exitOK
	}
	for _, m := range modes() {
		if m.name == args[0] {
			status, err := m.run(ctx, s, args[1:])
			return m.conclude(s, status, err)
		}
	}
	fmt.Fprintf(s.err, "workload: unknown mode %q; --help lists the modes\n", args[0])
	return exitUsage
}

// conclude turns a mode's outcome into an exit status and a message.
func (m mode) conclude(s streams, status int, err error) int {
	switch {
	case err == nil:
		return status
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case errors.Is(err, errUsage):
		fmt.Fprintf(s.err, "workload %s: %v\nusage: workload %s %s\n", m.name, err, m.name, m.args)
		return exitUsage
	}
	fmt.Fprintf(s.err, "workload %s: %v\n", m.name, err)
	return max(status, exitError)
}

func printHelp(w io.Writer) {
	fmt.Fprintln(w, "usage: workload MODE [flags] [arguments]   (workload MODE --help lists the flags)")
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, m := range modes() {
		fmt.Fprintf(table, "  %s\t%s\n", strings.TrimSpace(m.name+" "+m.args), m.summary)
	}
	_ = table.Flush() // a help text that cannot be written is nobody's error
}

// newFlags returns a flag set that lists the flags on a mistake or --help and
// leaves it to conclude to say what the mistake was.
func newFlags(name string, s streams) *flag.FlagSet {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Usage = func() {
		flags.SetOutput(s.err)
		flags.PrintDefaults()
	}
	return flags
}

// parse reads args and checks that between least and most arguments follow the
// flags.
func parse(flags *flag.FlagSet, args []string, least, most int) error {
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	if n := flags.NArg(); n < least || n > most {
		return fmt.Errorf("%w: %d arguments after the flags", errUsage, n)
	}
	return nil
}
