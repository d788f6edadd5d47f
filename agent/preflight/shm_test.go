package preflight_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/heteroflow/node-agent/agent/lease"
	"github.com/heteroflow/node-agent/agent/preflight"
	"github.com/heteroflow/node-agent/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
)

// onCards is a task that asks for so many cards.
func onCards(n int, kind protocol.TaskType, image string, change ...func(*protocol.Task)) protocol.Task {
	t := protocol.Task{ID: "1", Type: kind, Image: image}
	for i := range n {
		t.Devices = append(t.Devices, protocol.TaskDevice{Index: new(i)})
	}
	for _, f := range change {
		f(&t)
	}
	return t
}

func TestATaskGetsTheSharedMemoryItsWorkNeeds(t *testing.T) {
	const host, private = protocol.IPCHost, protocol.IPCPrivate
	shm := func(bytes int64) func(*protocol.Task) { return func(t *protocol.Task) { t.ShmSizeBytes = bytes } }
	ipc := func(mode protocol.IPCMode) func(*protocol.Task) { return func(t *protocol.Task) { t.IPC = mode } }
	engine := func(name string) func(*protocol.Task) { return func(t *protocol.Task) { t.Engine = name } }
	memory := func(bytes int64) func(*protocol.Task) { return func(t *protocol.Task) { t.MemoryBytes = bytes } }
	cases := map[string]struct {
		task    protocol.Task
		hostShm bool
		want    preflight.Shm
	}{
		"a batch task gets the default":                                   {onCards(0, "", "app"), false, preflight.Shm{IPC: private}},
		"one with cards, too":                                             {onCards(4, protocol.TaskBatch, "app"), false, preflight.Shm{IPC: private}},
		"a batch task in an engine's image, too":                          {onCards(4, "", "vllm/vllm-openai:v1"), false, preflight.Shm{IPC: private}},
		"inference on one card, too":                                      {onCards(1, protocol.TaskInference, "app"), false, preflight.Shm{IPC: private}},
		"inference on several cards gets room":                            {onCards(2, protocol.TaskInference, "app"), false, preflight.Shm{IPC: private, Bytes: 10 * gib}},
		"training on a card gets room":                                    {onCards(1, protocol.TaskTraining, "app"), false, preflight.Shm{IPC: private, Bytes: 10 * gib}},
		"training without a card gets the default":                        {onCards(0, protocol.TaskTraining, "app"), false, preflight.Shm{IPC: private}},
		"room is within the memory limit":                                 {onCards(8, protocol.TaskTraining, "app", memory(4*gib)), false, preflight.Shm{IPC: private, Bytes: 4 * gib}},
		"training in an engine's image is not that engine":                {onCards(2, protocol.TaskTraining, "vllm/vllm-openai:v1"), false, preflight.Shm{IPC: private, Bytes: 10 * gib}},
		"vllm gets the host's":                                            {onCards(4, protocol.TaskInference, "vllm/vllm-openai:v0.9"), false, preflight.Shm{IPC: host, HostBytes: gib}},
		"on one card it needs less":                                       {onCards(1, protocol.TaskInference, "vllm/vllm-openai:v0.9"), false, preflight.Shm{IPC: host, HostBytes: 128 * mib}},
		"a fork of a vendor's, on a registry with a port":                 {onCards(2, protocol.TaskInference, "quay.example:5000/ascend/vllm-ascend:v1"), false, preflight.Shm{IPC: host, HostBytes: gib}},
		"one with an underscore":                                          {onCards(2, protocol.TaskInference, "r.example/vllm_musa@sha256:"+strings.Repeat("0", 64)), false, preflight.Shm{IPC: host, HostBytes: gib}},
		"an engine named in the tag alone":                                {onCards(2, protocol.TaskInference, "r.example/serve:24.08-sglang-py3"), false, preflight.Shm{IPC: host, HostBytes: gib}},
		"triton with vllm in it is triton":                                {onCards(2, protocol.TaskInference, "nvcr.example/nvidia/tritonserver:24.08-vllm-py3"), false, preflight.Shm{IPC: private, Bytes: 10 * gib}},
		"xllm is not vllm":                                                {onCards(2, protocol.TaskInference, "r.example/xllm:v1"), false, preflight.Shm{IPC: private, Bytes: 128 * gib}},
		"a registry's name is no engine":                                  {onCards(1, protocol.TaskInference, "vllm.example/app:v1"), false, preflight.Shm{IPC: private}},
		"a longer word is no engine":                                      {onCards(1, protocol.TaskInference, "r.example/myvllms:v1"), false, preflight.Shm{IPC: private}},
		"the engine the task names decides":                               {onCards(2, "", "r.example/own-build:v1", engine("SGLang")), false, preflight.Shm{IPC: host, HostBytes: gib}},
		"an engine nobody knows is none":                                  {onCards(1, protocol.TaskInference, "vllm/vllm-openai:v1", engine("other")), false, preflight.Shm{IPC: private}},
		"tgi's documents ask for a gigabyte of its own":                   {onCards(2, protocol.TaskInference, "ghcr.io/huggingface/text-generation-inference:3"), false, preflight.Shm{IPC: private, Bytes: gib}},
		"the task's own size stands":                                      {onCards(4, protocol.TaskInference, "vllm/vllm-openai:v1", shm(2*gib)), false, preflight.Shm{IPC: private, Bytes: 2 * gib}},
		"ipc private stands, with the engine's size":                      {onCards(4, protocol.TaskInference, "vllm/vllm-openai:v1", ipc(private)), false, preflight.Shm{IPC: private, Bytes: 10 * gib}},
		"ipc host stands, and an unknown program needs nobody knows what": {onCards(4, protocol.TaskBatch, "app", ipc(host)), false, preflight.Shm{IPC: host}},
		"ipc host of an engine that has its own by itself":                {onCards(2, protocol.TaskInference, "r.example/xllm:v1", ipc(host)), false, preflight.Shm{IPC: host, HostBytes: gib}},
		"ipc host and a size are left for the check of the spec":          {onCards(2, protocol.TaskBatch, "app", ipc(host), shm(mib)), false, preflight.Shm{IPC: host, Bytes: mib}},
		"with the host's in any case a size means nothing":                {onCards(1, protocol.TaskBatch, "app", shm(gib)), true, preflight.Shm{IPC: private}},
		"and an engine needs its part of that":                            {onCards(2, protocol.TaskInference, "vllm/vllm-openai:v1"), true, preflight.Shm{IPC: private, HostBytes: gib}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := preflight.ShmFor(tc.task, tc.hostShm)
			if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreUnexported(preflight.Shm{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAHostWithTooLittleSharedMemoryIsToldWithTheNumbers(t *testing.T) {
	vllm := preflight.ShmFor(onCards(4, protocol.TaskInference, "vllm/vllm-openai:v1"), false)
	own := preflight.ShmFor(onCards(4, protocol.TaskTraining, "app"), false)
	promised := func(bytes, free int64) preflight.Promised { return preflight.Promised{Bytes: bytes, Free: free} }
	cases := map[string]struct {
		shm    preflight.Shm
		free   int64
		others preflight.Promised
		want   []string // nothing: it is not refused
	}{
		"just too little":                      {vllm, gib - 1, promised(0, 0), []string{"vllm on 4 card(s)", "1.0 GiB", "1073741824", "1023 MiB", "1073741823", "are free: remove", "shm_size_bytes"}},
		"nothing at all":                       {vllm, 0, promised(0, 0), []string{"0 MiB (0 bytes)"}},
		"just enough":                          {vllm, gib, promised(0, 0), nil},
		"work that does not need it":           {own, 0, promised(0, 0), nil},
		"all of it is promised":                {vllm, gib, promised(gib, gib), []string{"1.0 GiB (1073741824 bytes) are free", "1.0 GiB (1073741824 bytes) of these for tasks"}},
		"enough beside what is promised":       {vllm, 3 * gib, promised(2*gib, 3*gib), nil},
		"a byte too little beside it":          {vllm, 3*gib - 1, promised(2*gib, 3*gib-1), []string{"2.0 GiB (2147483648 bytes) of these"}},
		"what was promised is taken":           {vllm, gib, promised(2*gib, 3*gib), nil},
		"half of it is":                        {vllm, 2 * gib, promised(2*gib, 3*gib), nil},
		"others have taken more than promised": {vllm, gib, promised(gib, 9*gib), nil},
		"others have freed some":               {vllm, 2 * gib, promised(gib, gib), nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := tc.shm.Check(preflight.Space{Bytes: tc.free}, tc.others)
			if len(tc.want) == 0 {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			if _, ok := errors.AsType[*preflight.ShmError](err); !ok {
				t.Fatalf("got %v, want a ShmError", err)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
}

func TestSharedMemoryIsPromisedOnce(t *testing.T) {
	var book preflight.Promises
	need := preflight.ShmFor(onCards(4, protocol.TaskInference, "vllm/vllm-openai:v1"), false)
	task := func(id string) lease.Owner { return lease.Owner{TaskID: id, Generation: 1} }
	free := preflight.Space{Bytes: 2 * need.HostBytes}
	steps := []struct {
		what    string
		do      func() error
		refused bool
	}{
		{"the first", func() error { return book.Make(task("a"), need, free) }, false},
		{"the first once more", func() error { return book.Make(task("a"), need, free) }, false},
		{"the second", func() error { return book.Make(task("b"), need, free) }, false},
		{"a third, for which nothing is left", func() error { return book.Make(task("c"), need, free) }, true},
		{"the third when the end of another is told", func() error { book.End(task("x")); return book.Make(task("c"), need, free) }, true},
		{"the third when one has ended", func() error { book.End(task("a")); return book.Make(task("c"), need, free) }, false},
		{"a fourth when one has taken its own and as much was freed", func() error { return book.Make(task("d"), need, free) }, true},
		{"a fourth when there is room beside all promises", func() error {
			return book.Make(task("d"), need, preflight.Space{Bytes: 3 * need.HostBytes})
		}, false},
	}
	for _, s := range steps {
		err := s.do()
		if _, refused := errors.AsType[*preflight.ShmError](err); refused != s.refused || err != nil && !refused {
			t.Fatalf("%s: %v", s.what, err)
		}
	}
}
