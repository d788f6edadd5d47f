package executor_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/runtimefake"
)

func login(password protocol.Secret) *protocol.RegistryAuth {
	return &protocol.RegistryAuth{Username: "u", Password: password}
}

func withLogin(password protocol.Secret) func(*protocol.Task) {
	return func(t *protocol.Task) { t.RegistryAuth = login(password) }
}

func TestRefusedCredentialsAreReadAnewOnce(t *testing.T) {
	cases := map[string]struct {
		now   *protocol.RegistryAuth // that the task has by the time of the pull
		pulls int
		want  ending
	}{
		"and tried when there are others":     {login("new"), 2, ending{protocol.StatusCompleted, protocol.ReasonExited, 0, false}},
		"and given up when they are as bad":   {login("bad"), 2, ending{protocol.StatusFailed, protocol.ReasonRegistryDenied, -1, false}},
		"and given up when they are the same": {login("old"), 1, ending{protocol.StatusFailed, protocol.ReasonRegistryDenied, -1, false}},
		"and given up when there are none":    {nil, 1, ending{protocol.StatusFailed, protocol.ReasonRegistryDenied, -1, false}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			onNode(t, func(n *node) {
				n.daemon.Publish(image, runtimefake.Published{Wants: "new"})
				n.atMoments(func() { // from the claim on
					if n.plane.status("1") == protocol.StatusRunning {
						n.plane.set("1", func(task *protocol.Task) { task.RegistryAuth = tc.now })
					}
				})
				n.plane.add("1", image, withLogin("old"))
				n.ends(time.Minute, "1", tc.want.Status)
				if diff := cmp.Diff(tc.want, endingOf(t, n.plane.updates("1", over...))); diff != "" {
					t.Error(diff)
				}
				if got := n.daemon.Pulls(image); got != tc.pulls {
					t.Errorf("%d pulls, want %d", got, tc.pulls)
				}
			})
		})
	}
}

func TestCredentialsGoToTheRegistryTheyAreForAlone(t *testing.T) {
	const hubImage = "docker.io/team/app:v1"
	completed := ending{protocol.StatusCompleted, protocol.ReasonExited, 0, false}
	refused := ending{protocol.StatusFailed, protocol.ReasonRegistryDenied, -1, false}
	cases := map[string]struct {
		image, server, wants string
		want                 ending
	}{
		"for no registry in particular":             {image, "", "own", completed},
		"for the image's":                           {image, "registry.example", "own", completed},
		"for it in other letters and as a URL":      {image, "https://Registry.example/v2/", "own", completed},
		"for another":                               {image, "other.example", "own", refused},
		"for another port of its host":              {image, "registry.example:5000", "own", refused},
		"for one whose name begins with it":         {image, "registry.example.com", "own", refused},
		"for another, and the image is for all":     {image, "other.example", "", completed},
		"for Docker Hub":                            {hubImage, "docker.io", "own", completed},
		"for Docker Hub as Docker's own files have": {hubImage, "https://index.docker.io/v1/", "own", completed},
		"for Docker Hub, and the image is not":      {image, "docker.io", "own", refused},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			onNode(t, func(n *node) {
				n.daemon.Publish(tc.image, runtimefake.Published{Wants: tc.wants})
				n.plane.add("1", tc.image, withLogin("own"), func(task *protocol.Task) { task.RegistryAuth.Server = tc.server })
				n.ends(time.Minute, "1", tc.want.Status)
				updates := n.plane.updates("1", over...)
				if diff := cmp.Diff(tc.want, endingOf(t, updates)); diff != "" {
					t.Error(diff)
				}
				if says := strings.Contains(updates[0].ErrorMessage, "registry_auth is for"); says != (tc.want == refused) {
					t.Errorf("the reason is told as %q", updates[0].ErrorMessage)
				}
			})
		})
	}
}

func TestAPrivateImageOnTheNodeIsForTheTasksOfItsTenant(t *testing.T) {
	for _, tenants := range []bool{true, false} {
		onNode(t, func(n *node) {
			n.tenants = tenants
			n.restart()
			n.daemon.Publish(image, runtimefake.Published{Wants: "own"})
			n.plane.add("owner", image, withLogin("own"))
			n.ends(time.Minute, "owner", protocol.StatusCompleted)
			stranger := protocol.StatusCompleted
			if tenants {
				stranger = protocol.StatusFailed
			}
			n.plane.add("stranger", image)
			n.ends(time.Minute, "stranger", stranger)
			n.plane.add("second", image, withLogin("own"))
			n.ends(time.Minute, "second", protocol.StatusCompleted)
			if tenants {
				want := ending{protocol.StatusFailed, protocol.ReasonRegistryDenied, -1, false}
				if diff := cmp.Diff(want, endingOf(t, n.plane.updates("stranger", over...))); diff != "" {
					t.Error(diff)
				}
			}
			if got := n.daemon.Pulls(image); got != 1 {
				t.Errorf("%d pulls, want 1", got)
			}
		})
	}
}

func TestATaskDoesNotStartOnAnImageThatNoRegistryConfirms(t *testing.T) {
	onNode(t, func(n *node) {
		n.tenants = true
		n.restart()
		n.daemon.AddImage(image, runtimefake.Program{})
		n.daemon.Publish(image, runtimefake.Published{Err: runtime.ErrRegistryUnavailable})
		n.plane.add("1", image)
		n.ends(10*time.Minute, "1", protocol.StatusFailed)
		want := ending{protocol.StatusFailed, protocol.ReasonImagePullFailed, -1, false}
		updates := n.plane.updates("1", over...)
		if diff := cmp.Diff(want, endingOf(t, updates)); diff != "" {
			t.Error(diff)
		}
		if words := updates[0].ErrorMessage; !strings.Contains(words, "registry unavailable") || !strings.Contains(words, "is on the node") {
			t.Errorf("the reason is told as %q", words)
		}
		if n.starts("1", "1") != 0 {
			t.Error("it was started")
		}
	})
}

func TestAnImageThatSomebodyRemovesBeforeItsContainerIsMadeIsPulledAgain(t *testing.T) {
	cases := map[string]struct {
		prunes int
		pulls  int
		want   ending
	}{
		"once":                  {1, 2, ending{protocol.StatusCompleted, protocol.ReasonExited, 0, false}},
		"twice":                 {2, 3, ending{protocol.StatusCompleted, protocol.ReasonExited, 0, false}},
		"each time it is there": {1000, 3, ending{protocol.StatusFailed, protocol.ReasonStartFailed, -1, false}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			onNode(t, func(n *node) {
				n.daemon.Publish(image, runtimefake.Published{})
				var prunes, seen int
				n.atMoments(func() { // each of a call to the runtime, and many more
					if pulls := n.daemon.Pulls(image); prunes < tc.prunes && pulls > seen && n.daemon.RemoveImage(image) {
						prunes, seen = prunes+1, pulls
					}
				})
				n.plane.add("1", image)
				n.ends(time.Minute, "1", tc.want.Status)
				if diff := cmp.Diff(tc.want, endingOf(t, n.plane.updates("1", over...))); diff != "" {
					t.Error(diff)
				}
				if got := n.daemon.Pulls(image); got != tc.pulls {
					t.Errorf("%d pulls, want %d", got, tc.pulls)
				}
			})
		})
	}
}

func TestTasksThatNameOneImageDifferentlyShareItsPull(t *testing.T) {
	onNode(t, func(n *node) {
		n.daemon.Publish("ubuntu", runtimefake.Published{Takes: time.Minute})
		for i, name := range []string{"ubuntu", "ubuntu:latest", "docker.io/ubuntu", "docker.io/library/ubuntu:latest"} {
			n.plane.add(strconv.Itoa(i), name)
		}
		for i := range 4 {
			n.ends(5*time.Minute, strconv.Itoa(i), protocol.StatusCompleted)
		}
		if got := n.daemon.Pulls("ubuntu"); got != 1 {
			t.Errorf("%d pulls", got)
		}
	})
}
