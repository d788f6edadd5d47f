// Command demo shows the agent's main job end to end on this machine: a control plane, a
// private registry and an agent are started, three tasks are submitted, and what becomes
// of them is printed as it happens. It exits with 0 only if each of them ended as it
// should and nothing is left behind.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// limit bounds the whole show: a minute is promised, the rest is for slow machines.
const limit = 3 * time.Minute

func main() {
	var s show
	flag.StringVar(&s.runtime, "runtime", "docker", "container runtime: docker or containerd")
	flag.StringVar(&s.bin, "bin", "bin", "directory with heteroflow-agent and heteroflow-devserver")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the demo did not end within %v", limit))
	defer cancel()
	if err := s.play(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "\ndemo failed: %v\n", err)
		os.Exit(1)
	}
}

// play sets the stage, runs the acts and clears the stage whatever happened.
func (s *show) play(ctx context.Context) (err error) {
	if err := s.set(ctx); err != nil {
		return errors.Join(err, s.clear(ctx))
	}
	err = s.act(ctx)
	if err != nil && s.agent != nil {
		fmt.Fprintf(os.Stderr, "\nthe agent's log:\n%s\n", s.agent.Log())
	}
	if errClear := s.clear(ctx); errClear != nil {
		return errors.Join(err, fmt.Errorf("clear up: %w", errClear))
	}
	if err == nil {
		fmt.Printf("\nNothing is left behind. All three tasks ended as they should, in %.1f s.\n", time.Since(s.begun).Seconds())
	}
	return err
}
