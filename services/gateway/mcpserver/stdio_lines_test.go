package mcpserver

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

// readLines reads text through a lineReader and returns what it passes to the SDK and what
// it answers to the client.
func readLines(t *testing.T, batches bool, text string) (passed, answered string) {
	t.Helper()
	var out bytes.Buffer
	in, err := io.ReadAll(newLineReader(strings.NewReader(text), &out, func() bool { return batches }))
	if err != nil {
		t.Fatal(err)
	}
	return string(in), out.String()
}

func TestLineReader(t *testing.T) {
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for _, tt := range []struct {
		name, in         string
		passed, answered string
	}{
		{"a message", ping + "\n", ping + "\n", ""},
		{"without a newline at the end", ping, ping + "\n", ""},
		{"a line end of Windows", ping + "\r\n", ping + "\n", ""},
		{"space around it, blank lines", "\n \t\n  " + ping + " \t\n\n", ping + "\n", ""},
		{"no JSON", "hello\n" + ping + "\n", ping + "\n", `"id":null,"error":{"code":-32700,"message":"parse error: `},
		{"two on a line", ping + ping + "\n", "", `"id":null,"error":{"code":-32700,`},
		{"nested too deep", strings.Repeat("[", 20_000) + "\n", "", `"id":null,"error":{"code":-32700,`},
		{"a number", "5\n", "", `"id":null,"error":{"code":-32600,`},
		{"null", "null\n", "", `"id":null,"error":{"code":-32600,`},
		{"an empty object", "{}\n", "", `"id":null,"error":{"code":-32600,`},
		{"without a version", `{"id":77,"method":"ping"}` + "\n", "", `"id":77,"error":{"code":-32600,`},
		{"an invalid id", `{"jsonrpc":"2.0","id":true,"method":"ping"}` + "\n", "", `"id":null,"error":{"code":-32600,`},
		{"a batch", "[" + ping + "]\n", "", `"id":null,"error":{"code":-32600,"message":"invalid request: the protocol has no batches since 2025-06-18"`},
		{"too long", `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", maxMessage) + `"}` + "\n" + ping + "\n", ping + "\n", `"id":null,"error":{"code":-32600,"message":"invalid request: a message must be at most 4194304 bytes"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			passed, answered := readLines(t, false, tt.in)
			if passed != tt.passed {
				t.Errorf("passed %q, want %q", passed, tt.passed)
			}
			if !strings.Contains(answered, tt.answered) || tt.answered == "" && answered != "" {
				t.Errorf("answered %q, want %q in it", answered, tt.answered)
			}
		})
	}
}

func TestLineReaderBatches(t *testing.T) {
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for in, want := range map[string]string{
		"[" + ping + "]":                   "",
		"[]":                               "at least one message",
		"[" + ping + ",5]":                 "in a batch",
		"[" + ping + "," + ping + "]":      "the same id",
		`[{"jsonrpc":"2.0","method":"n"}]`: "",
	} {
		passed, answered := readLines(t, true, in+"\n")
		if got, ok := passed == in+"\n", want == ""; got != ok || !strings.Contains(answered, want) {
			t.Errorf("%s: passed %q, answered %q, want it passed: %t, and %q in the answer", in, passed, answered, ok, want)
		}
	}
}

// FuzzLineReader: of any input, the lines that pass are messages, and the answers are lines
// of JSON.
func FuzzLineReader(f *testing.F) {
	f.Add([]byte("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n[]\nx"), true)
	f.Add([]byte("{\"id\":\"\\ud800\"}\n"), false)
	f.Fuzz(func(t *testing.T, data []byte, batches bool) {
		passed, answered := readLines(t, batches, string(data))
		again, refused := readLines(t, batches, passed)
		if again != passed || refused != "" {
			t.Errorf("reading %q again passed %q and refused %q, want all of it passed", passed, again, refused)
		}
		if _, wrong := readLines(t, false, answered); answered != "" && strings.Contains(wrong, "-32700") {
			t.Errorf("answered %q, want JSON", answered)
		}
	})
}
