package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"time"
)

// exit ends at once with the status it is given.
func exit(_ context.Context, s streams, args []string) (int, error) {
	flags := newFlags("exit", s)
	message := flags.String("message", "", "a `line` to print first")
	if err := parse(flags, args, 0, 1); err != nil {
		return exitUsage, err
	}
	status := exitOK
	if flags.NArg() == 1 {
		var err error
		status, err = strconv.Atoi(flags.Arg(0))
		if err != nil || status < 0 || status > 255 {
			return exitUsage, fmt.Errorf("%w: exit status %q is not within 0..255", errUsage, flags.Arg(0))
		}
	}
	if *message != "" {
		fmt.Fprintln(s.out, *message)
	}
	return status, nil
}

func touch(_ context.Context, s streams, args []string) (int, error) {
	flags := newFlags("touch", s)
	if err := parse(flags, args, 1, math.MaxInt); err != nil {
		return exitUsage, err
	}
	for _, path := range flags.Args() {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return exitError, fmt.Errorf("touch: %w", err)
		}
		now := time.Now()
		if err := errors.Join(file.Close(), os.Chtimes(path, now, now)); err != nil {
			return exitError, fmt.Errorf("touch: %w", err)
		}
	}
	return exitOK, nil
}
