package text

import (
	"path"
	"slices"
	"strings"
)

// SplitCommand splits a command line as people paste it into words, with shell
// quotes but nothing else of a shell: no variables, no globs, nothing is run.
// ";" and "|" become words of their own, and a remark in parentheses, as in
// "npu-smi info (in a container)", is left out.
func SplitCommand(line string) []string { //nolint:cyclop // one switch over characters, a case each
	var words []string
	var word strings.Builder
	var quote rune
	started, remark := false, 0
	flush := func() {
		if started {
			words = append(words, word.String())
		}
		word.Reset()
		started = false
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '(' && (!started || remark > 0):
			remark++
		case remark > 0:
			if r == ')' {
				remark--
			}
		case r == '"' || r == '\'':
			quote, started = r, true
		case r == ';' || r == '|':
			flush()
			words = append(words, string(r))
		case r == ' ' || r == '\t' || r == '\n' || r == '\r':
			flush()
		default:
			word.WriteRune(r)
			started = true
		}
	}
	flush()
	return words
}

// ToolArgs finds the vendor's tool in argv and returns its arguments, up to the
// end of that command: argv may be "docker run … TOOL args", "sudo TOOL",
// "timeout 2 TOOL" or "echo x | TOOL". names are base names (".exe" is ignored);
// ok is false when none of them is there.
func ToolArgs(argv []string, names ...string) (args []string, ok bool) {
	for i, word := range argv {
		if !slices.Contains(names, ToolName(word)) {
			continue
		}
		args = argv[i+1:]
		if end := slices.IndexFunc(args, func(w string) bool { return w == ";" || w == "|" }); end >= 0 {
			args = args[:end]
		}
		return args, true
	}
	return nil, false
}

// ToolName returns the base name of a program without ".exe".
func ToolName(program string) string {
	return strings.TrimSuffix(path.Base(strings.ReplaceAll(program, `\`, "/")), ".exe")
}
