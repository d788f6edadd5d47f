package e2e

import (
	"strings"
	"testing"

	"github.com/heteroflow/node-agent/devserver"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
)

// A private image is on the node because the task of one tenant fetched it.
func TestAPrivateImageOnTheNodeIsForWhoCouldPullIt(t *testing.T) {
	onEachRuntime(t, "", func(t *testing.T, on runtime.Name) {
		ofTenants(t, on, "pull.trust_node_cache=false", protocol.StatusFailed)
	})
}

func TestAPrivateImageOnATrustedNodeIsForAll(t *testing.T) {
	ofTenants(t, runtime.Docker, "pull.trust_node_cache=true", protocol.StatusCompleted)
}

// ofTenants runs tasks of one private image on a node with the setting, one after another. A
// stranger's ends as the last argument says.
func ofTenants(t *testing.T, on runtime.Name, setting string, strangers protocol.TaskStatus) {
	t.Helper()
	ref := noise(t, 1<<10)
	w := newWorldOn(t, on, devserver.Features{}, setting)
	w.Start()
	own := w.Images.Auth()
	wrong := &protocol.RegistryAuth{Username: own.Username, Password: "not-the-password"}
	for _, tc := range []struct {
		task string
		auth *protocol.RegistryAuth
		ends protocol.TaskStatus
	}{
		{"fetches-it", own, protocol.StatusCompleted},
		{"has-no-credentials", nil, strangers},
		{"has-wrong-ones", wrong, strangers},
		{"has-those-it-needs", own, protocol.StatusCompleted},
	} {
		task := w.Task(w.Agent.NodeID+"-"+tc.task, "exit", "0")
		task.Image, task.RegistryAuth = ref, tc.auth
		w.Submit(task)
		end := w.Reaches(task.ID, tc.ends).Outcome
		refused := end.Reason == protocol.ReasonRegistryDenied && strings.Contains(end.ErrorMessage, "is on the node") && end.StartedAt == nil
		if tc.ends == protocol.StatusFailed && !refused {
			t.Errorf("%s: it ended with %s: %s", tc.task, end.Reason, end.ErrorMessage)
		}
		w.Gone(task.ID)
	}
	if log := w.Agent.Log(); strings.Contains(log, own.Password.Reveal()) || strings.Contains(log, wrong.Password.Reveal()) {
		t.Error("the log has a password")
	}
}
