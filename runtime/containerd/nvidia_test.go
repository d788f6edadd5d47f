package containerd_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/heteroflow/node-agent/runtime"
	testdaemon "github.com/heteroflow/node-agent/test/daemon"
	"github.com/heteroflow/node-agent/test/workload/report"
)

// TestNVIDIAsRuntimeAddsNothingToWhatATaskWasGiven configures the real
// nvidia-container-runtime as the OCI runtime, which by itself gives a container what
// the image's NVIDIA_VISIBLE_DEVICES asks for.
func TestNVIDIAsRuntimeAddsNothingToWhatATaskWasGiven(t *testing.T) {
	f := flavours()[0]
	f.oci = testdaemon.RequireProgram(t, "nvidia-container-runtime", "make nvidia, and .tools on the path")
	x := setUp(t, f)
	void := []string{"NVIDIA_VISIBLE_DEVICES=void"}
	for name, devices := range map[string][]runtime.Device{
		"a task with a card":    {{HostPath: "/dev/null", Path: "/dev/nvidia0", Permissions: "rw"}},
		"a task without a card": nil,
	} {
		t.Run(name, func(t *testing.T) {
			spec := x.spec("print-devices")
			spec.Env, spec.Devices = void, devices
			id := x.run(t, spec)
			if exit, err := x.Wait(t.Context(), id); err != nil || exit.Code == nil || *exit.Code != 0 {
				t.Fatalf("it ends with %+v, %v", exit, err)
			}
			out, err := x.Logs(t.Context(), id, runtime.LogOptions{TailBytes: 1 << 20})
			if err != nil {
				t.Fatal(err)
			}
			var seen report.Devices
			if err := json.Unmarshal(out, &seen); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			has := slices.ContainsFunc(seen.Nodes, func(n report.Node) bool { return n.Path == "/dev/nvidia0" })
			if has != (devices != nil) {
				t.Errorf("the container sees %s", out)
			}
		})
	}
}
