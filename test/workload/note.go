package main

import (
	"context"
	"fmt"
	"os"
)

// note tells a file on the host when a mode starts and how it ends, so that a test can
// count how often a program really ran. A mode that was killed leaves no end.
func note(ctx context.Context, s streams, args []string) (int, error) {
	flags := newFlags("note", s)
	if err := parse(flags, args, 2, len(args)); err != nil {
		return exitUsage, err
	}
	file := flags.Arg(0)
	for _, m := range modes() {
		if m.name != flags.Arg(1) {
			continue
		}
		if err := appendLine(file, "start"); err != nil {
			return exitError, err
		}
		status, err := m.run(ctx, s, flags.Args()[2:])
		status = m.conclude(s, status, err)
		return status, appendLine(file, fmt.Sprintf("end %d", status))
	}
	return exitUsage, fmt.Errorf("%w: no mode %q", errUsage, flags.Arg(1))
}

// appendLine adds to what is there: two programs that write at once do not mix.
func appendLine(file, line string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("note: %w", err)
	}
	_, err = f.WriteString(line + "\n")
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}
