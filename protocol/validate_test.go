package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func validTask() Task {
	return Task{ID: "t1", Status: StatusScheduled, NodeID: "node-1", Generation: 1, Image: "busybox:1.36"}
}

func fullTask() Task {
	t := validTask()
	t.Type = TaskInference
	t.RegistryAuth = &RegistryAuth{Username: "u", Password: "p"}
	t.Command, t.Args = []string{"/bin/sh"}, []string{"-c", "true\n"}
	t.Env = []string{"A=1", "BARE", "B="}
	t.WorkingDir, t.User = "/work", "1000:1000"
	t.Volumes = []Volume{{HostPath: "/data", ContainerPath: "/data"}, {HostPath: "/data", ContainerPath: "/d2", ReadOnly: true}}
	t.Network = NetworkBridge
	t.Ports = []Port{{ContainerPort: 80, HostPort: 8080}, {ContainerPort: 80, HostPort: 8080, Protocol: ProtocolUDP}}
	t.CPUs, t.MemoryBytes, t.PIDsLimit, t.ShmSizeBytes, t.IPC = 1.5, 1<<30, 512, 1<<26, IPCPrivate
	t.Devices = []TaskDevice{{Vendor: DeviceNVIDIA, Index: new(0)}, {Vendor: DeviceNVIDIA, UUID: "GPU-1"}}
	t.Slices = []TaskSlice{
		{Kind: SliceNVIDIAMIG, UUID: "MIG-1"},
		{Kind: SliceNVIDIAMPS, Index: new(0), ThreadPercentage: new(50), MemoryLimitBytes: new(int64(1 << 30))},
		{Kind: SliceHygonHAMi, Index: new(0), VDevID: new(0)},
	}
	t.TimeoutSeconds, t.StopGraceSeconds = 60, new(int64(0))
	t.HealthCheck = &HealthCheck{Type: HealthHTTP, Path: "/health", Port: 80}
	t.CheckpointPath, t.Model = "/checkpoint", &TaskModel{Path: "/models/m", Format: "new-format"}
	t.Labels = map[string]string{"team": "a"}
	return t
}

func TestAGoodTaskPasses(t *testing.T) {
	for name, task := range map[string]Task{"the smallest": validTask(), "every field": fullTask()} {
		if err := task.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEachBadFieldIsNamed(t *testing.T) {
	long := strings.Repeat("x", MaxStringBytes+1)
	for name, c := range map[string]struct {
		change func(*Task)
		want   []string
	}{
		"an id that starts with a dot":         {func(t *Task) { t.ID = ".." }, []string{"id"}},
		"an id of 64 bytes":                    {func(t *Task) { t.ID = strings.Repeat("a", 64) }, []string{"id"}},
		"an empty id":                          {func(t *Task) { t.ID = "" }, []string{"id"}},
		"an id with a newline":                 {func(t *Task) { t.ID = "a\n" }, []string{"id"}},
		"an id beyond ASCII":                   {func(t *Task) { t.ID = "tâche" }, []string{"id"}},
		"no status":                            {func(t *Task) { t.Status = "" }, []string{"status"}},
		"an unknown status":                    {func(t *Task) { t.Status = "paused" }, []string{"status"}},
		"an unknown type":                      {func(t *Task) { t.Type = "game" }, []string{"type"}},
		"a node id with a slash":               {func(t *Task) { t.NodeID = "a/b" }, []string{"node_id"}},
		"a negative generation":                {func(t *Task) { t.Generation = -1 }, []string{"generation"}},
		"no image":                             {func(t *Task) { t.Image = " " }, []string{"image"}},
		"a long image":                         {func(t *Task) { t.Image = long }, []string{"image"}},
		"a newline in the image":               {func(t *Task) { t.Image = "a\nb" }, []string{"image"}},
		"password and token":                   {func(t *Task) { t.RegistryAuth = &RegistryAuth{Username: "u", Password: "p", IdentityToken: "t"} }, []string{"registry_auth"}},
		"password without a user":              {func(t *Task) { t.RegistryAuth = &RegistryAuth{Password: "p"} }, []string{"registry_auth.username"}},
		"a NUL in an env entry":                {func(t *Task) { t.Env = []string{"A=1", "BARE", "B=\x00"} }, []string{"env[2]"}},
		"an env entry without a name":          {func(t *Task) { t.Env = []string{"=x"} }, []string{"env[0]"}},
		"too many env entries":                 {func(t *Task) { t.Env = make([]string, MaxStrings+1) }, []string{"env"}},
		"a NUL in an argument":                 {func(t *Task) { t.Args = []string{"\x00"} }, []string{"args[0]"}},
		"a long argument":                      {func(t *Task) { t.Args = []string{long} }, []string{"args[0]"}},
		"an empty command":                     {func(t *Task) { t.Command = []string{""} }, []string{"command[0]"}},
		"a relative working directory":         {func(t *Task) { t.WorkingDir = "w" }, []string{"working_dir"}},
		"a relative container path":            {func(t *Task) { t.Volumes = []Volume{{"/a", "b", false}} }, []string{"volumes[0].container_path"}},
		"a container path that climbs":         {func(t *Task) { t.Volumes = []Volume{{"/a", "/b/../c", false}} }, []string{"volumes[0].container_path"}},
		"the container's root":                 {func(t *Task) { t.Volumes = []Volume{{"/a", "/", false}} }, []string{"volumes[0].container_path"}},
		"the same container path twice":        {func(t *Task) { t.Volumes = []Volume{{"/a", "/b", false}, {"/c", "/b", true}} }, []string{"volumes[1].container_path"}},
		"a host path with a line break":        {func(t *Task) { t.Volumes = []Volume{{"/data\n/etc", "/b", false}} }, []string{"volumes[0].host_path"}},
		"a volume without paths":               {func(t *Task) { t.Volumes = []Volume{{}} }, []string{"volumes[0].host_path", "volumes[0].container_path"}},
		"too many volumes":                     {func(t *Task) { t.Volumes = make([]Volume, MaxVolumes+1) }, []string{"volumes"}},
		"an unknown network":                   {func(t *Task) { t.Network = "mesh" }, []string{"network"}},
		"ports without a network":              {func(t *Task) { t.Network, t.Ports = NetworkNone, []Port{{ContainerPort: 1, HostPort: 1}} }, []string{"ports"}},
		"container port 0":                     {func(t *Task) { t.Ports = []Port{{HostPort: 1}} }, []string{"ports[0].container_port"}},
		"host port 65536":                      {func(t *Task) { t.Ports = []Port{{ContainerPort: 1, HostPort: 65536}} }, []string{"ports[0].host_port"}},
		"no host port":                         {func(t *Task) { t.Ports = []Port{{ContainerPort: 1}} }, []string{"ports[0].host_port"}},
		"a negative host port":                 {func(t *Task) { t.Ports = []Port{{ContainerPort: 1, HostPort: -1}} }, []string{"ports[0].host_port"}},
		"one host port twice, once by default": {func(t *Task) { t.Ports = []Port{{1, 80, ""}, {2, 80, "tcp"}} }, []string{"ports[1].host_port"}},
		"an unknown transport":                 {func(t *Task) { t.Ports = []Port{{1, 80, "sctp"}} }, []string{"ports[0].protocol"}},
		"CPUs that are not a number":           {func(t *Task) { t.CPUs = math.NaN() }, []string{"cpus"}},
		"negative sizes":                       {func(t *Task) { t.MemoryBytes, t.ShmSizeBytes, t.PIDsLimit, t.CPUs = -1, -1, -1, -1 }, []string{"cpus", "memory_bytes", "pids_limit", "shm_size_bytes"}},
		"an unknown ipc":                       {func(t *Task) { t.IPC = "shareable" }, []string{"ipc"}},
		"a timeout that overflows":             {func(t *Task) { t.TimeoutSeconds = math.MaxInt64 }, []string{"timeout_seconds"}},
		"a negative timeout":                   {func(t *Task) { t.TimeoutSeconds = -1 }, []string{"timeout_seconds"}},
		"a long grace":                         {func(t *Task) { t.StopGraceSeconds = new(int64(3601)) }, []string{"stop_grace_seconds"}},
		"a device without a name":              {func(t *Task) { t.Devices = []TaskDevice{{}} }, []string{"devices[0]"}},
		"a negative device":                    {func(t *Task) { t.Devices = []TaskDevice{{Index: new(-1)}} }, []string{"devices[0].index"}},
		"one device twice":                     {func(t *Task) { t.Devices = []TaskDevice{{Index: new(1)}, {Index: new(1), UUID: "x"}} }, []string{"devices[1]"}},
		"an unknown vendor":                    {func(t *Task) { t.Devices = []TaskDevice{{Vendor: "acme", Index: new(1)}} }, []string{"devices[0].vendor"}},
		"a slice without a kind":               {func(t *Task) { t.Slices = []TaskSlice{{}} }, []string{"slices[0].kind"}},
		"an unknown kind of slice":             {func(t *Task) { t.Slices = []TaskSlice{{Kind: "x"}} }, []string{"slices[0].kind"}},
		"a MIG slice with a card's uuid":       {func(t *Task) { t.Slices = []TaskSlice{{Kind: SliceNVIDIAMIG, UUID: "GPU-1"}} }, []string{"slices[0].uuid"}},
		"an MPS slice of 101 %":                {func(t *Task) { t.Slices = []TaskSlice{{Kind: SliceNVIDIAMPS, ThreadPercentage: new(101)}} }, []string{"slices[0].index", "slices[0].thread_percentage"}},
		"a HAMi slice without its number":      {func(t *Task) { t.Slices = []TaskSlice{{Kind: SliceHygonHAMi, Index: new(0)}} }, []string{"slices[0].vdev_id"}},
		"a health check of nothing":            {func(t *Task) { t.HealthCheck = &HealthCheck{} }, []string{"health_check.type", "health_check.port"}},
		"a health check of another host":       {func(t *Task) { t.HealthCheck = &HealthCheck{Type: HealthHTTP, Port: 80, Path: "@evil/"} }, []string{"health_check.path"}},
		"a relative checkpoint path":           {func(t *Task) { t.CheckpointPath = "ck" }, []string{"checkpoint_path"}},
		"a relative model path":                {func(t *Task) { t.Model = &TaskModel{Path: "m"} }, []string{"model.path"}},
		"a label of the agent":                 {func(t *Task) { t.Labels = map[string]string{"io.heteroflow.task-id": "other"} }, []string{"labels[io.heteroflow.task-id]"}},
		"a label without a name":               {func(t *Task) { t.Labels = map[string]string{"": "x"} }, []string{"labels[]"}},
	} {
		t.Run(name, func(t *testing.T) {
			task := validTask()
			c.change(&task)
			var got []string
			for _, fe := range FieldErrors(task.Validate()) {
				got = append(got, fe.Field)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("fields (-want +got):\n%s\n%v", diff, task.Validate())
			}
		})
	}
}

func TestAllProblemsComeTogetherAndSurviveWrapping(t *testing.T) {
	task := Task{ID: "/", Env: []string{"\x00"}, MemoryBytes: -1}
	err := fmt.Errorf("check task: %w", task.Validate())
	if got := len(FieldErrors(err)); got != 5 {
		t.Errorf("got %d problems, want 5 (id, status, image, env[0], memory_bytes): %v", got, err)
	}
	if fe, ok := errors.AsType[FieldError](err); !ok || fe.Field != "id" {
		t.Errorf("the first FieldError is %v", fe)
	}
	if FieldErrors(nil) != nil {
		t.Error("problems without an error")
	}
}

func TestProblemsNeverShowSecrets(t *testing.T) {
	task := validTask()
	task.Env = []string{"TOKEN=" + marker + "\x00"}
	task.RegistryAuth = &RegistryAuth{Password: marker + "\n", IdentityToken: marker + "\x00"}
	if err := task.Validate(); err == nil || strings.Contains(err.Error(), marker) {
		t.Errorf("got %v", err)
	}
}

func FuzzTaskFromOutsideNeverPanics(f *testing.F) {
	full, err := json.Marshal(fullTask())
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{string(full), `{}`, `null`, `[]`, `{"id":"a","env":null,"labels":{"":"\u0000"}}`, `{"devices":[{"index":-9223372036854775808}]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var task Task
		if json.Unmarshal(data, &task) != nil {
			return
		}
		if err := task.Validate(); err != nil {
			if len(FieldErrors(err)) == 0 {
				t.Errorf("an error without a field: %v", err)
			}
			return
		}
		// What passed is bounded, so it survives another trip over the wire.
		again, err := json.Marshal(task)
		if err != nil {
			t.Fatal(err)
		}
		var back Task
		if err := json.Unmarshal(again, &back); err != nil {
			t.Fatal(err)
		}
		if err := back.Validate(); err != nil {
			t.Errorf("valid before the wire, not after: %v", err)
		}
	})
}

func TestAnyTaskValidatesWithoutPanic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		task := rapid.Make[Task]().Draw(t, "task")
		err := task.Validate()
		if err != nil && len(FieldErrors(err)) == 0 {
			t.Errorf("an error without a field: %v", err)
		}
	})
}

// Every list and text of a Task is bounded: a field that is added later and
// forgotten in Validate fails here.
func TestEveryTextFieldOfATaskIsBounded(t *testing.T) {
	huge := strings.Repeat("x", 1<<20)
	typ := reflect.TypeFor[Task]()
	for i := range typ.NumField() {
		task := validTask()
		field := reflect.ValueOf(&task).Elem().Field(i)
		switch {
		case field.Kind() == reflect.String:
			field.SetString(huge)
		case field.Kind() == reflect.Slice:
			field.Set(reflect.MakeSlice(field.Type(), 1<<16, 1<<16))
		default:
			continue
		}
		if task.Validate() == nil {
			t.Errorf("%s may be of any size", typ.Field(i).Name)
		}
	}
}
