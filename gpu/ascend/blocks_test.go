package ascend

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/gpu/corpus"
	"github.com/heteroflow/node-agent/gpu/text"
)

// What the queries of one card say, generation by generation.
func TestAQueryOfOneCardSaysWhatItPrintsAndNoMore(t *testing.T) {
	for _, c := range []struct{ name, command, out, want string }{
		{
			"the memory of a 310 is called just memory", "info -t usages -i 4",
			"\tNPU ID : 4\n\tChip Count : 1\n\n\tMemory Capacity(MB) : 7759\n\tMemory Usage Rate(%) : 8\n" +
				"\tHugepages Total(page) : 969\n\tAicore Usage Rate(%) : 3\n\tMemory Bandwidth Usage Rate(%) : 1\n\tChip ID : 0",
			"0: card 4 chip 0 total=7759 util=3",
		},
		{
			"of a 310B the usable memory counts, as in the table", "info -t memory -i 0",
			"\tNPU ID : 0\n\tChip Count : 1\n\n\tTotal Capacity(MB) : 12288\n\tCapacity(MB) : 10810\n\tClock Speed(MHz) : 3200\n\tChip ID : 0",
			"0: card 0 chip 0 total=10810",
		},
		{
			"of a 310P, too", "info -t memory -i 1 -c 0",
			"\tTotal DDR Capacity(MB) : 24576\n\tDDR Capacity(MB) : 21534\n\tDDR Clock Speed(MHz) : 4266",
			"0: card 1 chip 0 total=21534",
		},
		{
			"a flash is no memory", "info -t flash -i 0",
			"\tNPU ID : 0\n\tChip Count : 1\n\n\tFlash Count : 1\n\n\tFlash ID : 0\n\tCapacity(MB) : 64\n\tChip ID : 0",
			"0: card 0 chip 0",
		},
		{
			"the sensors of the board are not the chip's", "info -t temp -i 0",
			"\tNPU ID : 0\n\tChip Count : 1\n\n\tNPU Temperature (C) : 39\n\tChip ID : 0\n\n" +
				"\tLM75A_TE (C) : 36\n\tLM75B_TE (C) : 37\n\tChip Name : MCU",
			"0: card 0 chip 0 temp=39",
		},
		{
			"a measured value is enough to tell the form", "info -t temp -i 5 -c 1",
			"\tTemperature (C)                : 62", "0: card 5 chip 1 temp=62",
		},
		{
			"of the board's own power, as a 310P has only that, the card is told", "info -t power -i 5",
			"\tNPU ID : 5\n\tChip Count : 2\n\n\tPower Dissipation(W) : 41.2\n\tChip Name : mcu",
			"0: card 5 power=41.2",
		},
		{
			"rated power is not measured power", "info -t common -i 1",
			"\tNPU ID : 1\n\tChip Count : 1\n\n\tChip ID : 0\n\tMemory Usage Rate(%) : 8\n\tAicore Usage Rate(%) : 2\n" +
				"\tTemperature(C) : 46\n\tRated Power Dissipation(W) : 12.8\n\n\tChip Name : MCU\n\tTemperature(C) : 40\n\tPower Dissipation(W) : 32.8",
			"0: card 1 chip 0 util=2 temp=46",
		},
		{
			"the board of a chip", "info -t board -i 0 -c 0",
			"\tNPU ID : 0\n\tChip ID : 0\n\tChip Type : Ascend\n\tChip Name : 910B9\n\tVDie ID : 51948214 21303A22 82D7F1A3\n" +
				"\tNDie ID : 00000000 00000000 00000000\n\tPCIe Bus Info : 0000:C1:00.0\n\tFirmware Version : 7.3.0",
			"0: card 0 chip 0 model=910B9 bus=0000:c1:00.0 uuid=51948214-21303A22-82D7F1A3 firmware=7.3.0",
		},
		{
			"the die of a 310 follows its version", "info -t board -i 0 -c 1",
			"\tNPU ID : 0\n\tChip ID : 1\n\tChip Name : 310\n\tDie ID : V100, 0A948214 21303A22",
			"0: card 0 chip 1 model=310 uuid=0A948214-21303A22",
		},
		{
			"a die of zeros is unknown", "info -t board -i 0 -c 1",
			"\tNPU ID : 0\n\tChip ID : 1\n\tChip Name : 310P9\n\tDie ID : 00000000 00000000", "0: card 0 chip 1 model=310P9",
		},
		{
			"the Mcu is no NPU", "info -t board -i 0 -c 1",
			"\tNPU ID : 0\n\tChip ID : 1\n\tChip Name : mcu\n\tBoard ID : 0x00\n\tFirmware Version : 24.15.19", "",
		},
		{
			"a physical id is the number of the node", "info -t phyid-remap -p 5",
			"\tChip Phy-ID : 5\n\tNPU ID : 2\n\tChip ID : 1", "0: card 2 chip 1 minor 5",
		},
		{
			"what has no place here still tells that the chip is there", "info -t hccs -i 2 -c 0",
			"\thccs health status             : OK\n\thccs lane mode                 : [4 4 4 4 ]", "0: card 2 chip 0",
		},
		{
			"a multi-chip card closes its blocks with the chip", "info -t proc-mem -i 3",
			"\tNPU ID : 3\n\tChip Count : 2\n\n\tProcess id:4711 Process name:python3 -m x    Process memory(MB):512\n" +
				"\tProcess id:4712  Process name:   Process memory(MB):8\n\tChip ID : 0\n\n\tProcess id:4713 Process memory(MB):16\n\tChip ID : 1",
			"0: card 3 chip 0\n1: card 3 chip 1\nprocess on 0 4711 python3 -m x used=512\n" +
				"process on 0 4712  used=8\nprocess on 1 4713  used=16",
		},
		{
			"a chip without processes", "info -t proc-mem -i 3",
			"\tNPU ID : 3\n\tChip Count : 2\n\n\tNo process in device.\n\tChip ID : 0\n\n" +
				"\tProcess id:4713 Process name:a Process memory(MB):16\n\tChip ID : 1",
			"0: card 3 chip 0\n1: card 3 chip 1\nprocess on 1 4713 a used=16",
		},
		{
			"answers that name no card, one after the other", "info -t health -i $i -c 0",
			"\tHealth Status : OK\n\tError Code : NA\n\tError Information : NA\n\tHealth Status : Alarm\n\tError Code : 80E01801\n" +
				"\tError Information : node type=SoC\n\tHealth Status : OK\n\tError Code : NA",
			"0: chip 0 health=ok\n1: chip 0 health=failed (Alarm)\n2: chip 0 health=ok\n" +
				"failure 1 health_alarm: health Alarm: node type=SoC (error code 80E01801)",
		},
		{
			"several queries of one chip, one after the other", "info -t usages -i 2; npu-smi info -t temp -i 2",
			"\tNPU ID : 2\n\tChip Count : 1\n\n\tHBM Capacity(MB) : 65536\n\tAicore Usage Rate(%) : 6\n\tChip ID : 0\n" +
				"\tNPU ID : 2\n\tChip Count : 1\n\n\tNPU Temperature (C) : 44\n\tChip ID : 0",
			"0: card 2 chip 0 total=65536 util=6 temp=44",
		},
		{
			"a chip whose number is not told is a chip all the same", "info -t common -i 6",
			"\tNPU ID : 6\n\tChip Count : 2\n\n\tChip ID : 0\n\tTemperature(C) : 45\n\n\tChip ID : NA\n\tTemperature(C) : 47",
			"0: card 6 chip 0 temp=45\n1: card 6 temp=47",
		},
		{
			"the use of the AI cores is not the chip's where that has a line", "info -t usages -i 0",
			"NPU ID : 0\nHBM Capacity(MB) : 86016\nAicore Usage Rate(%) : 4\nNPU Utilization(%) : NA", "0: card 0 chip 0 total=86016",
		},
		{"only that chip", "info -t proc-mem -i 3 -c 1", "\tNo process in device.", "0: card 3 chip 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := Parse(text.SplitCommand("npu-smi "+c.command), 0, []byte(c.out+"\n"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, corpus.Brief(p)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// No words of the tool about itself make a card, and each is told as an error.
func TestErrorsOnStdoutAreErrors(t *testing.T) {
	for _, c := range []struct{ command, out, want string }{
		{"info", "Failed to get device type.\nFailed to query card total info.", CodeCardQuery},
		{
			"info", "| npu-smi 24.1.0  Version: 24.1.0 |\n| NPU   Name | Health | Power(W) Temp(C) |\nFailed to query card total info.",
			CodeCardQuery,
		},
		{"info -t common -i 9", "There is no NPU chip on this card.", CodeCardQuery},
		{"info -t nothing -i 0", "Error parameter of -t\nUsage: npu-smi info <watch|-h|-m|-l|-t type>\n", CodeUnsupported},
		{"information", "Command or option is not found.\nUsage: npu-smi <Command|-h|-v> [Options...]", CodeUnsupported},
		{"info -t product -i 0", "This device does not support querying product.", CodeUnsupported},
		{"info -t topo", "This command cannot be executed on a VM.", CodeUnsupported},
		{"info", "npu get board type failed. ret is -9005", CodeInit},
		{"info", "bash: /usr/local/bin/npu-smi: Permission denied", CodePermission},
		{"info -t health -i 0", "This user does not have the permission to run this command.", CodePermission},
		{"info -t vnpu -i 0", "The root permission is required to run this command.", CodePermission},
		{"info", "Failed to execute npu-smi info. ret is -255.", CodeCommand},
		{"info -t usages -i 0", "dcmi module initialize failed. ret is -8012", CodeInit + ": dcmi module initialize failed. ret is -8012 (the device is not ready)"},
	} {
		p, err := Parse(text.SplitCommand("npu-smi "+c.command), 1, []byte(c.out+"\n"))
		if err != nil {
			t.Errorf("%s: %v", c.out, err)
			continue
		}
		if len(p.GPUs) > 0 || p.CollectorError == nil || !strings.HasPrefix(p.CollectorError.Error(), c.want) {
			t.Errorf("%s: %s", c.out, corpus.Brief(p))
		}
	}
}
