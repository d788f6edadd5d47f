package gpu

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/gpu/pci"
)

// busEvery is how long a reading of the PCI bus is taken for true: it changes by
// hand or by a fatal fault only, and reading it opens a file per attribute.
const busEvery = time.Minute

// cards returns a vendor's cards on the bus. A bus that cannot be read testifies
// to nothing.
func (r *Registry) cards(v Vendor) []pci.Card {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.scanned.IsZero() || time.Since(r.scanned) >= busEvery {
		bus, err := pci.Scan(r.sysfs)
		if err != nil {
			r.log.Warn("the PCI bus cannot be read; cards without a driver are not noticed", zap.Error(err))
		}
		r.bus, r.scanned = bus, time.Now()
	}
	var cards []pci.Card
	for _, c := range r.bus {
		if c.Vendor == string(v) {
			cards = append(cards, c)
		}
	}
	return cards
}

// locate gives each device the NUMA node that the kernel names, where the tool
// named none, and the topology a row for each such device.
func (r *Report) locate(cards []pci.Card) {
	for i := range r.Devices {
		d := &r.Devices[i]
		if c := find(cards, d.BusID); c != nil && d.NUMANode == nil {
			d.NUMANode = c.NUMANode
		}
	}
	topo := Topology{Kind: string(r.Vendor)}
	if r.Topology != nil {
		topo = *r.Topology
		topo.NUMA = slices.Clone(topo.NUMA) // it may be the last inventory's
	}
	for _, d := range r.Devices {
		if d.Index == nil || d.NUMANode == nil {
			continue
		}
		at := slices.IndexFunc(topo.NUMA, func(a Affinity) bool { return a.Index == *d.Index })
		switch {
		case at < 0:
			topo.NUMA = append(topo.NUMA, Affinity{Index: *d.Index, Node: d.NUMANode})
		case topo.NUMA[at].Node == nil:
			topo.NUMA[at].Node = d.NUMANode
		}
	}
	if r.Topology != nil || len(topo.NUMA) > 0 {
		r.Topology = &topo
	}
}

// witness compares what the tool said with what is on the bus. Virtual functions
// and cards given to virtual machines are not expected to answer.
func (r *Registry) witness(rep *Report, cards []pci.Card) {
	cards = slices.DeleteFunc(slices.Clone(cards), func(c pci.Card) bool { return c.Virtual || c.PassedThrough() })
	if len(cards) == 0 {
		return
	}
	if len(rep.Devices) == 0 {
		rep.unanswered(cards)
		return
	}
	named := !slices.ContainsFunc(rep.Devices, func(d Device) bool { return d.BusID == "" })
	if !r.seesAllCards || !named || rep.CollectorError != nil {
		return
	}
	for _, c := range cards {
		if !slices.ContainsFunc(rep.Devices, func(d Device) bool { return d.BusID == c.BusID }) {
			rep.blame(c, CodeNotListed, "the card is on the PCI bus, but the vendor's tool does not list it: see the kernel log")
		}
	}
}

// unanswered reports cards of which the vendor's tool says nothing: it is not
// installed, it failed, or it lists none.
func (r *Report) unanswered(cards []pci.Card) {
	ids := make([]string, len(cards))
	for i, c := range cards {
		ids[i] = c.BusID
		r.blame(c, CodeNoDriver, fmt.Sprintf("the card is on the PCI bus (kernel driver: %s), but its driver does not answer",
			orNone(c.Driver)))
	}
	why := "the vendor's tool lists none"
	switch {
	case r.CollectorError != nil:
		why = r.CollectorError.Error()
	case r.Absent:
		why = "the vendor's tool is not installed"
	}
	code := CodeNoDriver
	if r.CollectorError != nil {
		code = r.CollectorError.Code
	}
	r.CollectorError = &CollectorError{Code: code, Message: fmt.Sprintf(
		"%s on PCI (%s), driver not answering: %s", count(len(cards)), strings.Join(ids, " "), why)}
}

// blame adds a failure for a card on the bus, unless one blames it already.
func (r *Report) blame(c pci.Card, code, message string) {
	if slices.ContainsFunc(r.Failures, func(f Failure) bool { return f.BusID == c.BusID }) {
		return
	}
	r.Failures = append(r.Failures, Failure{BusID: c.BusID, Code: code, Message: message})
}

func find(cards []pci.Card, busID string) *pci.Card {
	for i := range cards {
		if busID != "" && cards[i].BusID == busID {
			return &cards[i]
		}
	}
	return nil
}

func count(n int) string {
	if n == 1 {
		return "1 card"
	}
	return fmt.Sprintf("%d cards", n)
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
