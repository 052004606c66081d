// Package panics finds in the log of a program the line that says why it ended: a
// panic, an uncaught exception, a fault of memory.
//
// It goes by how such a line begins, and not by words within it: "non-fatal", or "no
// panic: ok", is none. What may stand before is what loggers put there: a time, a
// level. In a line of JSON it looks at the text of the message alone. It knows nothing
// of who wrote the log.
package panics

import (
	"regexp"
	"strings"
	"sync"
)

// maxLine is how much of a line is looked at, in bytes.
const maxLine = 4 << 10

// prefix is what may stand before: times as loggers write them, numbers of threads and
// lines, levels and names in brackets.
const prefix = `^\s*(?:(?:\[[^\]\n]{0,80}\]|\d{4}[-/]\d\d[-/]\d\d[T ]?|\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?` +
	`|[EFWI]\d{4}|\d+\s+[\w./-]+:\d+\]|\d+ ---|(?i:level=\w+|time="[^"]{0,40}"|time=\S{0,40}|msg=)` +
	`|(?i:(?:error|fatal|critical|crit|panic|emerg|stderr)\b[:|]?)|std(?:err|out) F|[|-])\s*)*"?`

// marks are how lines begin that tell of an end.
var marks = []string{
	// Go.
	`panic: `, `fatal error: `, `goroutine \d+ (?:\w+=\S+ )*\[`, `runtime: out of memory`, `unexpected fault address`,
	// Java, and others of its machine.
	`Exception in thread "`, `Caused by: [\w$.]+`, `java\.lang\.OutOfMemoryError`, `# A fatal error has been detected by the Java Runtime Environment`,
	`Terminating due to java\.lang\.OutOfMemoryError`, `#\s+SIG(?:SEGV|BUS|ILL|FPE) `,
	// Python.
	`Traceback \(most recent call last\):`, `Fatal Python error: `,
	// Node.
	`Uncaught\b`, `\[?UnhandledPromiseRejection`, `throw er; `, `node:internal/process/promises`, `FATAL ERROR: .*JavaScript heap out of memory`,
	`\(node:\d+\) UnhandledPromiseRejection`,
	// Rust.
	`thread '[^']*' (?:\(\d+\) )?panicked at `, `thread '[^']*' has overflowed its stack`,
	// C, C++, and what the system says of all.
	`Segmentation fault`, `SIG(?:SEGV|BUS|ABRT|ILL|FPE)\b`, `\[signal SIG(?:SEGV|BUS|ABRT|ILL|FPE)`, `terminate called `, `\*\*\* stack smashing detected`,
	`(?:double free|free\(\): |malloc\(\): )`, `Bus error`, `Aborted \(core dumped\)`, `AddressSanitizer: `, `==\d+==ERROR: `,
	// Out of memory.
	`Out of memory\b`, `OOMKilled\b`, `(?:std::)?bad_alloc\b`, `Killed process \d+`, `MemoryError\b`,
}

// hints are what every line that is a mark has in it somewhere: a text without any needs
// no closer look.
var hints = []string{
	"panic", "atal error", "Fatal Python", "FATAL ERROR", "goroutine ", "runtime: out", "unexpected fault", "Exception", "Caused by", "OutOfMemory", "SIG", "Traceback",
	"Uncaught", "Unhandled", "throw er", "node:internal", "overflowed its stack", "Segmentation fault", "terminate called", "stack smashing", "double free", "free():", "malloc():",
	"Bus error", "Aborted", "AddressSanitizer", "==ERROR", "Out of memory", "OOMKilled", "bad_alloc", "Killed process", "MemoryError",
}

func hinted(text string) bool {
	for _, hint := range hints {
		if strings.Contains(text, hint) {
			return true
		}
	}
	return false
}

// mark is compiled when it is first needed: that takes longer than the start of the
// program may, which also answers hooks.
var mark = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(prefix + `(?:` + strings.Join(marks, "|") + `)`)
})

// message is the text of a message in a line of JSON.
var message = regexp.MustCompile(`"(?:msg|message|error|err|exception|stack|stacktrace|stack_trace|log)"\s*:\s*"((?:[^"\\]|\\.)*)`)

// Find is the first line of a text that is the mark of an end, without white space
// around it.
func Find(text string) (line string, ok bool) {
	if !hinted(text) {
		return "", false
	}
	for len(text) > 0 {
		line, text, _ = strings.Cut(text, "\n")
		if line = strings.TrimSpace(line); marked(line) {
			return line, true
		}
	}
	return "", false
}

// opens are marks that say nothing of why: that stands in a line behind.
var opens = []string{"Traceback (most recent call last):", "throw er; ", "node:internal/"}

// Says is the line that Find finds, and where that doesn't say why, the first line behind
// it that may: one that is not indented, within some lines. It is empty where there is
// none.
func Says(text string) (line, why string, ok bool) {
	if line, ok = Find(text); !ok {
		return "", "", false
	}
	open := strings.Contains(line, " panicked at ") && strings.HasSuffix(line, ":")
	for _, o := range opens {
		open = open || strings.Contains(line, o)
	}
	if !open {
		return line, "", true
	}
	_, rest, _ := strings.Cut(text, line)
	_, rest, _ = strings.Cut(rest, "\n")
	for range maxBehind {
		var next string
		if next, rest, _ = strings.Cut(rest, "\n"); strings.TrimSpace(next) != "" && next == strings.TrimLeft(next, " \t^") {
			return line, strings.TrimSpace(next), true
		}
	}
	return line, "", true
}

// maxBehind is how many lines behind a mark are looked at: some are deep.
const maxBehind = 200

func marked(line string) bool {
	if len(line) > maxLine {
		line = line[:maxLine]
	}
	if !hinted(line) {
		return false
	}
	if strings.HasPrefix(line, "{") {
		for _, m := range message.FindAllStringSubmatch(line, maxMembers) {
			if mark().MatchString(strings.ReplaceAll(m[1], `\"`, `"`)) {
				return true
			}
		}
		return false
	}
	return mark().MatchString(line)
}

// maxMembers is how many members of a line of JSON are looked at.
const maxMembers = 8
