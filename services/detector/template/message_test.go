package template_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/detector/template"
)

func TestMessage(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"plain text stays", "Cannot read properties of undefined", "Cannot read properties of undefined"},
		{"numbers", "Retry 3 of 5 after 1500ms", "Retry <n> of <n> after <n>ms"},
		{"decimals, thousands, signs", "took 12.5ms, 1,234,567 rows, delta -3 (+0.5)", "took <n>ms, <n> rows, delta <n> (<n>)"},
		{"a list is no thousands", "1,23 and 1,2345", "<n>,<n> and <n>,<n>"},
		{"a word with a number keeps its letters", "user42 on http2 v2.1", "user<n> on http<n> v<n>.<n>"},
		{"uuid", "order 8f14e45f-ceea-467f-a8f2-9b1d1c2f4c11 gone", "order <id> gone"},
		{"hex, also when it is all digits", "commit 4f3a2b1c after 12345678", "commit <n> after <n>"},
		{"0x", "at 0xdeadBEEF", "at <n>"},
		{"mixed id", "req_x7Kp2Lm9 failed", "req_<n> failed"},
		{"long id", "trace 4bf92f3577b34da6a3ce929d0e0e4736", "trace <id>"},
		{"hex, also when it is all letters", "commit deadbeef, cafebabe: feed-facefeed ABCDEFAB abcdefabcdefabcdefab", "commit <n>, <n>: feed-<n> <n> <id>"},
		{"up to 7 such letters are a word, and so is one with other letters", "defaced deadbeefy décadence beefdeadé", "defaced deadbeefy décadence beefdeadé"},
		{"words that look like hex", "facade added a decade", "facade added a decade"},
		{"quoted", `Module "./a.js" and 'b' and ` + "`c`" + ` not found`, "Module <str> and <str> and <str> not found"},
		{"apostrophes", "can't won't: it's 'this one'", "can't won't: it's <str>"},
		{"an escaped quote", `said "a \" b" twice`, "said <str> twice"},
		{"a quote that never closes", `5" of 'rope`, `<n>" of 'rope`},
		{"names in JSON stay", `{"id": 5, "name": "x"}`, `{"id": <n>, "name": <str>}`},
		{"a quoted string before a colon is no name", `no "a": b`, `no <str>: b`},
		{"time", "at 2026-01-28T14:30:00.123Z and 2026-01-28 14:30:00,5+01:00 and 2026/01/28.", "at <time> and <time> and <time>."},
		{"a clock alone is numbers, like line and column", "14:30:00 app.js:10:20", "<n>:<n>:<n> app.js:<n>:<n>"},
		{"ipv4", "10.0.0.5:8080 refused, version 1.2.3.4.5", "<ip>:<n> refused, version <n>"},
		{"ipv6", "from fe80::1ff:fe23:4567:890a and 2001:0db8:0:0:0:8a2e:370:7334", "from <ip> and <ip>"},
		{"mac", "from 00:1a:2b:3c:4d:5e", "from <id>"},
		{"paths", "open /home/u/3f2a9c1b/file-12.js", "open /home/u/<n>/file-<n>.js"},
		{"the query of a URL", "GET http://localhost:3000/api/users/42?token=abc&x=1 failed", "GET http://localhost:<n>/api/users/<n>?<str> failed"},
		{"a question is no query", "ready? http://a/b#top, (https://c/d?e) ok?", "ready? http://a/b#<str>, (https://c/d?<str>) ok?"},
		{"white space", "  a\t\n b \r\n", "a b"},
		{"other scripts", "größe 5 für 日本42", "größe <n> für 日本<n>"},
		{"empty", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := template.Message(tt.in); got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
			if got, want := string(template.Append([]byte("kept "), tt.in)), "kept "+tt.want; got != want {
				t.Errorf("Append = %q, want %q", got, want)
			}
		})
	}
}

// TestOneTemplateForEveryID checks that all ids of a form have one template, which the noise
// rules depend on.
func TestOneTemplateForEveryID(t *testing.T) {
	forms := map[string]*rapid.Generator[string]{
		"user <n>":     rapid.StringMatching(`user [1-9][0-9]{0,9}`),
		"commit <n>":   rapid.StringMatching(`commit [0-9a-f]{8}`),
		"trace <id>":   rapid.StringMatching(`trace [0-9a-f]{32}`),
		"order <id>":   rapid.StringMatching(`order [0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`),
		"took <n>ms":   rapid.StringMatching(`took (0|[1-9][0-9]{0,5})(\.[0-9]{1,3})?ms`),
		"from <ip>":    rapid.StringMatching(`from [1-9][0-9]?\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}`),
		"no <str>":     rapid.StringMatching(`no "[^"\\]{0,40}"`),
		"at <time> ok": rapid.StringMatching(`at 20[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?Z ok`),
	}
	for want, form := range forms {
		t.Run(want, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				in := form.Draw(t, "message")
				if got := template.Message(in); got != want {
					t.Fatalf("template of %q = %q, want %q", in, got, want)
				}
			})
		})
	}
}

func TestBounds(t *testing.T) {
	for name, unit := range map[string]string{
		"words": "lorem ipsum ", "quotes": `"'`, "marks": "{[(", "characters": "日本語 ", "numbers": "1 ", "one number": "7", "broken quotes": `'a`,
	} {
		got := template.Message(strings.Repeat(unit, 100_000))
		if len(got) > template.MaxLen || !utf8.ValidString(got) {
			t.Errorf("%s: template has %d bytes, valid UTF-8 %v, want at most %d, valid", name, len(got), utf8.ValidString(got), template.MaxLen)
		}
	}
}

func FuzzMessage(f *testing.F) {
	for _, seed := range []string{
		"Retry 3 of 5", `{"id": 5, "name": "x\"y"}`, "http://a/b?c#d 'it's' 10.0.0.1 fe80::1 00:1a:2b:3c:4d:5e",
		"2026-01-28T14:30:00.1Z 8f14e45f-ceea-467f-a8f2-9b1d1c2f4c11 0xff", "\xff\xfe日\x00", "::1 1::",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, message string) {
		got := template.Message(message)
		if len(got) > template.MaxLen {
			t.Errorf("template has %d bytes, want at most %d", len(got), template.MaxLen)
		}
		if utf8.ValidString(message) && len(message) < 2000 && !utf8.ValidString(got) {
			t.Errorf("template of valid text = %q, want valid UTF-8", got)
		}
		if again := template.Message(message); again != got {
			t.Errorf("second template = %q, want that of the first call, %q", again, got)
		}
	})
}

func BenchmarkMessage(b *testing.B) {
	for _, bm := range []struct{ name, message string }{
		{"words", "Cannot read properties of undefined (reading length) at render in the shopping cart of the shop"},
		{"typical", `GET http://localhost:3000/api/users/42?full=1 took 1234.5ms for user "alice" (req 8f14e45f-ceea-467f-a8f2-9b1d1c2f4c11)`},
		{"numbers", strings.Repeat("12 34.5 ab12 ", 10)},
		{"worst", strings.Repeat("'a", 50_000)},
	} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			var buf []byte
			for b.Loop() {
				buf = template.Append(buf[:0], bm.message)
			}
		})
	}
}
