package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func sleep(ctx context.Context, s streams, args []string) (int, error) {
	flags := newFlags("sleep", s)
	if err := parse(flags, args, 1, 1); err != nil {
		return exitUsage, err
	}
	d, err := time.ParseDuration(flags.Arg(0))
	if err != nil {
		return exitUsage, fmt.Errorf("%w: %w", errUsage, err)
	}
	select {
	case <-ctx.Done():
		return exitTerminated, nil
	case <-time.After(d):
		return exitOK, nil
	}
}

// await lets a test on the host say when the program ends.
func await(ctx context.Context, s streams, args []string) (int, error) {
	flags := newFlags("await", s)
	if err := parse(flags, args, 1, 1); err != nil {
		return exitUsage, err
	}
	switch err := awaitFile(ctx, flags.Arg(0)); {
	case err == nil:
		return exitOK, nil
	case ctx.Err() != nil:
		return exitTerminated, nil //nolint:nilerr // a stop is not an error
	default:
		return exitError, err
	}
}

// awaitFile returns when there is a file, or ctx's error.
func awaitFile(ctx context.Context, path string) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// ignoreSIGTERM never returns: it deliberately does not look at its context,
// which ends with the first SIGTERM.
func ignoreSIGTERM(_ context.Context, s streams, args []string) (int, error) {
	if err := parse(newFlags("ignore-sigterm", s), args, 0, 0); err != nil {
		return exitUsage, err
	}
	terms := make(chan os.Signal, 8)
	signal.Notify(terms, syscall.SIGTERM)
	fmt.Fprintln(s.out, "ignoring SIGTERM")
	for n := 1; ; n++ {
		<-terms
		fmt.Fprintf(s.out, "ignored SIGTERM %d\n", n)
	}
}
