package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

// resumeVariable is set by the agent when it found a complete checkpoint.
const resumeVariable = "HETEROFLOW_RESUME_FROM_CHECKPOINT"

// exitKilled is the status of a process that SIGKILL ended. train uses it to
// look killed: PID 1 of a container cannot send itself a deadly signal.
const exitKilled = 137

type trainOptions struct {
	steps    int
	stepTime time.Duration
	every    int
	tearAt   int
	store    checkpoints
}

func train(ctx context.Context, s streams, args []string) (int, error) {
	var o trainOptions
	flags := newFlags("train", s)
	flags.IntVar(&o.steps, "steps", 10, "`number` of the last step")
	flags.DurationVar(&o.stepTime, "step-time", 100*time.Millisecond, "`time` a step takes")
	flags.IntVar(&o.every, "checkpoint-every", 1, "save after every `N` steps and after the last")
	flags.StringVar(&o.store.dir, "checkpoint-dir", "/checkpoint", "`directory` of the checkpoints")
	flags.StringVar(&o.store.mark, "mark", "COMPLETE", "`name` of the completion mark file")
	flags.IntVar(&o.tearAt, "tear-at", 0, "leave the checkpoint of step `N` half written and exit 137 (0: never)")
	if err := parse(flags, args, 0, 0); err != nil {
		return exitUsage, err
	}
	if o.steps < 1 || o.every < 1 || o.stepTime < 0 || o.tearAt < 0 {
		return exitUsage, fmt.Errorf("%w: --steps and --checkpoint-every start at 1, --step-time and --tear-at at 0", errUsage)
	}
	state, err := o.begin(s)
	if err != nil {
		return exitError, err
	}
	return o.run(ctx, s, state)
}

// begin returns the state to go on from: the checkpoint the environment names,
// or step 0.
func (o trainOptions) begin(s streams) (trainState, error) {
	from := os.Getenv(resumeVariable)
	if from == "" {
		fmt.Fprintln(s.out, "starting from scratch")
		return trainState{Loss: 1}, nil
	}
	state, err := o.store.load(from)
	if err != nil {
		return trainState{}, fmt.Errorf("resume from %s=%s: %w", resumeVariable, from, err)
	}
	fmt.Fprintf(s.out, "resumed from %s at step %d\n", from, state.Step)
	return state, nil
}

func (o trainOptions) run(ctx context.Context, s streams, state trainState) (int, error) {
	for state.Step < o.steps {
		select {
		case <-ctx.Done():
			return o.interrupt(s, state)
		case <-time.After(o.stepTime):
		}
		state.Step++
		state.Loss *= 0.9
		fmt.Fprintf(s.out, "step %d/%d loss %.4f\n", state.Step, o.steps, state.Loss)
		if state.Step == o.tearAt {
			return exitKilled, o.store.tear(state)
		}
		if state.Step%o.every == 0 || state.Step == o.steps {
			if err := o.save(s, state); err != nil {
				return exitError, err
			}
		}
	}
	fmt.Fprintf(s.out, "trained %d steps\n", state.Step)
	return exitOK, nil
}

// interrupt saves the steps done so far. Before the first step there is nothing
// to save.
func (o trainOptions) interrupt(s streams, state trainState) (int, error) {
	fmt.Fprintf(s.out, "interrupted after step %d\n", state.Step)
	if state.Step > 0 {
		if err := o.save(s, state); err != nil {
			return exitError, err
		}
	}
	return exitTerminated, nil
}

func (o trainOptions) save(s streams, state trainState) error {
	path, err := o.store.save(state)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "saved %s\n", path)
	return nil
}
