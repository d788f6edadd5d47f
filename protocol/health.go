package protocol

import (
	"slices"
	"time"
)

// HealthCheckType is how a service is probed.
type HealthCheckType string

// The kinds of probe.
const (
	HealthHTTP HealthCheckType = "http" // GET, healthy on 200 to 399
	HealthTCP  HealthCheckType = "tcp"  // healthy when the connection opens
)

// HealthCheckTypes lists the kinds of probe this release knows.
func HealthCheckTypes() []HealthCheckType { return []HealthCheckType{HealthHTTP, HealthTCP} }

// Known reports whether this release knows the kind.
func (t HealthCheckType) Known() bool { return slices.Contains(HealthCheckTypes(), t) }

// HealthCheck is the probe of an inference service.
type HealthCheck struct {
	Type                HealthCheckType `json:"type" doc:"Kind of probe."`
	Path                string          `json:"path,omitempty" doc:"Path of an http probe; absent: /."`
	Port                int             `json:"port" doc:"Container port to probe, 1 to 65535."`
	InitialDelaySeconds int64           `json:"initial_delay_seconds,omitzero" doc:"Seconds from the start to the first probe; absent: 0."`
	IntervalSeconds     int64           `json:"interval_seconds,omitzero" doc:"Seconds between probes; 0 or absent: 10."`
	TimeoutSeconds      int64           `json:"timeout_seconds,omitzero" doc:"Seconds one probe may take; 0 or absent: 5."`
	FailureThreshold    int             `json:"failure_threshold,omitzero" doc:"Failures in a row that make the task unhealthy; 0 or absent: 3."`
	StopWhenUnhealthy   bool            `json:"stop_when_unhealthy,omitzero" doc:"End the task once it is unhealthy, as failed for the reason unhealthy; absent: that is reported and no more."`
}

// WithDefaults returns the check with every absent value filled in.
func (h HealthCheck) WithDefaults() HealthCheck {
	if h.Type == HealthHTTP && h.Path == "" {
		h.Path = "/"
	}
	if h.IntervalSeconds == 0 {
		h.IntervalSeconds = 10
	}
	if h.TimeoutSeconds == 0 {
		h.TimeoutSeconds = 5
	}
	if h.FailureThreshold == 0 {
		h.FailureThreshold = 3
	}
	return h
}

// HealthState is what the probes of a task's service found.
type HealthState string

// The health states.
const (
	HealthStarting  HealthState = "starting"  // not healthy yet, not failed often enough
	HealthHealthy   HealthState = "healthy"   // the last probe succeeded
	HealthUnhealthy HealthState = "unhealthy" // failure_threshold failures in a row
	HealthUnknown   HealthState = "unknown"   // not probed, or the probe could not run
)

// HealthStates lists the health states this release knows.
func HealthStates() []HealthState {
	return []HealthState{HealthStarting, HealthHealthy, HealthUnhealthy, HealthUnknown}
}

// Known reports whether this release knows the state.
func (s HealthState) Known() bool { return slices.Contains(HealthStates(), s) }

// TaskHealth is the health of one task's service.
type TaskHealth struct {
	TaskID              string      `json:"task_id" doc:"The task."`
	State               HealthState `json:"state" doc:"What the probes found."`
	Since               *time.Time  `json:"since,omitzero" doc:"When this state began."`
	Message             string      `json:"message,omitempty" doc:"What the last failed probe saw."`
	ConsecutiveFailures int         `json:"consecutive_failures,omitzero" doc:"Failed probes in a row; absent: none."`
}
