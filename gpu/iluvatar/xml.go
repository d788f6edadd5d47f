package iluvatar

import (
	"bytes"
	"encoding/xml"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// parseXML reads "-q -x". It is read token by token, so that a cut text gives
// what it holds. XML has no index: ixsmi counts the cards as it lists them.
func parseXML(in input) (gpu.Parsed, bool) {
	start := bytes.Index(in.raw, []byte("<ixsmi_log"))
	if start < 0 {
		return gpu.Parsed{}, false
	}
	var log xmlLog
	dec := xml.NewDecoder(bytes.NewReader(in.raw[start:]))
	dec.Strict = false
	for {
		token, err := dec.Token()
		if err != nil { // the end, or the cut
			break
		}
		switch token := token.(type) {
		case xml.StartElement:
			log.open(token)
		case xml.CharData:
			log.value.Write(token)
		case xml.EndElement:
			log.close()
		}
	}
	for _, c := range log.cards {
		c.device.DriverVersion = log.driver
	}
	return result(log.cards), true
}

// xmlLog is the log while it is being read.
type xmlLog struct {
	path   []string // the open elements
	value  strings.Builder
	driver string
	cards  []*card
}

func (l *xmlLog) open(e xml.StartElement) {
	name := e.Name.Local
	switch {
	case name == "gpu" && len(l.path) == 1:
		c := &card{}
		for _, a := range e.Attr {
			if a.Name.Local == "id" {
				c.device.BusID = text.BusID(a.Value)
			}
		}
		l.cards = append(l.cards, c)
	case name == "process_info" && len(l.cards) > 0:
		c := l.cards[len(l.cards)-1]
		c.processes = append(c.processes, gpu.Process{})
	}
	l.path = append(l.path, name)
	l.value.Reset()
}

// close takes in the value of the element that ends.
func (l *xmlLog) close() {
	value := strings.TrimSpace(l.value.String())
	l.value.Reset()
	if len(l.path) == 0 {
		return
	}
	name := l.path[len(l.path)-1]
	l.path = l.path[:len(l.path)-1]
	section := ""
	if len(l.path) > 0 {
		section = l.path[len(l.path)-1]
	}
	switch {
	case name == "driver_version":
		l.driver = text.String(value)
	case len(l.cards) == 0:
	case section == "process_info":
		l.cards[len(l.cards)-1].process(name, value)
	case section == "gpu":
		l.cards[len(l.cards)-1].set("", name, value)
	default:
		l.cards[len(l.cards)-1].set(section, name, value)
	}
}
