// Package status is how the running agent tells the status command how it is, without a
// socket: a file in the state directory, rewritten after each heartbeat.
//
// It is a report, not state: nothing reads it to decide, and it is not made durable.
package status

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/heteroflow/node-agent/protocol"
)

// FileName is the file in the state directory.
const FileName = "status.json"

// Status is how the agent was after a heartbeat.
type Status struct {
	WrittenAt    time.Time          `json:"written_at"`
	PID          int                `json:"pid"`
	Period       time.Duration      `json:"period_ns"` // between heartbeats
	Server       string             `json:"server"`
	LastContact  *time.Time         `json:"last_contact,omitempty"` // last acknowledged heartbeat, by the clock of written_at; nil: none since the start
	Unauthorized bool               `json:"unauthorized,omitempty"` // the server refuses the key
	Error        string             `json:"error,omitempty"`        // why the last heartbeat was not acknowledged
	Heartbeat    protocol.Heartbeat `json:"heartbeat"`              // in full
}

// Write replaces the file at once, so that no reader sees half of it.
func Write(stateDir string, s Status) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encode status: %w", err)
	}
	file := filepath.Join(stateDir, FileName)
	if err := os.WriteFile(file+".new", append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	return nil
}

// ErrNeverRan says that no agent has left a status in this state directory.
var ErrNeverRan = errors.New("no agent has run with this state directory")

// Read returns what the agent wrote last.
func Read(stateDir string) (Status, error) {
	var s Status
	data, err := os.ReadFile(filepath.Join(stateDir, FileName))
	if errors.Is(err, fs.ErrNotExist) {
		return s, fmt.Errorf("%w: %s", ErrNeverRan, stateDir)
	}
	if err != nil {
		return s, fmt.Errorf("read status: %w", err)
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("read status: %w", err)
	}
	return s, nil
}

// Running reports whether the agent that wrote the status lives.
func (s Status) Running() bool {
	err := syscall.Kill(s.PID, 0)
	return s.PID > 0 && (err == nil || errors.Is(err, syscall.EPERM))
}

// missedBeats is how many heartbeats may be late before the status counts as stale.
const missedBeats = 4

// stale is how old a status is that an agent wrote which hangs.
func (s Status) stale() time.Duration { return missedBeats * max(s.Period, 15*time.Second) }

// Problems lists what an operator should look at; none: all is well.
func (s Status) Problems(now time.Time) []string {
	var all []string
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	switch {
	case !s.Running():
		add("the agent does not run, or cannot write its status; this is how it was at %s", s.WrittenAt.Format(time.RFC3339))
	case now.Sub(s.WrittenAt) > s.stale():
		add("the agent (pid %d) hangs, or cannot write its status (is the disk full?): it last did at %s", s.PID, s.WrittenAt.Format(time.RFC3339))
	case s.WrittenAt.Sub(now) > s.stale():
		add("the clock has been set back since the agent (pid %d) wrote its status, at %s: it hangs unless that changes within %v",
			s.PID, s.WrittenAt.Format(time.RFC3339), s.stale())
	}
	if s.Unauthorized {
		add("the control plane refuses the system key")
	} else if s.Error != "" {
		add("the last heartbeat was not acknowledged: %s", s.Error)
	}
	if e := s.Heartbeat.ErrorMessage; e != "" {
		add("%s", e)
	}
	if e := s.Heartbeat.GPUCollectorError; e != "" {
		add("cards: %s", e)
	}
	for _, f := range s.Heartbeat.GPUCollectFailures {
		add("card %s%s: %s", f.UUID, f.BusID, f.Message)
	}
	if n := s.Heartbeat.UndeliveredResults; n != nil && *n > 0 {
		add("%d results are not delivered yet", *n)
	}
	return all
}

// WriteText prints the status for people.
func (s Status) WriteText(w io.Writer, now time.Time) error {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-14s %s\n", name, fmt.Sprintf(format, args...))
	}
	hb := s.Heartbeat
	line("node", "%s (%s)", hb.NodeID, hb.State)
	line("agent", "%s, commit %s, pid %d", hb.AgentVersion, hb.AgentCommit, s.PID)
	for _, d := range hb.DrainedBy {
		line("draining", "nothing new is claimed, %s", describeDrain(d))
	}
	contact := "never reached since the agent started"
	if s.LastContact != nil {
		// A clock that was set back since the writing says nothing of the time since then.
		ago := max(0, now.Sub(s.WrittenAt)) + s.WrittenAt.Sub(*s.LastContact)
		contact = fmt.Sprintf("last reached %v ago", ago.Round(time.Second))
	}
	line("control plane", "%s, %s", s.Server, contact)
	line("runtime", "%s", describeRuntime(hb.Runtime))
	line("tasks", "%d running, %d image pulls", len(hb.LiveTaskIDs), len(hb.Pulls))
	for _, h := range hb.TaskHealth {
		line("", "%s: %s %s", h.TaskID, h.State, h.Message)
	}
	line("cards", "%d", len(hb.GPUs))
	for _, problem := range s.Problems(now) {
		line("PROBLEM", "%s", problem)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func describeDrain(d protocol.Drain) string {
	if d.By == protocol.DrainByServer {
		return "by the control plane's wish"
	}
	text := "by " + string(d.By)
	if d.User != "" {
		text += " " + d.User
	}
	if d.Since != nil {
		text += " since " + d.Since.Format(time.RFC3339)
	}
	if d.Reason != "" {
		text += ": " + d.Reason
	}
	return text
}

func describeRuntime(r *protocol.RuntimeReport) string {
	switch {
	case r == nil:
		return "not looked at yet"
	case !r.Available:
		return fmt.Sprintf("%s does not answer: %s", r.Name, r.Error)
	default:
		return fmt.Sprintf("%s %s (%s)", r.Name, r.Version, r.Why)
	}
}
