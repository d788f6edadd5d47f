package smi

import (
	"encoding/xml"
	"io"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// xmlFields are the paths below <gpu> in "-q -x", schemas v4 to v13.
var xmlFields = map[string]field{
	"product_name": fieldModel, "uuid": fieldUUID, "serial": fieldSerial,
	"minor_number": fieldMinor, "vbios_version": fieldVBIOS, "mig_mode/current_mig": fieldMIGMode,
	"fb_memory_usage/total": fieldMemoryTotal, "fb_memory_usage/used": fieldMemoryUsed,
	"utilization/gpu_util": fieldUtilization, "temperature/gpu_temp": fieldTemperature,
	"gpu_reset_status/reset_required":               fieldReset,
	"gpu_recovery_action":                           fieldAction,
	"power_readings/power_draw":                     fieldPower,
	"gpu_power_readings/power_draw":                 fieldPower,
	"gpu_power_readings/instant_power_draw":         fieldPowerInstant,
	"gpu_power_readings/average_power_draw":         fieldPowerAverage,
	"power_readings/power_limit":                    fieldPowerLimit,
	"gpu_power_readings/current_power_limit":        fieldPowerLimit,
	"power_readings/enforced_power_limit":           fieldPowerEnforced,
	"ecc_errors/volatile/double_bit/total":          fieldECC,
	"ecc_errors/volatile/sram_uncorrectable":        fieldECC,
	"ecc_errors/volatile/sram_uncorrectable_parity": fieldECC,
	"ecc_errors/volatile/sram_uncorrectable_secded": fieldECC,
	"ecc_errors/volatile/dram_uncorrectable":        fieldECC,
	"remapped_rows/remapped_row_failure":            fieldRemapFailure,
	"remapped_rows/remapped_row_pending":            fieldRemapPending,
	"retired_pages/pending_retirement":              fieldRemapPending,
	"retired_pages/pending_blacklist":               fieldRemapPending,
}

// maxDepth bounds the elements that may be open at once; schemas need 7.
const maxDepth = 32

// xmlReader is where reading "-q -x" has come to.
type xmlReader struct {
	*document
	current  *card
	path     []string // of elements, below the root, or below <gpu>
	value    strings.Builder
	driver   string
	instance gpu.MIGDevice
	process  gpu.Process
}

const xmlRoot = "<nvidia_smi_log"

// readXML reads "-q -x", a cut one as far as it goes. A loop prints a document
// for each sample.
func (d *document) readXML() bool {
	_, log, _ := strings.Cut(strings.Join(d.lines, "\n"), xmlRoot)
	dec := xml.NewDecoder(strings.NewReader(xmlRoot + log))
	dec.Strict = false
	dec.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil }
	r := xmlReader{document: d}
	for len(r.path) < maxDepth {
		token, err := dec.Token()
		if err != nil { // the end, or where the text was cut
			break
		}
		switch t := token.(type) {
		case xml.StartElement:
			r.open(t)
		case xml.CharData:
			r.value.Write(t)
		case xml.EndElement:
			r.close(t.Name.Local)
		}
	}
	if r.current != nil { // cut within a card
		r.keep()
	}
	d.ordinals()
	for _, c := range d.cards {
		c.device.DriverVersion = r.driver
	}
	return true
}

func (r *xmlReader) open(t xml.StartElement) {
	r.value.Reset()
	if t.Name.Local == "gpu" && r.current == nil {
		r.current, r.path = &card{}, nil
		for _, a := range t.Attr {
			if a.Name.Local == "id" {
				r.current.set(fieldBusID, a.Value)
			}
		}
		return
	}
	r.path = append(r.path, t.Name.Local)
	switch t.Name.Local {
	case "mig_device":
		r.instance = gpu.MIGDevice{}
	case "process_info":
		r.process = gpu.Process{}
	}
}

func (r *xmlReader) close(name string) {
	value := strings.TrimSpace(r.value.String())
	r.value.Reset()
	path := strings.Join(r.path, "/")
	switch c := r.current; {
	case c == nil:
		if path == "nvidia_smi_log/driver_version" && !unread(value) {
			r.driver, _, _ = strings.Cut(value, " ")
		}
	case name == "gpu" && len(r.path) == 0:
		r.keep()
		return
	case path == "mig_devices/mig_device":
		if r.instance.MIGIndex != nil {
			c.migs = append(c.migs, r.instance)
		}
	case strings.HasPrefix(path, "mig_devices/mig_device/"):
		migValue(&r.instance, strings.TrimPrefix(path, "mig_devices/mig_device/"), value)
	case path == "processes/process_info":
		if r.process.PID > 0 {
			c.processes = append(c.processes, r.process)
		}
	case strings.HasPrefix(path, "processes/process_info/"):
		r.processValue(name, value)
	case value != "":
		c.set(xmlFields[path], value)
	}
	if len(r.path) > 0 {
		r.path = r.path[:len(r.path)-1]
	}
}

// keep ends a card. One that says nothing of itself is none.
func (r *xmlReader) keep() {
	if !r.current.empty() {
		r.sample(r.current)
	}
	r.current, r.path = nil, nil
}

func (r *xmlReader) processValue(name, value string) {
	if unread(value) {
		return
	}
	switch name {
	case "pid":
		if pid := text.Int(value); pid != nil {
			r.process.PID = *pid
		}
	case "process_name":
		r.process.Name = value
	case "used_memory":
		r.process.MemoryUsed = text.MiB(value)
	}
}
