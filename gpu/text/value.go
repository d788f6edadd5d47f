package text

import (
	"math"
	"strconv"
	"strings"
)

// Absent reports whether s is one of the words by which tools say that a value
// was not measured. None of them is ever 0.
func Absent(s string) bool {
	s = strings.TrimSpace(s)
	switch strings.ToUpper(s) {
	case "", "NA", "N/A", "-", "--", "ERR!", "[N/A]", "[NOT SUPPORTED]", "NOT SUPPORTED",
		"[UNKNOWN ERROR]", "UNKNOWN ERROR", "INF", "NAN":
		return true
	}
	// Any other bracketed phrase is an error in place of a value:
	// [GPU requires reset], [Insufficient Permissions], [Requested functionality …].
	return len(s) >= 2 && s[0] == '[' && s[len(s)-1] == ']'
}

// String returns s trimmed, or "" when it is an absent word.
func String(s string) string {
	if Absent(s) {
		return ""
	}
	return strings.TrimSpace(s)
}

// Number splits a value with an optional unit ("28C", "107 W", "40.0%", "35℃",
// "1,024 MiB") into number and unit. ok is false when s does not begin with a
// finite number or is an absent word.
func Number(s string) (n float64, unit string, ok bool) {
	s = strings.TrimSpace(s)
	if Absent(s) {
		return 0, "", false
	}
	end := 0
	for end < len(s) && strings.IndexByte("+-.,0123456789", s[end]) >= 0 {
		end++
	}
	n, err := strconv.ParseFloat(strings.ReplaceAll(s[:end], ",", ""), 64)
	if err != nil || math.IsInf(n, 0) || math.IsNaN(n) {
		return 0, "", false
	}
	return n, strings.TrimSpace(s[end:]), true
}

// Float returns the number in s whose unit is one of units (compared without
// case; no units: any unit, and none), or nil.
func Float(s string, units ...string) *float64 {
	n, unit, ok := Number(s)
	if !ok || !unitIn(unit, units) {
		return nil
	}
	return &n
}

// Int returns the whole number that s is, or nil.
func Int(s string) *int {
	n, err := strconv.Atoi(strings.TrimSpace(s))
	if err != nil {
		return nil
	}
	return &n
}

// Natural returns the number of a card, a process or the like that s is, or nil.
func Natural(s string) *int {
	const most = 1 << 22 // the largest pid
	n := Int(s)
	if n == nil || *n < 0 || *n > most {
		return nil
	}
	return n
}

func unitIn(unit string, units []string) bool {
	for _, u := range units {
		if strings.EqualFold(unit, u) {
			return true
		}
	}
	return len(units) == 0
}

// Celsius returns a temperature ("40C", "40.0c", "35℃", "40 °C", "40") or nil.
func Celsius(s string) *float64 { return Float(s, "", "C", "℃", "°C", "deg C") }

// Percent returns a percentage ("40%", "40 %", "40") or nil.
func Percent(s string) *float64 { return Float(s, "", "%") }

// Share returns a percentage of 0 to 100, or nil.
func Share(s string) *float64 {
	if v := Percent(s); v != nil && *v >= 0 && *v <= 100 {
		return v
	}
	return nil
}

// Positive drops a total or a limit of 0, which no card has.
func Positive[T int64 | float64](v *T) *T {
	if v != nil && *v <= 0 {
		return nil
	}
	return v
}

// WithUnit returns s when it is a number with a unit, else "". Where a tool
// prints every value with one, a bare number was cut, perhaps within its digits.
func WithUnit(s string) string {
	if _, unit, ok := Number(s); !ok || unit == "" {
		return ""
	}
	return s
}

// Watts returns a power ("107W", "107 W", "107") or nil. "mW" is converted.
func Watts(s string) *float64 {
	n, unit, ok := Number(s)
	switch {
	case !ok:
		return nil
	case unit == "mW":
		n /= 1000
	case unit != "" && !strings.EqualFold(unit, "W"):
		return nil
	}
	return &n
}

// Bytes returns a size in bytes, or nil. The tools' KB, MB and GB are binary
// like their KiB, MiB and GiB; a number without a unit is taken in unit.
func Bytes(s, unit string) *int64 {
	n, u, ok := Number(s)
	if !ok || n < 0 {
		return nil
	}
	if u == "" {
		u = unit
	}
	shift, ok := map[string]int{
		"b": 0, "bytes": 0, "k": 10, "kb": 10, "kib": 10, "m": 20, "mb": 20, "mib": 20,
		"g": 30, "gb": 30, "gib": 30, "t": 40, "tb": 40, "tib": 40,
	}[strings.ToLower(u)]
	if !ok || n > float64(int64(1)<<(62-shift)) {
		return nil
	}
	v := int64(math.Round(n * float64(int64(1)<<shift)))
	return &v
}

// MiB returns the bytes of a number of MiB, as most tools count memory.
func MiB(s string) *int64 { return Bytes(s, "MiB") }
