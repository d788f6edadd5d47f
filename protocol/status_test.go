package protocol

import (
	"slices"
	"testing"
)

// allowed spells the whole table out once more, pair by pair, so that a change
// of the rules has to be made twice.
var allowed = map[Transition]bool{
	{StatusPending, StatusScheduled}:   true,
	{StatusPending, StatusCancelled}:   true,
	{StatusScheduled, StatusPending}:   true,
	{StatusScheduled, StatusScheduled}: true,
	{StatusScheduled, StatusRunning}:   true,
	{StatusScheduled, StatusCancelled}: true,
	{StatusRunning, StatusScheduled}:   true,
	{StatusRunning, StatusCompleted}:   true,
	{StatusRunning, StatusFailed}:      true,
	{StatusRunning, StatusStopping}:    true,
	{StatusRunning, StatusSleeping}:    true,
	{StatusRunning, StatusCancelled}:   true,
	{StatusStopping, StatusStopped}:    true,
	{StatusStopping, StatusCancelled}:  true,
	{StatusSleeping, StatusAsleep}:     true,
	{StatusSleeping, StatusStopping}:   true,
	{StatusSleeping, StatusCancelled}:  true,
	{StatusAsleep, StatusWaking}:       true,
	{StatusAsleep, StatusStopping}:     true,
	{StatusAsleep, StatusCancelled}:    true,
	{StatusWaking, StatusRunning}:      true,
	{StatusWaking, StatusStopping}:     true,
	{StatusWaking, StatusCancelled}:    true,
}

func TestEveryPairOfStatusesIsAllowedOrRefusedAsTheTableSays(t *testing.T) {
	words := append(TaskStatuses(), "", "paused")
	for _, from := range words {
		for _, to := range words {
			if got, want := CanTransition(from, to), allowed[Transition{from, to}]; got != want {
				t.Errorf("CanTransition(%q, %q) = %t, want %t", from, to, got, want)
			}
			agent := slices.Contains(AgentTransitions(), Transition{from, to})
			if AgentCanTransition(from, to) != agent {
				t.Errorf("AgentCanTransition(%q, %q) = %t, want %t", from, to, !agent, agent)
			}
			if agent && !CanTransition(from, to) {
				t.Errorf("an agent may make %q to %q, the server would refuse it", from, to)
			}
		}
	}
}

func TestAgentMakesTheSixStepsOfTheProtocol(t *testing.T) {
	want := []Transition{
		{"scheduled", "running"},
		{"running", "completed"},
		{"running", "failed"},
		{"stopping", "stopped"},
		{"sleeping", "asleep"},
		{"waking", "running"},
	}
	if got := AgentTransitions(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestNothingLeavesATerminalStatusAndEveryOtherCanEnd(t *testing.T) {
	for _, s := range TaskStatuses() {
		reached := map[TaskStatus]bool{s: true}
		for grown := true; grown; {
			grown = false
			for tr := range allowed {
				if reached[tr.From] && !reached[tr.To] {
					reached[tr.To], grown = true, true
				}
			}
		}
		if s.Terminal() && len(reached) > 1 {
			t.Errorf("%s is terminal and leads on to %v", s, reached)
		}
		if !s.Terminal() && !reached[StatusCancelled] {
			t.Errorf("%s can never be cancelled", s)
		}
	}
}

func TestAnUnknownStatusIsNotTerminal(t *testing.T) {
	if TaskStatus("paused").Terminal() || TaskStatus("").Terminal() {
		t.Error("an unknown status counts as terminal: its container would be removed")
	}
	for _, s := range []TaskStatus{StatusCompleted, StatusFailed, StatusCancelled, StatusStopped} {
		if !s.Terminal() {
			t.Errorf("%s is not terminal", s)
		}
	}
}

func TestRequestsMoveFromPendingOverRunningToAnEnd(t *testing.T) {
	want := map[[2]RequestStatus]bool{
		{RequestPending, RequestRunning}:   true,
		{RequestRunning, RequestCompleted}: true,
		{RequestRunning, RequestFailed}:    true,
	}
	for _, from := range append(RequestStatuses(), "odd") {
		for _, to := range append(RequestStatuses(), "odd") {
			if got := CanTransitionRequest(from, to); got != want[[2]RequestStatus{from, to}] {
				t.Errorf("CanTransitionRequest(%q, %q) = %t", from, to, got)
			}
		}
	}
}
