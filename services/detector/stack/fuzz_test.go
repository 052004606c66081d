package stack_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/services/detector/stack"
)

// checkAppend checks that a key is bounded, is the same each time, and is appended to what was
// there.
func checkAppend(t *testing.T, text, message string) {
	t.Helper()
	key, trace := stack.Append(nil, text, message)
	if len(key) > stack.MaxKey {
		t.Fatalf("got a key of %d bytes, want at most %d", len(key), stack.MaxKey)
	}
	if trace.Frames > stack.MaxFrames || trace.Named > trace.Frames {
		t.Fatalf("got %d frames, %d of them named, want at most %d", trace.Frames, trace.Named, stack.MaxFrames)
	}
	if (trace.Frames == 0) != (trace.Top() == "") {
		t.Fatalf("got Top() = %q with %d frames, want it empty only without frames", trace.Top(), trace.Frames)
	}
	again, second := stack.Append([]byte("before"), text, message)
	if want := "before" + string(key); string(again) != want {
		t.Fatalf("got %q the second time, want %q", again, want)
	}
	if second.Type != trace.Type || second.Headline != trace.Headline || second.Top() != trace.Top() {
		t.Fatalf("got %+v the second time, want %+v", second, trace)
	}
	if trace.Headline != "" && !strings.Contains(text, trace.Headline) {
		t.Fatalf("got headline %q, want a part of %q", trace.Headline, text)
	}
}

func FuzzAppend(f *testing.F) {
	for _, text := range []string{chrome, firefox, safari, node, python, pythonCaused, goPanic, goRecovered, javaTrace, dotnetTrace, rubyTrace, phpTrace, rustTrace} {
		f.Add(text, "Uncaught TypeError: x")
	}
	for _, text := range []string{
		"at ", "at  {", "at async  {", "at (", "at  (", "at a(", "at )(", "at <", "at async ", "at eval at ", "at x (eval at ()", "@", "@:1", "a@http://", "#0 ", "#0 (): ", "#0 a(1): (",
		"0: ", "0: ::\nat", `File "`, `File "", line `, "\n\t.go:1", "a\n\t.go:1", "panic\n\t.go:1", ":in `", ":in '", "Caused by: ", "Caused by: \nat a (b:1)",
		"Traceback (most recent call last)\n", "E ---> ", "---> ", "thread 'a' panicked at", "goroutine :", "Error [", "Error []: x", "Exception in thread \"", "|", "+ |",
		"at a.b\\c:1:1", "at /..:1", "at -.....-:1:1", "at f (a-12345678.js:1)", "at f (-12345678.js:1)", "\x00\xff@/\xff:1", strings.Repeat("at a (b:1)\n", 1000),
	} {
		f.Add(text, "")
	}
	f.Fuzz(checkAppend)
}

// TestBounds checks that the key of a very long trace is bounded, and is made from the first
// part of the trace only.
func TestBounds(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for _, text := range []string{
		long, "Error: " + long, "at " + long, "at " + long + " (" + long + ":1:1)", "at f (/" + long + "/a.js:1:1)", strings.Repeat("a.", 1<<19) + ": b",
		strings.Repeat("Caused by: ", 1<<16), "at f (/" + strings.Repeat("["+strings.Repeat("x", 200)+"]/", 9) + "a.js:1:1)", strings.Repeat("Caused by: E: x\n at a (/b.js:1)\n", 1<<12), strings.Repeat("at a (/b.js:1:1)\n", 1<<16), strings.Repeat("\n", 1<<20),
		strings.Repeat(`File "/a.py", line 1, in f`+"\n", 1<<12), "at f (/" + strings.Repeat("a-", 1<<19) + ".js:1:1)",
	} {
		checkAppend(t, text, long)
		key, _ := stack.Append(nil, text, "")
		cut, _ := stack.Append(nil, text[:min(len(text), stack.MaxScan)], "")
		if !bytes.Equal(key, cut) {
			t.Errorf("%.40q: got key %q, want that of the first %d bytes, %q", text, key, stack.MaxScan, cut)
		}
	}
}

// large returns a trace of about 4 KB with a number of frames of the app.
func large(app int) string {
	var b strings.Builder
	b.WriteString("TypeError: Cannot read properties of undefined (reading 'total')\n")
	for i := 0; b.Len() < 4096; i++ {
		if i < app {
			b.WriteString("    at renderCart" + string(rune('a'+i)) + " (https://shop.example/assets/cart-8f3c2a1b.js:10:1523)\n")
		} else {
			b.WriteString("    at Layer.handle [as handle_request] (/srv/shop/node_modules/express/lib/router/layer.js:95:5)\n")
		}
	}
	return b.String()
}

func BenchmarkAppend(b *testing.B) {
	for name, text := range map[string]string{
		"4KB, 10 frames of the app": large(10), "4KB, 2 frames of the app": large(2), "4KB, no frame of the app": large(0),
		"4KB of no trace": strings.Repeat("the quick brown fox jumps over the lazy dog\n", 93), "Java": javaTrace, "Python": python, "Go": goPanic, "Firefox": firefox,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var buffer []byte
			for b.Loop() {
				buffer, _ = stack.Append(buffer[:0], text, "Uncaught TypeError: x")
			}
		})
	}
}
