package text

import "strings"

// Monitor reads what the vendors' dmon and pmon print, as text or as CSV: a line
// of column names, a line of units, and a line for each card or process until it
// is stopped. The marks before the names ("# gpu", "*Dev") are left out. isHead
// recognises the names. Each row is given by column; of a row with more words
// than there are columns the last column has the rest (a program with
// arguments), and one with fewer was cut. ok is false when there are no names.
func Monitor(lines []string, isHead func(names []string) bool) (rows []map[string]string, ok bool) {
	var names []string
	for _, line := range lines {
		words := monitorWords(line)
		if isHead(words) {
			names, ok = words, true
			continue
		}
		if len(words) < len(names) || len(names) == 0 {
			continue
		}
		row := make(map[string]string, len(names))
		for i, name := range names {
			row[name] = words[i]
		}
		row[names[len(names)-1]] = strings.Join(words[len(names)-1:], " ")
		rows = append(rows, row)
	}
	return rows, ok
}

func monitorWords(line string) []string {
	line = strings.TrimLeft(strings.TrimSpace(line), "#* ")
	if !strings.Contains(line, ",") {
		return strings.Fields(line)
	}
	words := strings.Split(strings.TrimRight(line, ", \t"), ",")
	for i := range words {
		words[i] = strings.TrimSpace(words[i])
	}
	return words
}
