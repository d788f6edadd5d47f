package smi

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

func TestAToolThatFailsAsAWholeIsACollectorErrorWithItsOwnWords(t *testing.T) {
	for words, code := range map[string]string{
		"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure …":    "driver_not_loaded",
		"NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure …":          "library_not_found",
		"Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.90":     "lib_rm_version_mismatch",
		"Failed to initialize NVML: Unknown Error":                                                     "nvml_unknown",
		"Failed to initialize NVML: N/A\nFailed to properly shut down NVML: N/A":                       "nvml_unknown",
		"Failed to initialize NVML: GPU access blocked by the operating system":                        "operating_system_blocked",
		"Failed to initialize NVML: Insufficient Permissions":                                          "no_permission",
		"Failed to initialize NVML: No supported GPUs were found\nUnable to determine the number of …": "gpu_not_found",
		"Failed to initialize NVML: Something Of The Future":                                           "something_of_the_future",
		"No devices were found": "no_devices",
		"Field \"mig.mode.current\" is not a valid field to query.":                                CodeInvalidField,
		"nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown":       "driver_not_loaded",
		"Mismatch in versions between nvidia-smi and NVML.\nAre you sure you are using nvidia-smi": "smi_nvml_mismatch",
		"Failed to display compute instances: Insufficient Permissions":                            "no_permission",
		"No GPU instances found: Insufficient Permissions":                                         "no_permission",
		"nvidia-smi: error while loading shared libraries: libnvidia-ml.so.1: cannot open …":       "library_not_found",
		"bash: nvidia-smi: command not found":                                                      "not_installed",
		"'nvidia-smi' is not recognized as an internal or external command,":                       "not_installed",
		"NVIDIA-SMI has failed because you do not have sufficient permission …":                    "no_permission",
		"bash: /usr/bin/nvidia-smi: Permission denied":                                             "no_permission",
		"Not supported on the device(s)\nFailed to process command line":                           "not_supported",
		"Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.":             CodeInvalidArgument,
		"ERROR: Option --query-nothing is not recognized. Please run 'nvidia-smi -h'.":             CodeInvalidArgument,
	} {
		t.Run(words, func(t *testing.T) {
			for _, exit := range []int{0, 9, 255} {
				res := parse(t, "nvidia-smi", exit, words+"\n")
				first, _, _ := strings.Cut(words, "\n")
				want := &gpu.CollectorError{Code: code, Message: first}
				if diff := cmp.Diff(want, res.CollectorError); diff != "" {
					t.Errorf("exit status %d (-want +got):\n%s", exit, diff)
				}
				if len(res.GPUs)+len(res.Failures) > 0 {
					t.Errorf("cards of %q", words)
				}
			}
		})
	}
}

func TestTheExitStatusCountsOnlyWhereTheTextSaysNothing(t *testing.T) {
	if res := parse(t, "nvidia-smi", 9, ""); res.CollectorError == nil || res.CollectorError.Code != "driver_not_loaded" {
		t.Errorf("silent failure: %v", res.CollectorError)
	}
	if res := parse(t, "nvidia-smi", 127, "未找到命令"); res.CollectorError == nil || res.CollectorError.Code != "not_installed" {
		t.Errorf("the shell's words in another language: %v", res.CollectorError)
	}
	row := "0, GPU-1f, NVIDIA T4, 31\n"
	res := parse(t, "nvidia-smi --query-gpu=index,uuid,name,temperature.gpu --format=csv,noheader", 14, row)
	if res.CollectorError != nil || len(res.GPUs) != 1 {
		t.Errorf("valid row with status 14: %+v", res)
	}
	for _, words := range []string{"", "Segmentation fault", "some, text, with, commas", "+---+\n| a |\n+---+"} {
		for _, command := range []string{"nvidia-smi", "nvidia-smi -q -x", "nvidia-smi --query-gpu=name --format=csv,noheader"} {
			if res, err := Parse(text.SplitCommand(command), 139, []byte(words)); err == nil && (words != "" || len(res.GPUs) > 0) {
				t.Errorf("%s: %q is understood", command, words)
			}
		}
	}
}

func TestAHandleErrorBlamesItsCardInEveryFormThatDriversPrint(t *testing.T) {
	const why = "Unable to determine the device handle for "
	for _, c := range []struct {
		name, command, line string
		want                gpu.Failure
	}{
		{
			"blank before the address", "nvidia-smi", why + "GPU 0000:0C:00.0: Unknown Error",
			gpu.Failure{BusID: "0000:0c:00.0", Code: "handle_unknown_error"},
		},
		{
			"lower case in -L", "nvidia-smi -L", why + "gpu 0000:01:00.0: Not Found",
			gpu.Failure{BusID: "0000:01:00.0", Code: "handle_not_found"},
		},
		{
			"address glued", "nvidia-smi", why + "GPU0000:91:00.0: GPU is lost.  Reboot the system to recover this GPU",
			gpu.Failure{BusID: "0000:91:00.0", Code: "gpu_lost"},
		},
		{
			"index and address", "nvidia-smi", why + "GPU11: 0000:84:00.0: GPU requires reset",
			gpu.Failure{Index: new(11), BusID: "0000:84:00.0", Code: "reset_required"},
		},
		{
			"index alone", "nvidia-smi", why + "GPU3: Unknown Error",
			gpu.Failure{Index: new(3), Code: "handle_unknown_error"},
		},
		{
			"eight digits of domain", "nvidia-smi", why + "GPU 0000000F:01:00.0: Timeout",
			gpu.Failure{BusID: "000f:01:00.0", Code: "handle_timeout"},
		},
		{
			"the card that -i selects", "nvidia-smi -q -i 5", why + "GPU 0000:09:00.0: Unknown Error",
			gpu.Failure{Index: new(5), BusID: "0000:09:00.0", Code: "handle_unknown_error"},
		},
		{
			"another reading", "nvidia-smi", "Unable to determine the product name of GPU 0000:09:00.0: Unknown Error",
			gpu.Failure{BusID: "0000:09:00.0", Code: "handle_unknown_error"},
		},
		{
			"nvidia-smi of Windows", "nvidia-smi.exe", "Unable to detect the device handle for GPU0000:B1:00.0: Unknown Error",
			gpu.Failure{BusID: "0000:b1:00.0", Code: "handle_unknown_error"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.want.Message = c.line
			res := parse(t, c.command, 0, c.line+"\n")
			if diff := cmp.Diff([]gpu.Failure{c.want}, res.Failures); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if res.CollectorError != nil || len(res.GPUs) > 0 {
				t.Errorf("more than the failure: %+v", res)
			}
		})
	}
}

func TestAMessageOfSeveralLinesIsToldWithAllOfThem(t *testing.T) {
	for code, lines := range map[string]string{
		"insufficient_power": "NVIDIA: could not open the device file /dev/nvidia2 (Input/output error).\n" +
			"Unable to determine the device handle for GPU 0000:42:00.0: Unable to communicate with GPU because it is insufficiently powered.\n" +
			"This may be because not all required external power cables are\n" +
			"attached, or the attached cables are not seated properly.",
		"interrupt_issue": "Unable to determine the device handle for GPU 0000:42:00.0: The NVIDIA kernel\n" +
			"module detected an issue with GPU interrupts.Consult the \"Common Problems\"\n" +
			"Chapter of the NVIDIA Driver README for\ndetails and steps that can be taken to resolve this issue.",
	} {
		res := parse(t, "nvidia-smi", 8, lines+"\n")
		want := []gpu.Failure{{BusID: "0000:42:00.0", Code: code, Message: lines}}
		if diff := cmp.Diff(want, res.Failures); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestTheAnswerToACommandDoesNotHideTheCardsBelowIt(t *testing.T) {
	res := parse(t, "bash", 0, "All done.\nGPU 0: NVIDIA T4 (UUID: GPU-2b)\n")
	if len(res.GPUs) != 1 {
		t.Errorf("%+v", res)
	}
}

func TestAnErrorOfACardThatNothingNamesIsTheCollectorsWhenItStandsAlone(t *testing.T) {
	const line = "Unable to determine the device handle for GPU: Unknown Error"
	if res := parse(t, "nvidia-smi", 0, line); res.CollectorError == nil || len(res.Failures) > 0 {
		t.Errorf("alone: %+v", res)
	}
	res := parse(t, "nvidia-smi", 255, "Unable to determine the device handle for GPU 000:BA:80.0: Unknown Error\n")
	if e := res.CollectorError; e == nil || e.Code != "handle_unknown_error" {
		t.Errorf("an address that is none: %+v", res)
	}
	command := "nvidia-smi --query-gpu=index,name --format=csv,noheader"
	res = parse(t, command, 0, "0, NVIDIA T4\n[Unknown Error], [Unknown Error]\n")
	if res.CollectorError != nil || len(res.GPUs) != 1 {
		t.Errorf("a row without values beside a card: %+v", res)
	}
	res = parse(t, command, 0, "[Unknown Error], [Unknown Error]\n")
	if res.CollectorError == nil || len(res.GPUs) != 0 {
		t.Errorf("a row without values alone: %+v", res)
	}
}

func TestALostCardIsNumberedOnlyWhereItsNeighboursLeaveOneNumber(t *testing.T) {
	const lost = "Unable to determine the device handle for GPU 0000:0%s:00.0: Unknown Error\n"
	at := func(bus string) string { return strings.Replace(lost, "%s", bus, 1) }
	row := func(i string) string { return i + ", NVIDIA T4\n" }
	for _, c := range []struct {
		name, output string
		want         []*int
	}{
		{"one between two", row("0") + at("2") + row("2"), []*int{new(1)}},
		{"two between two", row("3") + at("2") + at("3") + row("6"), []*int{new(4), new(5)}},
		{"one in a gap of two", row("0") + at("2") + row("3"), []*int{nil}},
		{"at the end", row("0") + at("2"), []*int{nil}},
		{"at the beginning", at("2") + row("1"), []*int{nil}},
		{"where the numbers have closed up", row("0") + at("2") + row("1"), []*int{nil}},
	} {
		t.Run(c.name, func(t *testing.T) {
			res := parse(t, "nvidia-smi --query-gpu=index,name --format=csv,noheader", 0, c.output)
			var got []*int
			for _, f := range res.Failures {
				got = append(got, f.Index)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestNoDevicesAfterTheErrorOfTheOnlyOneIsThatCardsFailure(t *testing.T) {
	res := parse(t, "nvidia-smi", 6,
		"Unable to determine the device handle for GPU0000:01:00.0: Unknown Error\nNo devices were found\n")
	if res.CollectorError != nil || len(res.Failures) != 1 || res.Failures[0].BusID != "0000:01:00.0" {
		t.Errorf("%+v", res)
	}
}

func TestTheNameOfAProcessIsNoErrorOfTheTool(t *testing.T) {
	const name = "sh -c nvml error: Unknown Error, couldn't communicate with the NVIDIA driver"
	log := strings.Replace(string(read(t, "log-mig.txt")), "/usr/bin/render: scene 4", name, 1)
	res := parse(t, "nvidia-smi -q", 0, log)
	if res.CollectorError != nil || len(res.GPUs) != 2 || res.Processes[0].Name != name {
		t.Errorf("%+v", res)
	}
}

func TestAFailedListingOfInstancesSaysNothingAgainstTheCards(t *testing.T) {
	res := parse(t, "nvidia-smi -L; nvidia-smi mig -lci", 4,
		"GPU 0: NVIDIA T4 (UUID: GPU-2b)\nFailed to display compute instances: Insufficient Permissions\n")
	if res.CollectorError != nil || len(res.GPUs) != 1 {
		t.Errorf("%+v", res)
	}
}

func TestACorruptedInfoROMIsAWarningOfItsCard(t *testing.T) {
	res := parse(t, "nvidia-smi --query-gpu=index,uuid,pci.bus_id,name --format=csv,noheader", 14,
		"WARNING: infoROM is corrupted at gpu 0000:3B:00.0\n0, GPU-4c, 00000000:3B:00.0, Tesla T4\n")
	want := gpu.Failure{
		Index: new(0), UUID: "GPU-4c", BusID: "0000:3b:00.0", Code: "inforom_corrupted",
		Message: "WARNING: infoROM is corrupted at gpu 0000:3B:00.0",
	}
	if diff := cmp.Diff([]gpu.Failure{want}, res.Failures); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if res.Stats[0].Health != gpu.HealthWarning {
		t.Errorf("health %q", res.Stats[0].Health)
	}
}
