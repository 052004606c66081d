package sanitize_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

func TestStripAndVisible(t *testing.T) {
	for _, tt := range []struct{ name, in, strip, visible string }{
		{"plain", "Cannot read properties of undefined", "", ""},
		{"umlauts, CJK and emoji", "Größe 尺寸 🚨", "", ""},
		{"emoji joined by ZWJ", "👩\u200d💻 ok", "", ""},
		{"joiners in Persian", "می\u200cخواهم", "", ""},
		{"ANSI", "\x1b[31mred\x1b[0m", "␛[31mred␛[0m", "␛[31mred␛[0m"},
		{"C1 CSI", "a\u009b31mb", `a\u009b31mb`, `a\u009b31mb`},
		{"NUL and DEL", "a\x00b\x7f", "a␀b␡", "a␀b␡"},
		{"lines", "a\nb\tc", "a\nb\tc", "a␊b␉c"},
		{"CRLF", "a\r\nb\rc", "a\nb␍c", "a␍␊b␍c"},
		{"bidirectional override", "user\u202etxt.exe", "usertxt.exe", "usertxt.exe"},
		{"isolates", "a\u2066b\u2069c", "abc", "abc"},
		{"zero-width space and BOM", "pass\u200bword\ufeff", "password", "password"},
		{"word joiner", "a\u2060b", "ab", "ab"},
		{"soft hyphen", "a\u00adb", "ab", "ab"},
		{"tags", "hi\U000e0041\U000e007f", "hi", "hi"},
		{"line separator", "a\u2028b", `a\u2028b`, `a\u2028b`},
		{"paragraph separator", "a\u2029b", `a\u2029b`, `a\u2029b`},
		{"variation selectors", "a\ufe00b\ufe0fc\U000e0100d\U000e01efe", "abcde", "abcde"},
		{"an emoji with its selector", "ok \u2764\ufe0f \u0031\ufe0f\u20e3", "ok \u2764 1\u20e3", "ok \u2764 1\u20e3"},
		{"grapheme joiner", "a\u034fb", "ab", "ab"},
		{"blank letters", "a\u115fb\u1160c\u3164d\uffa0e\u17b4f\u17b5g", "abcdefg", "abcdefg"},
		{"Mongolian selectors", "a\u180bb\u180fc", "abc", "abc"},
		{"unassigned and musical controls", "a\ufff0b\U0001d173c\U000e0fffd", "abcd", "abcd"},
		{"no UTF-8", "a\xffb", "a\ufffdb", "a\ufffdb"},
		{"empty", "", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.strip == "" {
				tt.strip, tt.visible = tt.in, tt.in
			}
			if got := sanitize.Strip(tt.in); got != tt.strip {
				t.Errorf("Strip: got %q, want %q", got, tt.strip)
			}
			if got := sanitize.Visible(tt.in); got != tt.visible {
				t.Errorf("Visible: got %q, want %q", got, tt.visible)
			}
		})
	}
}

func TestCut(t *testing.T) {
	for _, tt := range []struct {
		in    string
		limit int
		want  string
	}{
		{"abc", 3, "abc"},
		{"abcd", 3, "ab…"},
		{"äöü", 3, "äöü"},
		{"äöüß", 3, "äö…"},
		{"ab", 1, "…"},
		{"", 5, ""},
	} {
		if got := sanitize.Cut(tt.in, tt.limit); got != tt.want {
			t.Errorf("Cut(%q, %d): got %q, want %q", tt.in, tt.limit, got, tt.want)
		}
	}
}

func TestCleanTextIsNotCopied(t *testing.T) {
	text := strings.Repeat("a clean line of läter words ", 20)
	var got string
	if n := testing.AllocsPerRun(100, func() { got = sanitize.Cut(sanitize.Strip(text), 1000) }); n != 0 || got != text {
		t.Errorf("%v allocations, text %q, want 0 and the text unchanged", n, got)
	}
}

func FuzzVisible(f *testing.F) {
	f.Add("\x1b[31m\u202e\u200b\r\n\t\U000e0041", 3)
	f.Add("plain", 200)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		visible := sanitize.Visible(text)
		for _, r := range visible {
			if r < ' ' || r >= 0x7f && r < 0xa0 || r == 0x202e || r == 0x200b || r == 0x2028 {
				t.Fatalf("Visible = %q with %U, want no control character", visible, r)
			}
		}
		if again := sanitize.Visible(visible); again != visible {
			t.Fatalf("Visible(%q) = %q, want it unchanged", visible, again)
		}
		if again := sanitize.Strip(sanitize.Strip(text)); again != sanitize.Strip(text) {
			t.Fatalf("Strip of %q twice = %q, want %q", text, again, sanitize.Strip(text))
		}
		if limit > 0 {
			if cut := sanitize.Cut(visible, limit); utf8.RuneCountInString(cut) > limit || !utf8.ValidString(cut) {
				t.Fatalf("Cut(%q, %d) = %q, want valid UTF-8 of at most that length", visible, limit, cut)
			}
		}
	})
}

func BenchmarkStripClean(b *testing.B) {
	text := strings.Repeat("GET /api/users took 120 ms; ", 4)
	b.ReportAllocs()
	for b.Loop() {
		sanitize.Strip(text)
	}
}
