package docker

import (
	"context"
	"slices"
	"time"

	"github.com/distribution/reference"
	"github.com/moby/moby/api/types/registry"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/heteroflow/node-agent/runtime"
)

// fetchTimeout bounds all questions about what a pull is about to fetch: the pull does not
// depend on the answers.
const fetchTimeout = 10 * time.Second

// fetch is what a pull of the image would bring.
func (r *Runtime) fetch(ctx context.Context, named reference.Named, auth *runtime.RegistryAuth) runtime.Fetch {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	var service *registry.ServiceConfig
	err := r.call(ctx, r.timeouts.Query, func(ctx context.Context, api *client.Client) error {
		reply, err := api.Info(ctx, client.InfoOptions{})
		service = reply.Info.RegistryConfig
		return err
	})
	if err != nil {
		return runtime.Fetch{Unknown: err}
	}
	layers, diffIDs, err := published(ctx, sources(named, service, auth), named)
	if err != nil {
		return runtime.Fetch{Unknown: err}
	}
	here := 0
	if len(diffIDs) == len(layers) { // else it is no image whose layers are told apart so
		if here, err = r.shared(ctx, diffIDs); err != nil {
			return runtime.Fetch{Unknown: err}
		}
	}
	var fetch runtime.Fetch
	for _, layer := range layers[here:] {
		fetch.Add(string(layer.MediaType), layer.Size)
	}
	return fetch
}

// shared counts the image's lowest layers that some local image has, too: the daemon keeps
// a layer once, for all images that have the same ones below it.
func (r *Runtime) shared(ctx context.Context, diffIDs []string) (most int, err error) {
	err = r.call(ctx, r.timeouts.Query, func(ctx context.Context, api *client.Client) error {
		images, err := api.ImageList(ctx, client.ImageListOptions{})
		if err != nil {
			return err
		}
		for _, image := range images.Items {
			reply, err := api.ImageInspect(ctx, image.ID)
			if err != nil {
				continue // removed meanwhile: its layers count as missing
			}
			most = max(most, common(reply.RootFS.Layers, diffIDs))
		}
		return ctx.Err()
	})
	return most, err
}

// common is the length of the longest common beginning.
func common(a, b []string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// containerdRoot is where containerd keeps its data unless it was told otherwise.
const containerdRoot = "/var/lib/containerd"

// imageDir is where a daemon keeps images: below its own root; with containerd's image
// store, where containerd does. Its place is not told, and so known only where its usual
// one is on the same file system.
func imageDir(info system.Info, containerdRoot string) string {
	store := slices.Contains(info.DriverStatus, [2]string{"driver-type", "io.containerd.snapshotter.v1"})
	if !store || sameFileSystem(info.DockerRootDir, containerdRoot) {
		return info.DockerRootDir
	}
	return ""
}

func sameFileSystem(a, b string) bool {
	var x, y unix.Stat_t
	return unix.Stat(a, &x) == nil && unix.Stat(b, &y) == nil && x.Dev == y.Dev
}
