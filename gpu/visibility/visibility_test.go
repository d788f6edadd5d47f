package visibility

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/gpu"
)

func TestTheEnvironmentTellsRuntimesNothingAndProcessesEverything(t *testing.T) {
	none := []string{
		"NVIDIA_VISIBLE_DEVICES=void", "ASCEND_VISIBLE_DEVICES=void", "HCU_VISIBLE_DEVICES=void",
		"CAMBRICON_VISIBLE_DEVICES=", "MTHREADS_VISIBLE_DEVICES=", "IX_VISIBLE_DEVICES=", "ENFLAME_VISIBLE_DEVICES=", "BIREN_VISIBLE_DEVICES=",
	}
	cases := map[string]struct {
		given map[gpu.Vendor]int
		want  []string // beside none
	}{
		"no device":              {nil, nil},
		"two of NVIDIA":          {map[gpu.Vendor]int{gpu.NVIDIA: 2}, []string{"CUDA_VISIBLE_DEVICES=0,1"}},
		"one of Ascend":          {map[gpu.Vendor]int{gpu.Ascend: 1}, []string{"ASCEND_RT_VISIBLE_DEVICES=0"}},
		"one of Hygon":           {map[gpu.Vendor]int{gpu.Hygon: 1}, []string{"HIP_VISIBLE_DEVICES=0", "ROCR_VISIBLE_DEVICES=0"}},
		"one of Cambricon":       {map[gpu.Vendor]int{gpu.Cambricon: 1}, []string{"MLU_VISIBLE_DEVICES=0"}},
		"one of Kunlunxin":       {map[gpu.Vendor]int{gpu.Kunlun: 1}, []string{"CUDA_VISIBLE_DEVICES=0", "XPU_VISIBLE_DEVICES=0"}},
		"one of Moore Threads":   {map[gpu.Vendor]int{gpu.MUSA: 1}, []string{"MUSA_VISIBLE_DEVICES=0"}},
		"one of Iluvatar":        {map[gpu.Vendor]int{gpu.Iluvatar: 1}, []string{"CUDA_VISIBLE_DEVICES=0"}},
		"three of MetaX":         {map[gpu.Vendor]int{gpu.MetaX: 3}, []string{"CUDA_VISIBLE_DEVICES=0,1,2", "MACA_VISIBLE_DEVICES=0,1,2"}},
		"one of Enflame":         {map[gpu.Vendor]int{gpu.Enflame: 1}, []string{"TOPS_VISIBLE_DEVICES=0"}},
		"one of Biren":           {map[gpu.Vendor]int{gpu.Biren: 1}, nil},
		"two vendors that share": {map[gpu.Vendor]int{gpu.NVIDIA: 1, gpu.Iluvatar: 2}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			want := map[string]bool{}
			for _, kv := range append(tc.want, none...) {
				want[kv] = true
			}
			got := map[string]bool{}
			for _, kv := range Env(tc.given) {
				got[kv] = true
				if name, _, _ := strings.Cut(kv, "="); !Chooses(name) {
					t.Errorf("%s could be set by a task, too", name)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	for _, name := range []string{"PATH", "", "VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"} {
		if Chooses(name) {
			t.Errorf("%q counts as a visibility variable", name)
		}
	}
}
