package text

import (
	"fmt"
	"strconv"
	"strings"
)

var busID = Lazy(`(?i)^(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})(?:\.([0-7]))?$`)

// BusID returns a PCI address in the form sysfs uses, "0000:c1:00.0": lower
// case, domain of at least four digits, function .0 when it is not given. Tools
// print 4 or 8 digits of domain (NVIDIA), 2 (Enflame) or none, in either case,
// and kernel messages leave the function out. "" when s is not an address, or is
// the all-zero one that stands for "unknown".
func BusID(s string) string {
	m := busID.FindStringSubmatch(String(s))
	if m == nil {
		return ""
	}
	part := func(hex string) uint64 { // the expression admits hex digits only; none is 0
		n, err := strconv.ParseUint(hex, 16, 32)
		if err != nil {
			return 0
		}
		return n
	}
	domain, bus, dev, fn := part(m[1]), part(m[2]), part(m[3]), part(m[4])
	if dev > 0x1f || domain|bus|dev|fn == 0 {
		return ""
	}
	return fmt.Sprintf("%04x:%02x:%02x.%x", domain, bus, dev, fn)
}

// JoinBusID returns BusID of an address that a tool prints in parts, each a hex
// number with or without 0x. A domain and a function that it does not print are
// 0; without bus and device there is no address.
func JoinBusID(domain, bus, device, function string) string {
	part := func(s string) string {
		return strings.TrimPrefix(strings.ToLower(String(s)), "0x")
	}
	or0 := func(s string) string {
		if s == "" {
			return "0"
		}
		return s
	}
	return BusID(or0(part(domain)) + ":" + part(bus) + ":" + part(device) + "." + or0(part(function)))
}
