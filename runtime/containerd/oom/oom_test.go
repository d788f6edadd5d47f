package oom_test

import (
	"testing"

	cgroup1 "github.com/containerd/cgroups/v3/cgroup1/stats"
	cgroup2 "github.com/containerd/cgroups/v3/cgroup2/stats"
	"github.com/containerd/typeurl/v2"
	"google.golang.org/protobuf/proto"

	"github.com/heteroflow/node-agent/runtime/containerd/oom"
)

func TestKillsAreReadFromBothCgroupVersions(t *testing.T) {
	cases := map[string]struct {
		metrics any
		want    uint64
		fails   bool
	}{
		"cgroup v1": {metrics: &cgroup1.Metrics{
			CPU: &cgroup1.CPUStat{Usage: &cgroup1.CPUUsage{Total: 7}}, Memory: &cgroup1.MemoryStat{Cache: 8},
			MemoryOomControl: &cgroup1.MemoryOomControl{OomKillDisable: 5, UnderOom: 6, OomKill: 2},
		}, want: 2},
		"cgroup v2": {metrics: &cgroup2.Metrics{
			Memory: &cgroup2.MemoryStat{Anon: 8}, MemoryEvents: &cgroup2.MemoryEvents{OomKill: 3, Oom: 9, OomGroupKill: 1},
		}, want: 3},
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
			for _, prefix := range []string{"", "type.googleapis.com/"} {
				got, err := oom.Kills(prefix+encoded.GetTypeUrl(), encoded.GetValue())
				if got != tc.want || (err != nil) != tc.fails {
					t.Errorf("%q: got %d, %v, want %d", prefix, got, err, tc.want)
				}
			}
		})
	}
	if _, err := oom.Kills("", nil); err == nil {
		t.Error("no metrics at all: no error")
	}
}

// What the generated types can decode is read as they read it, whatever else there is.
func FuzzKills(f *testing.F) {
	for _, seed := range []proto.Message{
		&cgroup1.Metrics{MemoryOomControl: &cgroup1.MemoryOomControl{OomKill: 2}},
		&cgroup2.Metrics{MemoryEvents: &cgroup2.MemoryEvents{Oom: 1, OomKill: 3}},
	} {
		data, err := proto.Marshal(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(append(data, data...)) // merged
	}
	f.Add([]byte{0x4a, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		var v1 cgroup1.Metrics
		got, err := oom.Kills("io.containerd.cgroups.v1.Metrics", data)
		if proto.Unmarshal(data, &v1) == nil {
			agree(t, got, err, v1.MemoryOomControl != nil, v1.GetMemoryOomControl().GetOomKill())
		}
		var v2 cgroup2.Metrics
		got, err = oom.Kills("io.containerd.cgroups.v2.Metrics", data)
		if proto.Unmarshal(data, &v2) == nil {
			agree(t, got, err, v2.MemoryEvents != nil, v2.GetMemoryEvents().GetOomKill())
		}
	})
}

func agree(t *testing.T, got uint64, err error, told bool, want uint64) {
	t.Helper()
	if got != want || (err == nil) != told {
		t.Errorf("got %d, %v, want %d, told %v", got, err, want, told)
	}
}
