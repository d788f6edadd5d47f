// Package mps reads what nvidia-cuda-mps-control, the control program of CUDA's
// Multi-Process Service, and its clients print. It runs nothing and keeps no
// state.
//
// The control program answers each command with bare values, so their meaning
// comes from the command: from the command line ("echo get_server_list | …") or
// from the prompt of a pasted session. An empty answer is one: a daemon without
// a server yet. Facts: docs.nvidia.com/deploy/mps.
package mps

import (
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// Tool is the control program's name.
const Tool = "nvidia-cuda-mps-control"

// Probe is the command that NVIDIA's own device plugin asks to see whether the
// daemon is alive: its answer is never empty.
const Probe = "get_default_active_thread_percentage"

const (
	serverList  = "get_server_list"
	clientList  = "get_client_list"
	clientTable = "ps"
)

var (
	noDaemon   = text.Lazy(`(?i)Cannot find MPS control daemon process`)
	second     = text.Lazy(`(?i)An instance of this daemon is already running`)
	logLine    = text.Lazy(`^\[[^\]]*\bControl\s+(\d+)\]\s+(.*)$`)
	logSocket  = text.Lazy(`using socket (/\S+)/control\b`)
	logPipe    = text.Lazy(`CUDA_MPS_PIPE_DIRECTORY=(/\S+)`)
	clientFail = text.Lazy(`(?i)\berror:?\s*(80[5-9]|81\d)\b.*\bMPS\b|MPS client failed to connect|` +
		`CUDA_ERROR_MPS_CONNECTION_FAILED|cudaErrorMpsConnectionFailed`)
	errorCode = text.Lazy(`\b(80[5-9]|81\d)\b`)
	prompt    = text.Lazy(`^\s*[$#>]\s+(.*\b` + Tool + `\b.*)$`)
)

// connectFailed is cudaErrorMpsConnectionFailed, whose text stands for it.
const connectFailed = 805

var errUnknown = errors.New("not a known form of " + Tool + "'s output")

// Parse reads one output. ok is false when neither argv nor the text is about MPS.
func Parse(argv []string, exitCode int, output []byte) (p gpu.Parsed, ok bool, err error) {
	lines := text.Lines(output)
	_, control := text.ToolArgs(argv, Tool)
	m := &gpu.MPS{}
	switch {
	case slices.ContainsFunc(lines, noDaemon.MatchString):
		m.Daemon = new(false)
	case slices.ContainsFunc(lines, second.MatchString):
		m.Daemon = new(true)
	case daemonLog(m, lines), clientError(m, lines), session(m, lines):
	case control:
		if !single(m, argv, exitCode, lines) {
			return gpu.Parsed{}, true, errUnknown
		}
	default:
		return gpu.Parsed{}, false, nil
	}
	return gpu.Parsed{MPS: m}, true, nil
}

// daemonLog reads the start of the control daemon's log.
func daemonLog(m *gpu.MPS, lines []string) bool {
	for _, line := range lines {
		f := logLine.FindStringSubmatch(line)
		if f == nil {
			continue
		}
		if s := logSocket.FindStringSubmatch(f[2]); s != nil {
			m.Daemon, m.PID, m.PipeDirectory = new(true), positive(f[1]), path.Clean(s[1])
		}
		if s := logPipe.FindStringSubmatch(f[2]); s != nil {
			m.Daemon, m.PID, m.PipeDirectory = new(true), positive(f[1]), path.Clean(s[1])
		}
	}
	return m.Daemon != nil
}

// clientError reads the CUDA error by which a client learns that no daemon
// serves it: nothing about the daemon itself, which may be out of its reach.
func clientError(m *gpu.MPS, lines []string) bool {
	for _, line := range lines {
		if !clientFail.MatchString(line) {
			continue
		}
		m.ClientError = new(connectFailed)
		if code := errorCode.FindString(line); code != "" {
			m.ClientError = positive(code)
		}
		return true
	}
	return false
}

// session reads a pasted shell session, one prompt with its answer after another.
func session(m *gpu.MPS, lines []string) bool {
	command, answer, found := "", []string(nil), false
	flush := func() {
		if found {
			answered(m, command, answer)
		}
	}
	for _, line := range lines {
		if f := prompt.FindStringSubmatch(line); f != nil {
			flush()
			command, answer, found = f[1], nil, true
			continue
		}
		answer = append(answer, line)
	}
	flush()
	return m.Daemon != nil
}

// single reads the answer to the one command of argv; when argv does not name it
// (it came on standard input), only that of Probe tells itself, by its point.
func single(m *gpu.MPS, argv []string, exitCode int, lines []string) bool {
	words := strings.Fields(strings.Join(lines, " "))
	if exitCode != 0 && len(words) == 0 {
		return false
	}
	command := strings.Join(argv, " ")
	if len(words) == 1 && strings.Contains(words[0], ".") && !strings.Contains(command, "get_") {
		command = Probe
	}
	answered(m, command, lines)
	return m.Daemon != nil
}

// answered takes the answer to one command. Words that are no answer leave
// everything unknown.
func answered(m *gpu.MPS, command string, lines []string) {
	words := strings.Fields(strings.Join(lines, " "))
	asked := strings.Fields(strings.NewReplacer(`"`, " ", `'`, " ", "|", " ").Replace(command))
	pids := numbers(words)
	switch client := slices.Index(asked, clientList); {
	case slices.Contains(asked, Probe):
		if p := text.Percent(strings.Join(words, " ")); p != nil && *p >= 0 && *p <= 100 {
			m.Daemon, m.ThreadPercent = new(true), p
		}
	case slices.Contains(asked, clientTable) && len(words) > 0 && words[0] == "PID":
		m.Daemon = new(true)
		clients(m, lines)
	case len(pids) < len(words):
	case slices.Contains(asked, serverList):
		m.Daemon, m.Servers = new(true), pids
	case client >= 0 && client+1 < len(asked):
		if server := positive(asked[client+1]); server != nil {
			if m.Clients == nil {
				m.Clients = map[int][]int{}
			}
			m.Daemon, m.Clients[*server] = new(true), pids
		}
	default: // pids of what was not asked here, or silence: it answered
		m.Daemon = new(true)
	}
}

// clients reads the rows of "ps": pid, number and server of each client, then
// device, name space and command, which are not reported. A client of several
// devices has a row for each.
func clients(m *gpu.MPS, lines []string) {
	for _, line := range lines {
		words := strings.Fields(line)
		if len(words) < 4 {
			continue
		}
		pid, server := positive(words[0]), positive(words[2])
		if pid == nil || server == nil || slices.Contains(m.Clients[*server], *pid) {
			continue
		}
		if m.Clients == nil {
			m.Clients = map[int][]int{}
		}
		m.Clients[*server] = append(m.Clients[*server], *pid)
	}
}

// numbers returns the words that are pids.
func numbers(words []string) []int {
	var pids []int
	for _, w := range words {
		if pid := positive(w); pid != nil {
			pids = append(pids, *pid)
		}
	}
	return pids
}

func positive(s string) *int {
	n, err := strconv.Atoi(s)
	if err != nil || n <= 0 {
		return nil
	}
	return &n
}
