package executor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
)

var phases = []Phase{Claimed, Pulling, Creating, Starting, Running, Stopping, Asleep, Waking, Reporting, Owing, Removing}

func TestEveryStepOfATaskIsInTheTableOrIllegal(t *testing.T) {
	legal := strings.Fields(`
		claimed>pulling claimed>running claimed>stopping claimed>reporting claimed>removing
		pulling>creating pulling>reporting pulling>removing
		creating>starting creating>pulling creating>reporting creating>removing
		starting>running starting>stopping starting>reporting starting>removing
		running>stopping running>reporting running>removing
		stopping>running stopping>reporting stopping>removing
		asleep>waking asleep>reporting asleep>removing
		waking>running waking>stopping waking>reporting waking>removing
		reporting>owing reporting>asleep reporting>removing
		owing>reporting`)
	if len(next) != len(phases) {
		t.Errorf("%d phases in the table, want %d", len(next), len(phases))
	}
	for _, from := range phases {
		for _, to := range append(phases, "future") {
			want := slices.Contains(legal, fmt.Sprintf("%s>%s", from, to))
			if err := step(from, to); (err == nil) != want {
				t.Errorf("%s to %s: %v, want legal %v", from, to, err, want)
			}
		}
	}
}

func TestOnlyATaskAsleepOrOwingHoldsNoPlace(t *testing.T) {
	for _, p := range phases {
		if free := p == Asleep || p == Owing; p.holdsSlot() == free {
			t.Errorf("%s holds a place: %v", p, p.holdsSlot())
		}
	}
}

func TestWhatTheControlPlaneWantsFollowsFromItsView(t *testing.T) {
	const same = want(-1) // what it was
	statuses := map[protocol.TaskStatus]want{
		protocol.StatusRunning: wantRun, protocol.StatusWaking: wantRun,
		protocol.StatusSleeping: wantSleep, protocol.StatusAsleep: wantSleep,
		protocol.StatusStopping: wantStop,
		protocol.StatusPending:  same, protocol.StatusScheduled: same, "hibernating": same, "": same,
		protocol.StatusCompleted: wantNothing, protocol.StatusFailed: wantNothing,
		protocol.StatusCancelled: wantNothing, protocol.StatusStopped: wantNothing,
	}
	for _, status := range protocol.TaskStatuses() {
		if _, ok := statuses[status]; !ok {
			t.Errorf("%s is not in the table", status)
		}
	}
	for status, w := range statuses {
		for _, now := range []want{wantRun, wantSleep, wantStop, wantNothing} {
			expected := w
			if w == same {
				expected = now
			}
			v := viewOf(protocol.Task{Status: status, NodeID: "n", Generation: 1}, "n", 1)
			if got := v.wants(now); got != expected {
				t.Errorf("%q after %d: %d, want %d", status, now, got, expected)
			}
		}
	}
}

func TestATaskIsOverForThisNodeByAFactOnly(t *testing.T) {
	cases := map[string]struct {
		task protocol.Task
		over string
	}{
		"it runs here":                        {protocol.Task{Status: "running", NodeID: "n", Generation: 3}, ""},
		"no node is named":                    {protocol.Task{Status: "running", Generation: 3}, ""},
		"its status is from the future":       {protocol.Task{Status: "future", NodeID: "n", Generation: 3}, ""},
		"it is an earlier assignment":         {protocol.Task{Status: "running", NodeID: "n", Generation: 2}, ""},
		"it is another node's":                {protocol.Task{Status: "running", NodeID: "m", Generation: 3}, overMoved},
		"it is a later assignment":            {protocol.Task{Status: "scheduled", NodeID: "n", Generation: 4}, overAnew},
		"it is a later assignment, moved":     {protocol.Task{Status: "scheduled", NodeID: "m", Generation: 4}, overMoved},
		"it has ended":                        {protocol.Task{Status: "completed", NodeID: "n", Generation: 3}, overTerminal},
		"it has ended, and no node is named":  {protocol.Task{Status: "stopped", Generation: 3}, overTerminal},
		"it was cancelled":                    {protocol.Task{Status: "cancelled", NodeID: "n", Generation: 3}, overCancelled},
		"it has ended on another node, moved": {protocol.Task{Status: "failed", NodeID: "m", Generation: 3}, overMoved},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := viewOf(tc.task, "n", 3).over; got != tc.over {
				t.Errorf("got %q, want %q", got, tc.over)
			}
		})
	}
}

func TestTheResultOfAContainerIsWhatTheRuntimeKnowsOfItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		at := begun.Add(time.Hour)
		exit := func(code int, oom bool) *runtime.Exit {
			return &runtime.Exit{Code: &code, OOMKilled: oom, FinishedAt: at}
		}
		cases := map[string]struct {
			exit *runtime.Exit
			want Result
		}{
			"code 0":                 {exit(0, false), Result{Success: true, Reason: "exited", ExitCode: new(0), OOMKilled: new(false), FinishedAt: &at}},
			"code 3":                 {exit(3, false), Result{Reason: "exited", ExitCode: new(3), OOMKilled: new(false), FinishedAt: &at}},
			"137 for memory":         {exit(137, true), Result{Reason: "oom_killed", ExitCode: new(137), OOMKilled: new(true), FinishedAt: &at}},
			"137 by somebody":        {exit(137, false), Result{Reason: "exited", ExitCode: new(137), OOMKilled: new(false), FinishedAt: &at}},
			"1 after a killed child": {exit(1, true), Result{Reason: "oom_killed", ExitCode: new(1), OOMKilled: new(true), FinishedAt: &at}},
			"0 after a killed child": {exit(0, true), Result{Success: true, Reason: "exited", ExitCode: new(0), OOMKilled: new(true), FinishedAt: &at}},
			"no code":                {&runtime.Exit{FinishedAt: at}, Result{Reason: "exit_unknown", OOMKilled: new(false), FinishedAt: &at}},
			"no time":                {&runtime.Exit{Code: new(0)}, Result{Success: true, Reason: "exited", ExitCode: new(0), OOMKilled: new(false)}},
			"nothing":                {nil, Result{Reason: "exit_unknown"}},
		}
		for name, tc := range cases {
			got := ended(runtime.Container{ID: "c", StartedAt: begun, Exit: tc.exit})
			if unknown := got.Reason == "exit_unknown" || got.Reason == "oom_killed"; unknown != (got.Message != "") {
				t.Errorf("%s: message %q", name, got.Message)
			}
			got.Message = ""
			tc.want.ContainerID, tc.want.StartedAt = "c", &begun
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
	})
}

func TestATimeoutIs124WhateverTheProgramSaid(t *testing.T) {
	r := Result{Success: true, Reason: "exited", ExitCode: new(0)}
	if got := r.overruled(protocol.ReasonTimeout, "m"); got.Success || *got.ExitCode != 124 || got.Reason != "timeout" || got.Message != "m" {
		t.Errorf("timeout: %+v", got)
	}
	if got := r.overruled(protocol.ReasonStopped, "m"); got.Success || *got.ExitCode != 0 || got.Reason != "stopped" {
		t.Errorf("stop: %+v", got)
	}
}

func TestAResultAsksForTheStepThatTheStoredStatusAllows(t *testing.T) {
	cases := map[protocol.TaskStatus]struct{ success, failure protocol.TaskStatus }{
		protocol.StatusRunning:  {protocol.StatusCompleted, protocol.StatusFailed},
		protocol.StatusStopping: {protocol.StatusStopped, protocol.StatusStopped},
		protocol.StatusSleeping: {protocol.StatusAsleep, protocol.StatusAsleep},
		protocol.StatusWaking:   {protocol.StatusRunning, protocol.StatusRunning},
	}
	for _, stored := range append(protocol.TaskStatuses(), "future", "") {
		want, sayable := cases[stored]
		for success, to := range map[bool]protocol.TaskStatus{true: want.success, false: want.failure} {
			got, ok := Result{Success: success}.report(stored)
			if got != to || ok != sayable {
				t.Errorf("%q, success %v: %q, %v, want %q", stored, success, got, ok, to)
			}
			if ok && !protocol.AgentCanTransition(stored, got) {
				t.Errorf("%q to %q is no step of an agent", stored, got)
			}
		}
	}
}

func TestAReportCarriesTheResultSaveOneThatOnlyWakes(t *testing.T) {
	r := Result{TaskID: "1", Generation: 2, ContainerID: "c", Reason: protocol.ReasonExited, ExitCode: new(3), Message: "x" + strings.Repeat("ü", protocol.MaxErrorMessageBytes)}
	u := r.update(protocol.StatusRunning, protocol.StatusFailed, "tail")
	if *u.Generation != 2 || u.ContainerID != "c" || *u.ExitCode != 3 || u.Reason != "exited" || u.LogTail != "tail" {
		t.Errorf("got %+v", u)
	}
	if len(u.ErrorMessage) > protocol.MaxErrorMessageBytes || !utf8.ValidString(u.ErrorMessage) {
		t.Errorf("a message of %d bytes, valid %v", len(u.ErrorMessage), utf8.ValidString(u.ErrorMessage))
	}
	if u := r.update(protocol.StatusStopping, protocol.StatusStopped, ""); u.Reason != protocol.ReasonStopped {
		t.Errorf("stopped for the reason %q", u.Reason)
	}
	if u := r.update(protocol.StatusWaking, protocol.StatusRunning, "tail"); u.ExitCode != nil || u.Reason != "" || u.LogTail != "" {
		t.Errorf("a wake that tells of an end: %+v", u)
	}
}

func FuzzTheTailOfAnOutputIsValidAndBounded(f *testing.F) {
	for _, s := range []string{"", "hello\n", "\xff\xfe", "grüße", "日本語\xe6\x97"} {
		f.Add([]byte(s), 8)
	}
	f.Fuzz(func(t *testing.T, out []byte, n int) {
		if n < 0 {
			return
		}
		got := tailOf(out, n)
		if len(got) > n || !utf8.ValidString(got) {
			t.Errorf("%q within %d: %q", out, n, got)
		}
		if utf8.Valid(out) && !strings.HasSuffix(string(out), got) {
			t.Errorf("%q is no end of %q", got, out)
		}
		if got := clip(strings.ToValidUTF8(string(out), "?"), n); len(got) > n || !utf8.ValidString(got) {
			t.Errorf("%q clipped to %d: %q", out, n, got)
		}
	})
}
