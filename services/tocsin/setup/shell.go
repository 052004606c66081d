package setup

import (
	"path/filepath"
	"strings"
)

// isTocsin reports whether the base name of a program is tocsin.
func isTocsin(program string) bool {
	return strings.TrimSuffix(filepath.Base(program), ".exe") == "tocsin"
}

// Flags of hooks. The gateway has the last two as well.
const (
	flagInbox    = "--inbox"
	flagStateDir = "--state-dir"
	// flagNamespaces lists the Kubernetes namespaces whose alerts are delivered.
	flagNamespaces = "--kubernetes-namespaces"
)

// hookProgram returns the program of a hook that runs Tocsin, and the rest of its command
// line. It returns false for any other command line.
func hookProgram(command string) (program, rest string, ok bool) {
	program, rest, ok = cutWord(command)
	if !ok || !isTocsin(program) {
		return "", "", false
	}
	first, _, ok := cutWord(rest)
	return program, rest, ok && first == "hook"
}

// flagValue returns the value of a flag in a command line, or nothing.
func flagValue(line, flag string) string {
	words, _ := cutWords(line)
	return argumentValue(words, flag)
}

// setFlag returns the command line of a hook with the flag set to that value. A new flag
// goes before all that the user added, which may be another command.
func setFlag(line, flag, value string) string {
	words, ends := cutWords(line)
	if argumentValue(words, flag) == value {
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
	at := ends[1] // after tocsin hook
	if len(words) > 3 && words[2] == "--client" {
		at = ends[3]
	}
	return line[:at] + set + line[at:]
}

// cutWords returns the words of a command line and the offsets of their ends, up to a word
// that has an unclosed quote.
func cutWords(line string) (words []string, ends []int) {
	for rest := line; ; {
		word, after, ok := cutWord(rest)
		if !ok {
			return words, ends
		}
		words, ends, rest = append(words, word), append(ends, len(line)-len(after)), after
	}
}

// quote quotes a string as one word of a POSIX shell, if necessary.
func quote(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_@%+=:,./-", r)
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// cutWord returns the first word of a command line, read as by a POSIX shell without
// expansions, and the rest. It returns false if there is no word or a quote is not closed.
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
