// Package text holds what the vendors' output parsers share: values with units,
// the words that mean "not measured", bus ids, table cells, ANSI escapes and
// command lines. Every function accepts any bytes and never panics.
package text
