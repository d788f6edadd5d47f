package docker

import (
	"context"
	"slices"

	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"
)

// withoutContainerd tells whether Docker has no answer from its containerd. It says so in
// passing: its information has no commit of containerd then ("N/A" up to release 24), as it
// also has where the build of containerd has none, and its version does not list containerd
// among the components, where it lists itself (moby/moby, daemon/info_unix.go). An engine of
// another make, without containerd, does not, and what cannot be told is not held against one.
func withoutContainerd(ctx context.Context, api *client.Client, info system.Info) bool {
	if commit := info.ContainerdCommit.ID; commit != "" && commit != "N/A" {
		return false
	}
	reply, err := api.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return false
	}
	lists := func(name string) bool {
		return slices.ContainsFunc(reply.Components, func(c system.ComponentVersion) bool { return c.Name == name })
	}
	return lists("Engine") && !lists("containerd")
}
