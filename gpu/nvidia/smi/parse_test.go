package smi

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

func parse(t *testing.T, command string, exitCode int, output string) Result {
	t.Helper()
	res, err := Parse(text.SplitCommand(command), exitCode, []byte(output))
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestARowWithoutValuesIsTheCardThatIsNamedAboveItOrElseOneOfItsOwn(t *testing.T) {
	const row = "[Unknown Error], [Unknown Error]\n"
	const named = "Unable to determine the device handle for GPU 0000:0%s:00.0: Unknown Error\n"
	one, two := strings.Replace(named, "%s", "1", 1), strings.Replace(named, "%s", "2", 1)
	for output, want := range map[string][]*int{
		"0, NVIDIA T4\n" + row + "2, NVIDIA T4\n":                          {new(1)},
		"0, NVIDIA T4\n" + one + row + "2, NVIDIA T4\n":                    {new(1)},
		"0, NVIDIA T4\n" + one + row + two + row + "3, NVIDIA T4\n":        {new(1), new(2)},
		"0, NVIDIA T4\n" + one + two + "\n" + row + row + "3, NVIDIA T4\n": {new(1), new(2)},
		"0, NVIDIA T4\n" + one + row + row + "3, NVIDIA T4\n":              {new(1), new(2)},
		"0, NVIDIA T4\n" + row + "1, NVIDIA T4\n":                          nil, // nothing says which
	} {
		res := parse(t, "nvidia-smi --query-gpu=index,name --format=csv,noheader", 0, output)
		var got []*int
		for _, f := range res.Failures {
			got = append(got, f.Index)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", output, diff)
		}
	}
}

func TestARowOfFieldsThatNobodyReportsIsACardAllTheSame(t *testing.T) {
	for _, c := range []struct {
		name, command, output string
		cards                 int
	}{
		{"with the header that was asked for", "nvidia-smi --query-gpu=count --format=csv", "count\n2\n2\n", 2},
		{"without, of two columns", "nvidia-smi --query-gpu=pstate,clocks.sm --format=csv,noheader", "P0, 1980 MHz\nP8, [N/A]\n", 2},
		{"without, of one number", "nvidia-smi --query-gpu=memory.free --format=csv,noheader", "81001 MiB\n80123 MiB\n", 2},
		{"a line that could be anything", "nvidia-smi --query-gpu=pstate --format=csv,noheader", "Segmentation fault\n", 0},
		{"clocks that the card could have", "nvidia-smi --query-supported-clocks=gpu_name,gr --format=csv", "gpu_name, graphics [MHz]\nT4, 1 MHz\nT4, 2 MHz\n", 0},
		{"pages", "nvidia-smi --query-retired-pages=gpu_uuid,retired_pages.cause --format=csv,noheader", "GPU-1, x\n", 0},
		{"processes that have ended", "nvidia-smi --query-accounted-apps=gpu_name,pid --format=csv,noheader", "T4, 77\n", 0},
	} {
		res, err := Parse(text.SplitCommand(c.command), 0, []byte(c.output))
		if len(res.GPUs) != c.cards || len(res.Processes) != 0 || c.cards > 0 && err != nil {
			t.Errorf("%s: %+v, %v", c.name, res, err)
		}
	}
}

func TestALoopOfTheLogSaysWhatItsLastSampleSays(t *testing.T) {
	const log = "==============NVSMI LOG==============\n\nDriver Version : 575.57\nAttached GPUs : 1\n" +
		"GPU 00000000:17:00.0\n    Temperature\n        GPU Current Temp : %d C\n\n"
	const document = "<nvidia_smi_log><driver_version>575.57</driver_version><gpu id=\"00000000:17:00.0\">" +
		"<temperature><gpu_temp>%d C</gpu_temp></temperature></gpu></nvidia_smi_log>\n"
	for command, sample := range map[string]string{"nvidia-smi -q -l 1": log, "nvidia-smi -q -x -l 1": document} {
		res := parse(t, command, 0, strings.Replace(sample, "%d", "40", 1)+strings.Replace(sample, "%d", "41", 1))
		if len(res.GPUs) != 1 || res.GPUs[0].DriverVersion != "575.57" || *res.Stats[0].Temperature != 41 {
			t.Errorf("%s: %+v", command, res)
		}
	}
}

func TestACardOfXMLThatIsCutWithinItIsNotLost(t *testing.T) {
	res := parse(t, "nvidia-smi -q -x", 0, "\ufeff<?xml version=\"1.0\" ?>\r\n<nvidia_smi_log><gpu id=\"00000000:17:00.0\">"+
		"<uuid>GPU-2b</uuid><fb_memory_usage><total>81559 MiB</total><used>87 M")
	if len(res.GPUs) != 1 || res.GPUs[0].UUID != "GPU-2b" || res.Stats[0].MemoryUsed != nil {
		t.Errorf("%+v", res)
	}
}

func TestWordsInPlaceOfThePowerDoNotHideTheRestOfTheRow(t *testing.T) {
	const table = "| NVIDIA-SMI 410.104      Driver Version: 410.104      CUDA Version: 10.0     |\n" +
		"|   1  Tesla V100-SXM2...  On   | 00000000:1C:00.0 Off |   Unknown Error      |\n" +
		"| N/A   35C    P0   Unknown Error | 12MiB / 16130MiB |      7%      Default |\n"
	res := parse(t, "nvidia-smi", 0, table)
	want := []gpu.Stats{{
		Index: new(1), Temperature: new(35.0), Utilization: new(7.0), Health: gpu.HealthOK,
		MemoryUsed: new(int64(12 << 20)), MemoryTotal: new(int64(16130 << 20)),
	}}
	if diff := cmp.Diff(want, res.Stats); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestACardOfTheListThatHasNoNameIsAFailure(t *testing.T) {
	res := parse(t, "nvidia-smi -L", 0, "GPU 0: NVIDIA T4 (UUID: GPU-2b)\nGPU 1: Unknown Error (UUID: Unknown Error)\n")
	if len(res.GPUs) != 2 || len(res.Failures) != 1 || *res.Failures[0].Index != 1 {
		t.Errorf("%+v", res)
	}
}

func TestWhatTheAgentDoesNotReportIsKnownAllTheSame(t *testing.T) {
	for command, output := range map[string]string{
		"nvidia-smi nvlink -s":          "GPU 0: NVIDIA T4 (UUID: GPU-2b)\nNVML: Unable to retrieve NVLink information as all links are inActive\n",
		"docker exec x nvidia-smi -r":   "GPU 00000000:17:00.0 was successfully reset.\nAll done.\n",
		"nvidia-smi --version":          "NVIDIA-SMI version  : 580.65\nNVML version        : 580.65\n",
		"cat version.txt (of the tool)": "NVIDIA-SMI version  : 580.65\n",
		"nvidia-smi -pm 1":              "Enabled persistence mode for GPU 00000000:17:00.0.\nAll done.\n",
		"nvidia-smi conf-compute -f":    "CC status: OFF\n",
		"nvidia-smi topo -c 3":          "The following GPUs have an affinity with CPU core 3:\n0, 1\n",
		"nvidia-smi topo -i 0 -n 2":     "The following GPUs are connected to GPU 0 by a path traversing multiple PCIe switches:\n1\n",
		"nvidia-smi topo -p -i 0,1":     "Device 0 is connected to device 1 by way of multiple PCIe switches.\n",
	} {
		if res := parse(t, command, 0, output); len(res.GPUs) > 0 || res.CollectorError != nil {
			t.Errorf("%s: %+v", command, res)
		}
	}
}

func TestWordsInAValuesPlaceAreAbsentAndNeverZero(t *testing.T) {
	for _, word := range []string{
		"[N/A]", "N/A", "[Not Supported]", "[Unknown Error]", "ERR!", "[Function Not Found]",
		"[Requested functionality has been deprecated]", "[Insufficient Permissions]", "", "Unknown",
	} {
		cells := strings.Join([]string{"0", "GPU-2b", word, word, word, word, word, word, word}, ", ")
		res := parse(t, "nvidia-smi --query-gpu=index,uuid,memory.total,memory.used,power.limit,serial,mig.mode.current,pci.bus_id,driver_version --format=csv,noheader", 0, cells)
		want := gpu.Device{Index: new(0), UUID: "GPU-2b", Vendor: gpu.NVIDIA, Type: gpu.NVIDIA}
		if diff := cmp.Diff([]gpu.Device{want}, res.GPUs); diff != "" {
			t.Errorf("%q (-want +got):\n%s", word, diff)
		}
		if diff := cmp.Diff([]gpu.Stats{{Index: new(0), UUID: "GPU-2b", Health: gpu.HealthOK}}, res.Stats); diff != "" {
			t.Errorf("%q (-want +got):\n%s", word, diff)
		}
	}
}

func TestAPendingModeIsNotTheModeNow(t *testing.T) {
	const fields = "index,uuid,mig.mode.current,mig.mode.pending"
	for cells, want := range map[string]string{
		"Enabled, Disabled": "enabled", "Disabled, Enabled": "disabled", "[N/A], Enabled": "", "Something, Enabled": "",
	} {
		res := parse(t, "nvidia-smi --query-gpu="+fields+" --format=csv,noheader", 0, "0, GPU-2b, "+cells)
		if got := res.GPUs[0].MIGMode; got != want {
			t.Errorf("%s: %q, want %q", cells, got, want)
		}
	}
}

func TestTheDriversOwnVerdictDecidesOverReadings(t *testing.T) {
	for word, want := range map[string]struct{ health, code string }{
		"None":             {gpu.HealthOK, ""},
		"[N/A]":            {gpu.HealthOK, ""},
		"Drain P2P":        {gpu.HealthWarning, ""},
		"GPU Reset":        {gpu.HealthFailed, "reset_required"},
		"Reset":            {gpu.HealthFailed, "reset_required"},
		"Drain and Reset":  {gpu.HealthFailed, "reset_required"},
		"Node Reboot":      {gpu.HealthFailed, "reboot_required"},
		"Of A Later Drive": {gpu.HealthWarning, ""},
	} {
		res := parse(t, "nvidia-smi --query-gpu=index,uuid,temperature.gpu,gpu_recovery_action --format=csv,noheader", 0,
			"0, GPU-2b, 40, "+word)
		code := ""
		if len(res.Failures) > 0 {
			code = res.Failures[0].Code
		}
		if got := res.Stats[0].Health; got != want.health || code != want.code {
			t.Errorf("%s: health %q, failure %q", word, got, code)
		}
		if acquitted := len(res.NoAction) == 1; acquitted != (word == "None") {
			t.Errorf("%s: needs no action: %v", word, acquitted)
		}
	}
}

func TestADriverBeforeTheRecoveryActionSaysWhetherAResetIsRequired(t *testing.T) {
	const log = "==============NVSMI LOG==============\n\nAttached GPUs : 1\nGPU 00000000:01:00.0\n" +
		"    GPU Reset Status\n        Reset Required : "
	res := parse(t, "nvidia-smi -q", 0, log+"Yes\n")
	want := []gpu.Failure{{Index: new(0), BusID: "0000:01:00.0", Code: "reset_required", Message: "GPU requires reset"}}
	if diff := cmp.Diff(want, res.Failures); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if res = parse(t, "nvidia-smi -q", 0, log+"No\n"); len(res.Failures) > 0 || res.Stats[0].Health != gpu.HealthOK {
		t.Errorf("none is required: %+v", res)
	}
}

func TestColumnsOfAQueryAreFoundByNameWhereverTheyStand(t *testing.T) {
	want := parse(t, "nvidia-smi --query-gpu=index,uuid,temperature.gpu --format=csv", 0,
		"index, uuid, temperature.gpu\n0, GPU-2b, 40\n")
	for name, c := range map[string][2]string{
		"a header over a wrong command":  {"nvidia-smi --query-gpu=name,serial --format=csv", "index, uuid, temperature.gpu\n0, GPU-2b, 40"},
		"no command":                     {"", "temperature.gpu, index, uuid\n40, 0, GPU-2b"},
		"unknown columns around":         {"", "clocks.next [MHz], index, a.b, uuid, temperature.gpu, z\n1 MHz, 0, , GPU-2b, 40, [N/A]"},
		"no header":                      {"nvidia-smi --query-gpu=uuid,index,temperature.gpu --format=csv,noheader", "GPU-2b, 0, 40"},
		"the list as a word of its own":  {"nvidia-smi --query-gpu uuid,index,temperature.gpu --format csv,noheader", "GPU-2b, 0, 40"},
		"old names":                      {"", "index, gpu_uuid, temperature.gpu\n0, GPU-2b, 40"},
		"line ends of Windows":           {"", "index, uuid, temperature.gpu\r\n\r\n0, GPU-2b, 40\r\n"},
		"two samples of a loop":          {"nvidia-smi --query-gpu=index,uuid,temperature.gpu -l 1", "index, uuid, temperature.gpu\n0, GPU-2b, 39\n0, GPU-2b, 40\n"},
		"elided fields":                  {"nvidia-smi --query-gpu=index,uuid,...,temperature.gpu", "0, GPU-2b, P0, Default, 40"},
		"through docker":                 {"docker run --rm img nvidia-smi --query-gpu=index,uuid,temperature.gpu", "0, GPU-2b, 40"},
		"a pasted prompt":                {"bash", "$ nvidia-smi --query-gpu=index,uuid,temperature.gpu --format=csv,noheader\n0, GPU-2b, 40"},
		"a warning nobody knows, before": {"", "Warning: something\nindex, uuid, temperature.gpu\n0, GPU-2b, 40"},
	} {
		if diff := cmp.Diff(want, parse(t, c[0], 0, c[1])); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestAnAddressInPartsIsPutTogether(t *testing.T) {
	for cells, want := range map[string]string{
		"0x17, 0x00, 0x0002": "0002:17:00.0", "0x17, 0x00, [N/A]": "0000:17:00.0", "[N/A], 0x00, 0x0002": "",
	} {
		res := parse(t, "nvidia-smi --query-gpu=index,pci.bus,pci.device,pci.domain --format=csv,noheader", 0, "3, "+cells)
		if got := res.GPUs[0].BusID; got != want {
			t.Errorf("%s: %q, want %q", cells, got, want)
		}
	}
}

func TestALogThatWasIndentedAsAWholeIsRead(t *testing.T) {
	log := string(read(t, "log-mig.txt"))
	want := parse(t, "nvidia-smi -q", 0, log)
	if diff := cmp.Diff(want, parse(t, "nvidia-smi -q", 0, "    "+strings.ReplaceAll(log, "\n", "\n    "))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestARowThatDoesNotFitItsColumnsIsNoCard(t *testing.T) {
	for _, rows := range []string{"0, GPU-2b, 40, 50, 60", "0, GPU-2b\n1, GPU-2c, 40, 50"} {
		res, err := Parse(
			text.SplitCommand("nvidia-smi --query-gpu=index,uuid,temperature.gpu,power.draw --format=csv,noheader"), 0, []byte(rows))
		if (err == nil) != (len(res.GPUs) > 0) {
			t.Errorf("%q: %d cards, error %v", rows, len(res.GPUs), err)
		}
		for _, d := range res.GPUs {
			if d.UUID == "GPU-2b" {
				t.Errorf("%q: %+v", rows, d)
			}
		}
	}
}

func TestALogOfSamplesSaysWhatItsLastSampleSays(t *testing.T) {
	const card = "GPU 0: NVIDIA T4 (UUID: GPU-2b)\n"
	const failed = "Failed to initialize NVML: Unknown Error\n"
	if res := parse(t, "nvidia-smi -L", 0, card+card+failed); len(res.GPUs) != 0 || res.CollectorError == nil {
		t.Errorf("failed at last: %+v", res)
	}
	if res := parse(t, "nvidia-smi -L", 0, failed+card+card); len(res.GPUs) != 1 || res.CollectorError != nil {
		t.Errorf("well at last: %+v", res)
	}
}

func TestACutTextIsReadAsFarAsItGoes(t *testing.T) {
	for _, name := range []string{"table-580.txt", "log-mig.txt", "log.xml"} {
		whole := parse(t, outputs[name], 0, string(read(t, name)))
		output := read(t, name)
		for cut := 0; cut < len(output); cut += 41 {
			res, err := Parse(text.SplitCommand(outputs[name]), 0, output[:cut])
			if err != nil {
				continue
			}
			for i, d := range res.GPUs {
				if i >= len(whole.GPUs) || d.BusID != whole.GPUs[i].BusID {
					t.Fatalf("%s cut at %d: card %+v", name, cut, d)
				}
			}
		}
	}
}
