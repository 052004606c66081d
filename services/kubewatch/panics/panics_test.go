package panics_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/kubewatch/panics"
)

// TestFind checks which lines have the reason why a program ended.
func TestFind(t *testing.T) {
	for _, line := range []string{
		// Go.
		"panic: runtime error: invalid memory address or nil pointer dereference",
		"panic: main.E{x:1}",
		"fatal error: all goroutines are asleep - deadlock!",
		"fatal error: concurrent map writes",
		"goroutine 1 [running]:",
		"goroutine 42 gp=0xc000 m=0 mp=0x1 [running]:",
		"[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x4a2b3c]",
		"2026/01/28 14:30:00 panic: boom",
		"2026-01-28T14:30:00.123456789Z panic: boom",
		"2026-01-28T14:30:00.123+01:00 stderr F panic: boom",
		"2026-01-28 14:30:00,123 ERROR panic: boom",
		"[2026-01-28 14:30:00] [error] panic: boom",
		`{"level":"error","msg":"panic: boom"}`,
		`{"time":"2026-01-28T14:30:00Z","message":"boom","stack":"goroutine 7 [running]:\nmain.main()"}`,
		`time="2026-01-28T14:30:00Z" level=fatal msg="panic: boom"`,
		`time=2026-01-28T14:30:00.000Z level=ERROR msg="panic: boom"`,
		// Java.
		`Exception in thread "main" java.lang.NullPointerException`,
		"Caused by: java.net.ConnectException: Connection refused",
		"java.lang.OutOfMemoryError: Java heap space",
		"Terminating due to java.lang.OutOfMemoryError: Java heap space",
		"# A fatal error has been detected by the Java Runtime Environment:",
		"#  SIGSEGV (0xb) at pc=0x00007f, pid=1, tid=7",
		`2026-01-28 14:30:00.000 ERROR 1 --- [main] Exception in thread "main" java.lang.Error`,
		// Python.
		"Traceback (most recent call last):",
		"Fatal Python error: Segmentation fault",
		"MemoryError",
		"2026-01-28 14:30:00,000 - ERROR - Traceback (most recent call last):",
		"ERROR:Traceback (most recent call last):",
		// Node.js.
		"Uncaught Exception: boom",
		"Uncaught TypeError: x is not a function",
		"      throw er; // Unhandled 'error' event",
		"[UnhandledPromiseRejection: This error originated]",
		"UnhandledPromiseRejectionWarning: Error: x",
		"(node:1) UnhandledPromiseRejectionWarning: Error: x",
		"FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory",
		"node:internal/process/promises:288",
		// Rust.
		"thread 'main' panicked at src/main.rs:4:5:",
		"thread 'tokio-runtime-worker' (17) panicked at src/main.rs:4:5:",
		"thread '<unnamed>' panicked at 'boom', src/lib.rs:1:1",
		"thread 'main' has overflowed its stack",
		// C, C++.
		"Segmentation fault (core dumped)",
		"Segmentation fault",
		"SIGSEGV received at time 1",
		"terminate called after throwing an instance of 'std::bad_alloc'",
		"*** stack smashing detected ***: terminated",
		"free(): invalid pointer",
		"double free or corruption (out)",
		"==1==ERROR: AddressSanitizer: heap-use-after-free",
		// Out of memory.
		"Out of memory: Killed process 1234 (java)",
		"OOMKilled",
		"E0128 14:30:00.000000       1 runtime.go:79] panic: boom",
		"\tpanic: boom",
		"panic: boom\r",
	} {
		if got, ok := panics.Find("starting\n" + line + "\nmore\n"); !ok || got != strings.TrimSpace(line) {
			t.Errorf("Find(%q) = %q, %t; want the line", line, got, ok)
		}
	}
	for _, line := range []string{
		"",
		"non-fatal error: retrying",
		"no panic: ok",
		"don't panic: it is fine",
		"a non-fatal: x",
		"error: fatal",
		"fatal: repository not found",
		"INFO recovered from panic: boom",
		"INFO handled Uncaught TypeError",
		"panic",
		"panicked",
		"panic mode off",
		"the message was: panic: no",
		`{"level":"info","msg":"no panic: ok"}`,
		`{"level":"info","user":"panic: boom"}`,
		`{"fatal error: x":1}`,
		"not Out of memory",
		"memory is out",
		"MemoryErrors: 0",
		"Out of memoryless",
		"a Segmentation fault handler was installed",
		"SIGSEGVX",
		"installed handler for SIGSEGV",
		"GET /panic: 200",
		"Traceback",
		"Caused by: ",
		"goroutine leak check passed",
		"goroutine 1",
		"thread 'main' started",
		"uncaught: 0",
		"Uncaughtable",
		strings.Repeat("x", 100_000) + "panic: boom",
	} {
		if got, ok := panics.Find("starting\n" + line + "\nmore\n"); ok {
			t.Errorf("Find(%.80q) = %.80q, want nothing", line, got)
		}
	}
}

// TestFirst checks that the first of two such lines is returned.
func TestFirst(t *testing.T) {
	const want = "Caused by: java.lang.A"
	if got, _ := panics.Find(want + "\npanic: b"); got != want {
		t.Errorf("Find = %q, want the first line, %q", got, want)
	}
}

// TestHostileLines checks that no line makes matching slow.
func TestHostileLines(t *testing.T) {
	for _, text := range []string{strings.Repeat("[", 1<<16), strings.Repeat("[]", 1<<16), "{" + strings.Repeat(`"msg":"`, 1<<14), strings.Repeat("error ", 1<<14), strings.Repeat(" \n", 1<<16)} {
		start := time.Now()
		panics.Find(text)
		if took := time.Since(start); took > 5*time.Second { // it takes milliseconds; a machine may be busy
			t.Errorf("Find(%.20q) took %s, want at most 5 s", text, took)
		}
	}
}

// FuzzFind checks that the result is a line of the text, and is found by itself as well.
func FuzzFind(f *testing.F) {
	for _, seed := range []string{"panic: boom", "a\n{\"msg\":\"panic: x\"}\nb", "2026-01-28T14:30:00Z ERROR Traceback (most recent call last):", "\xff\n[error] SIGSEGV", "no panic: ok"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		line, ok := panics.Find(text)
		if !ok {
			return
		}
		if !strings.Contains(text, line) || strings.Contains(line, "\n") {
			t.Fatalf("Find(%q) = %q, want a line of it", text, line)
		}
		if again, ok := panics.Find(line); !ok || again != line {
			t.Fatalf("Find(%q) = %q, want the line", line, again)
		}
	})
}

func BenchmarkFind(b *testing.B) {
	text := strings.Repeat("2026-01-28T14:30:00Z INFO request done method=GET path=/cart status=200 duration=12ms\n", 120)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, ok := panics.Find(text); ok {
			b.Fatal("Find has found a line, want none")
		}
	}
}

// TestFindCause checks that a line without the cause is returned with the later one that has it.
func TestFindCause(t *testing.T) {
	for _, tt := range []struct{ text, line, cause string }{
		{"start\nTraceback (most recent call last):\n  File \"a.py\", line 1, in f\n    1/0\n    ~^~\nZeroDivisionError: division by zero\nend\n", "Traceback (most recent call last):", "ZeroDivisionError: division by zero"},
		{"node:internal/process/promises:288\n            triggerUncaughtException(err, true);\n            ^\n\nError: no db\n    at f\n", "node:internal/process/promises:288", "Error: no db"},
		{"      throw er; // Unhandled 'error' event\n      ^\n\nError: listen EADDRINUSE: :::80\n", "throw er; // Unhandled 'error' event", "Error: listen EADDRINUSE: :::80"},
		{"thread 'main' panicked at src/main.rs:2:5:\nno value\nnote: run with\n", "thread 'main' panicked at src/main.rs:2:5:", "no value"},
		{"panic: boom\n\ngoroutine 1 [running]:\n", "panic: boom", ""},
		{"Traceback (most recent call last):\n  File", "Traceback (most recent call last):", ""},
		{"Traceback (most recent call last):", "Traceback (most recent call last):", ""},
		{"Traceback (most recent call last):\n" + strings.Repeat("  File\n", 300) + "ValueError\n", "Traceback (most recent call last):", ""},
	} {
		if line, cause, ok := panics.FindCause(tt.text); !ok || line != tt.line || cause != tt.cause {
			t.Errorf("FindCause(%q) = %q, %q, %t; want %q, %q", tt.text, line, cause, ok, tt.line, tt.cause)
		}
	}
	if line, cause, ok := panics.FindCause("non-fatal error\n"); ok || line+cause != "" {
		t.Errorf("FindCause = %q, %q; want nothing", line, cause)
	}
}
