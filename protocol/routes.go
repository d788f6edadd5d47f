package protocol

import (
	"net/url"
	"strconv"
	"strings"
)

// Headers of the protocol.
const (
	HeaderAPIKey         = "X-API-Key"         // the system key, in every request of an agent
	HeaderChecksumMD5    = "X-Checksum-MD5"    // of a distributed file, hexadecimal
	HeaderChecksumSHA256 = "X-Checksum-SHA256" // of a distributed file, hexadecimal
)

// Paths without parameters.
const (
	TasksPath       = "/api/v1/tasks"
	HeartbeatPath   = "/api/v1/agent/heartbeat"
	WakePath        = "/api/v1/agent/wake"
	StaticAgentPath = "/static/agent"
)

// InstallScripts lists the scripts a control plane serves at its root.
func InstallScripts() []string {
	return []string{"install-agent.sh", "update-agent-quick.sh", "update-agent-force.sh", "deploy-agent-all-in-one.sh"}
}

// Names of query parameters.
const (
	QueryNodeID = "node_id"
	QueryStatus = "status"
	QueryLimit  = "limit"
	QueryCursor = "cursor"
	QueryWait   = "wait"
	QueryArch   = "arch"
)

// TaskPath is the path of one task.
func TaskPath(id string) string { return TasksPath + "/" + segment(id) }

// CheckpointResumePath is where the decision of a checkpoint probe goes.
func CheckpointResumePath(id string) string { return TaskPath(id) + "/checkpoint-resume" }

// RequestsPath is the list of an instruction channel.
func RequestsPath(c Channel) string { return "/api/v1/agent/" + string(c) + "-requests" }

// RequestPath is one request of an instruction channel.
func RequestPath(c Channel, id string) string { return RequestsPath(c) + "/" + segment(id) }

// MaxListLimit is the largest limit a list may be asked for.
const MaxListLimit = 200

// TasksQuery is the query of the task list. The server refuses one without a
// node and a status.
func TasksQuery(nodeID string, limit int, statuses ...TaskStatus) url.Values {
	words := make([]string, len(statuses))
	for i, s := range statuses {
		words[i] = string(s)
	}
	return url.Values{
		QueryNodeID: {nodeID},
		QueryStatus: {strings.Join(words, ",")},
		QueryLimit:  {strconv.Itoa(limit)},
	}
}

// RequestsQuery is the query of a request list.
func RequestsQuery(nodeID string, limit int, status RequestStatus) url.Values {
	return url.Values{
		QueryNodeID: {nodeID},
		QueryStatus: {string(status)},
		QueryLimit:  {strconv.Itoa(limit)},
	}
}

// WakeQuery is the query of the held request. wait is in whole seconds.
func WakeQuery(nodeID, cursor string, waitSeconds int) url.Values {
	return url.Values{
		QueryNodeID: {nodeID},
		QueryCursor: {cursor},
		QueryWait:   {strconv.Itoa(waitSeconds)},
	}
}

// segment escapes an identifier into one path segment. An empty one, . and ..
// would name another resource (the list, the parent): they become -, which no
// valid identifier is, so that the server refuses them.
func segment(id string) string {
	switch id {
	case "", ".", "..":
		return "-"
	default:
		return url.PathEscape(id)
	}
}
