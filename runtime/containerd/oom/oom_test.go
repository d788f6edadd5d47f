package oom_test

import (
	"testing"

	cgroup1 "github.com/containerd/cgroups/v3/cgroup1/stats"
	cgroup2 "github.com/containerd/cgroups/v3/cgroup2/stats"
	"github.com/containerd/typeurl/v2"

	"github.com/heteroflow/node-agent/runtime/containerd/oom"
)

func TestKillsAreReadFromBothCgroupVersions(t *testing.T) {
	cases := map[string]struct {
		metrics any
		want    uint64
		fails   bool
	}{
		"cgroup v1":                        {metrics: &cgroup1.Metrics{MemoryOomControl: &cgroup1.MemoryOomControl{OomKill: 2}}, want: 2},
		"cgroup v2":                        {metrics: &cgroup2.Metrics{MemoryEvents: &cgroup2.MemoryEvents{OomKill: 3, Oom: 9}}, want: 3},
		"no kill":                          {metrics: &cgroup2.Metrics{MemoryEvents: &cgroup2.MemoryEvents{}}},
		"v1 without the memory controller": {metrics: &cgroup1.Metrics{}, fails: true},
		"v2 without the memory controller": {metrics: &cgroup2.Metrics{}, fails: true},
		"another type":                     {metrics: &cgroup2.MemoryEvents{}, fails: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			encoded, err := typeurl.MarshalAny(tc.metrics)
			if err != nil {
				t.Fatal(err)
			}
			got, err := oom.Kills(encoded)
			if got != tc.want || (err != nil) != tc.fails {
				t.Errorf("got %d, %v, want %d", got, err, tc.want)
			}
		})
	}
	if _, err := oom.Kills(nil); err == nil {
		t.Error("no metrics at all: no error")
	}
}
