// Package panics finds the line of a log with the reason why a program ended: a panic, an
// uncaught exception or a memory fault.
//
// It matches the beginning of a line, so "non-fatal" or "no panic: ok" do not match. Before
// it there may be what loggers write: a time, a level, a name. In a line of JSON only the
// text of the message is examined.
package panics

import (
	"regexp"
	"strings"
	"sync"
)

const (
	// maxLine is how much of a line is examined, in bytes.
	maxLine = 4 << 10
	// maxMembers is how many members of a line of JSON are examined.
	maxMembers = 8
	// maxBehind is how many lines behind a header are examined. Some stack traces are deep.
	maxBehind = 200
)

// prefix matches what loggers write before the message: times, thread and line numbers,
// levels, names in brackets.
const prefix = `^\s*(?:(?:\[[^\]\n]{0,80}\]|\d{4}[-/]\d\d[-/]\d\d[T ]?|\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?` +
	`|[EFWI]\d{4}|\d+\s+[\w./-]+:\d+\]|\d+ ---|(?i:level=\w+|time="[^"]{0,40}"|time=\S{0,40}|msg=)` +
	`|(?i:(?:error|fatal|critical|crit|panic|emerg|stderr)\b[:|]?)|std(?:err|out) F|[|-])\s*)*"?`

// marks match the beginnings of lines with the reason why a program ended.
var marks = []string{
	// Go.
	`panic: `, `fatal error: `, `goroutine \d+ (?:\w+=\S+ )*\[`, `runtime: out of memory`, `unexpected fault address`,
	// The JVM.
	`Exception in thread "`, `Caused by: [\w$.]+`, `java\.lang\.OutOfMemoryError`, `# A fatal error has been detected by the Java Runtime Environment`,
	`Terminating due to java\.lang\.OutOfMemoryError`, `#\s+SIG(?:SEGV|BUS|ILL|FPE) `,
	// Python.
	`Traceback \(most recent call last\):`, `Fatal Python error: `,
	// Node.js.
	`Uncaught\b`, `\[?UnhandledPromiseRejection`, `throw er; `, `node:internal/process/promises`, `FATAL ERROR: .*JavaScript heap out of memory`,
	`\(node:\d+\) UnhandledPromiseRejection`,
	// Rust.
	`thread '[^']*' (?:\(\d+\) )?panicked at `, `thread '[^']*' has overflowed its stack`,
	// C, C++ and the system.
	`Segmentation fault`, `SIG(?:SEGV|BUS|ABRT|ILL|FPE)\b`, `\[signal SIG(?:SEGV|BUS|ABRT|ILL|FPE)`, `terminate called `, `\*\*\* stack smashing detected`,
	`(?:double free|free\(\): |malloc\(\): )`, `Bus error`, `Aborted \(core dumped\)`, `AddressSanitizer: `, `==\d+==ERROR: `,
	// Out of memory.
	`Out of memory\b`, `OOMKilled\b`, `(?:std::)?bad_alloc\b`, `Killed process \d+`, `MemoryError\b`,
}

// hints are substrings: every matching line contains one. A text without any of them is not
// examined further.
var hints = []string{
	"panic", "atal error", "Fatal Python", "FATAL ERROR", "goroutine ", "runtime: out", "unexpected fault", "Exception", "Caused by", "OutOfMemory", "SIG", "Traceback",
	"Uncaught", "Unhandled", "throw er", "node:internal", "overflowed its stack", "Segmentation fault", "terminate called", "stack smashing", "double free", "free():", "malloc():",
	"Bus error", "Aborted", "AddressSanitizer", "==ERROR", "Out of memory", "OOMKilled", "bad_alloc", "Killed process", "MemoryError",
}

// hasHint reports whether a text contains a hint.
func hasHint(text string) bool {
	for _, hint := range hints {
		if strings.Contains(text, hint) {
			return true
		}
	}
	return false
}

// mark is compiled when it is first needed: compiling it takes longer than tocsin hook, in
// the same program, may take to start.
var mark = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(prefix + `(?:` + strings.Join(marks, "|") + `)`)
})

// message matches the text of a message in a line of JSON.
var message = regexp.MustCompile(`"(?:msg|message|error|err|exception|stack|stacktrace|stack_trace|log)"\s*:\s*"((?:[^"\\]|\\.)*)`)

// Find returns the first line of a text with the reason why a program ended, without
// surrounding white space.
func Find(text string) (line string, ok bool) {
	if !hasHint(text) {
		return "", false
	}
	for len(text) > 0 {
		line, text, _ = strings.Cut(text, "\n")
		if line = strings.TrimSpace(line); hasMark(line) {
			return line, true
		}
	}
	return "", false
}

// headers are marks whose cause is on a later line.
var headers = []string{"Traceback (most recent call last):", "throw er; ", "node:internal/"}

// FindCause is [Find], with the cause if it is on a later line: the first line behind it
// that is not indented, within maxBehind lines. The cause is empty if there is none.
func FindCause(text string) (line, cause string, ok bool) {
	if line, ok = Find(text); !ok {
		return "", "", false
	}
	isHeader := strings.Contains(line, " panicked at ") && strings.HasSuffix(line, ":")
	for _, h := range headers {
		isHeader = isHeader || strings.Contains(line, h)
	}
	if !isHeader {
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

// hasMark reports whether a line, or the message in a line of JSON, begins with a mark.
func hasMark(line string) bool {
	if len(line) > maxLine {
		line = line[:maxLine]
	}
	if !hasHint(line) {
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
