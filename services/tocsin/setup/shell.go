package setup

import (
	"path/filepath"
	"strings"
)

// isTocsin says whether a program is Tocsin, by its base name.
func isTocsin(program string) bool {
	return strings.TrimSuffix(filepath.Base(program), ".exe") == "tocsin"
}

// Flags of a hook, and of the gateway, that say which inbox, which bus, and what of it.
const (
	flagInbox    = "--inbox"
	flagStateDir = "--state-dir"
	// flagNamespaces says of which namespaces of Kubernetes alerts are told.
	flagNamespaces = "--kubernetes-namespaces"
)

// hookProgram is the program of a hook of ours, and the rest of its command
// line. What is no such hook is not ok.
func hookProgram(command string) (program, rest string, ok bool) {
	program, rest, ok = cutWord(command)
	if !ok || !isTocsin(program) {
		return "", "", false
	}
	first, _, ok := cutWord(rest)
	return program, rest, ok && first == "hook"
}

// flagOf is the value of a flag in a command line; empty without it.
func flagOf(line, flag string) string {
	words, _ := cutWords(line)
	return argument(words, flag)
}

// withFlag is the command line of a hook with a flag of that value: in the place
// of what it has, or else before all that its user added, which may be another
// command.
func withFlag(line, flag, value string) string {
	words, ends := cutWords(line)
	if argument(words, flag) == value {
		return line
	}
	set := " " + flag + " " + quote(value)
	for i, word := range words {
		switch {
		case word == flag && i+1 < len(words):
			return line[:ends[i-1]] + set + line[ends[i+1]:]
		case strings.HasPrefix(word, flag+"="):
			return line[:ends[i-1]] + set + line[ends[i]:]
		}
	}
	at := ends[1] // behind tocsin hook
	if len(words) > 3 && words[2] == "--client" {
		at = ends[3]
	}
	return line[:at] + set + line[at:]
}

// cutWords are the words of a command line, and where each ends. What is no word
// ends them.
func cutWords(line string) (words []string, ends []int) {
	for rest := line; ; {
		word, after, ok := cutWord(rest)
		if !ok {
			return words, ends
		}
		words, ends, rest = append(words, word), append(ends, len(line)-len(after)), after
	}
}

// quote makes one word of a shell's command line.
func quote(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_@%+=:,./-", r)
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// cutWord takes the first word off a command line, as a POSIX shell would read
// it. Expansions are not made; a word that does not end is not ok.
func cutWord(line string) (word, rest string, ok bool) {
	line = strings.TrimLeft(line, " \t")
	var b strings.Builder
	quoted := byte(0)
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case quoted == 0 && (c == ' ' || c == '\t'):
			return b.String(), line[i:], true
		case quoted == 0 && (c == '\'' || c == '"'):
			quoted = c
		case quoted != 0 && c == quoted:
			quoted = 0
		case c == '\\' && quoted != '\'':
			i++
			if i == len(line) {
				return "", "", false
			}
			if quoted == '"' && !strings.ContainsRune("$`\"\\", rune(line[i])) {
				b.WriteByte(c)
			}
			b.WriteByte(line[i])
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), "", quoted == 0 && line != ""
}
