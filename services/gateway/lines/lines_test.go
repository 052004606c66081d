package lines_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/services/gateway/lines"
)

// filter runs text through lines and returns what the SDK and what the client
// gets.
func filter(t *testing.T, batches bool, text string) (passed, answered string) {
	t.Helper()
	var out bytes.Buffer
	in, err := io.ReadAll(lines.New(strings.NewReader(text), &out, func() bool { return batches }))
	if err != nil {
		t.Fatal(err)
	}
	return string(in), out.String()
}

func TestLines(t *testing.T) {
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for _, tt := range []struct {
		name, in         string
		passed, answered string
	}{
		{"a message", ping + "\n", ping + "\n", ""},
		{"without a newline at the end", ping, ping + "\n", ""},
		{"Windows", ping + "\r\n", ping + "\n", ""},
		{"space around it, blank lines", "\n \t\n  " + ping + " \t\n\n", ping + "\n", ""},
		{"no JSON", "hello\n" + ping + "\n", ping + "\n", `"id":null,"error":{"code":-32700,"message":"parse error: `},
		{"two on a line", ping + ping + "\n", "", `"id":null,"error":{"code":-32700,`},
		{"nested too deep", strings.Repeat("[", 20_000) + "\n", "", `"id":null,"error":{"code":-32700,`},
		{"a number", "5\n", "", `"id":null,"error":{"code":-32600,`},
		{"null", "null\n", "", `"id":null,"error":{"code":-32600,`},
		{"an empty object", "{}\n", "", `"id":null,"error":{"code":-32600,`},
		{"without a version", `{"id":77,"method":"ping"}` + "\n", "", `"id":77,"error":{"code":-32600,`},
		{"an id that is none", `{"jsonrpc":"2.0","id":true,"method":"ping"}` + "\n", "", `"id":null,"error":{"code":-32600,`},
		{"a batch", "[" + ping + "]\n", "", `"id":null,"error":{"code":-32600,"message":"invalid request: batches are no part of the protocol since 2025-06-18"`},
		{"too long", `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", lines.Max) + `"}` + "\n" + ping + "\n", ping + "\n", `"id":null,"error":{"code":-32600,"message":"invalid request: a message must be at most 4194304 bytes"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			passed, answered := filter(t, false, tt.in)
			if passed != tt.passed || !strings.Contains(answered, tt.answered) || tt.answered == "" && answered != "" {
				t.Errorf("passed %q\nanswered %q", passed, answered)
			}
		})
	}
}

func TestBatchLines(t *testing.T) {
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for in, want := range map[string]string{
		"[" + ping + "]":                   "",
		"[]":                               "at least one message",
		"[" + ping + ",5]":                 "in a batch",
		"[" + ping + "," + ping + "]":      "the same id",
		`[{"jsonrpc":"2.0","method":"n"}]`: "",
	} {
		passed, answered := filter(t, true, in+"\n")
		if (passed == in+"\n") != (want == "") || !strings.Contains(answered, want) {
			t.Errorf("%s: passed %q, answered %q", in, passed, answered)
		}
	}
}

// FuzzLines: whatever comes, what is passed on are messages, one a line, and
// what is answered are whole lines.
func FuzzLines(f *testing.F) {
	f.Add([]byte("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n[]\nx"), true)
	f.Add([]byte("{\"id\":\"\\ud800\"}\n"), false)
	f.Fuzz(func(t *testing.T, data []byte, batches bool) {
		passed, answered := filter(t, batches, string(data))
		again, refused := filter(t, batches, passed)
		if again != passed || refused != "" {
			t.Errorf("%q passed and is then refused: %q", passed, refused)
		}
		if _, wrong := filter(t, false, answered); answered != "" && strings.Contains(wrong, "-32700") {
			t.Errorf("answered what is no JSON: %q", answered)
		}
	})
}
