package runtime_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/runtime"
)

func TestLayersAddUpWhateverARegistrySays(t *testing.T) {
	const (
		gzip   = "application/vnd.oci.image.layer.v1.tar+gzip"
		zstd   = "application/vnd.oci.image.layer.v1.tar+zstd"
		docker = "application/vnd.docker.image.rootfs.diff.tar.gzip"
		plain  = "application/vnd.oci.image.layer.v1.tar"
	)
	type layer struct {
		mediaType string
		bytes     int64
	}
	cases := map[string]struct {
		layers []layer
		want   runtime.Fetch
	}{
		"nothing":                  {nil, runtime.Fetch{}},
		"compressed ones":          {[]layer{{gzip, 1}, {zstd, 2}, {docker, 4}}, runtime.Fetch{Layers: 3, PackedBytes: 7}},
		"one that is not":          {[]layer{{gzip, 1}, {plain, 2}}, runtime.Fetch{Layers: 2, PackedBytes: 3, PlainBytes: 2}},
		"a negative size":          {[]layer{{gzip, 5}, {gzip, math.MinInt64}}, runtime.Fetch{Layers: 2, PackedBytes: 5}},
		"more than can be counted": {[]layer{{plain, math.MaxInt64}, {plain, 1}}, runtime.Fetch{Layers: 2, PackedBytes: math.MaxInt64, PlainBytes: math.MaxInt64}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got runtime.Fetch
			for _, l := range tc.layers {
				got.Add(l.mediaType, l.bytes)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
