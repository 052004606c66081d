package excerpt_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tocsin-bus/tocsin/services/investigator/toolbox/excerpt"
)

// Reading on at the offsets that the answers name gives the whole text.
func TestReadGivesTheWhole(t *testing.T) {
	text := strings.Repeat("zwölf Boxkämpfer über den Sylter Deich\n", 2000)
	var whole strings.Builder
	for offset := 0; offset < len(text); {
		answer := excerpt.Read(text, offset, "")
		if len(answer) > excerpt.MaxAnswer {
			t.Fatalf("Read has %d bytes, want at most %d", len(answer), excerpt.MaxAnswer)
		}
		_, body, _ := strings.Cut(answer, "]\n")
		if i := strings.LastIndex(body, "\n["); i >= 0 {
			body = body[:i]
		}
		whole.WriteString(body)
		offset += len(body)
	}
	if whole.String() != text {
		t.Errorf("the parts have %d bytes, want the %d of the text", whole.Len(), len(text))
	}
}

func TestRead(t *testing.T) {
	text := "first line\nERROR: no space\nlast: Error again\n" + strings.Repeat("fill ", 100)
	tests := []struct {
		name   string
		offset int
		search string
		want   []string
	}{
		{"from an offset", 6, "", []string{"[bytes 6 to ", "line\nERROR"}},
		{"search aside from case", 0, "error", []string{"2 places", "offset 11: ", "offset 33: "}},
		{"search from an offset", 12, "error", []string{"1 places", "offset 33: "}},
		{"a pattern is a literal", 0, "E.*R", []string{"does not occur"}},
		{"many", 0, "fill", []string{"50 places so far", "search on from offset"}},
		{"an offset beyond the end", 10_000, "", []string{"outside"}},
		{"a negative offset", -1, "", []string{"outside"}},
		{"a long search", 0, strings.Repeat("x", 501), []string{"at most 500"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := excerpt.Read(text, test.offset, test.search)
			for _, want := range test.want {
				if !strings.Contains(got, want) {
					t.Errorf("Read = %q, want %q in it", got, want)
				}
			}
		})
	}
}

func TestSchema(t *testing.T) {
	if !json.Valid(excerpt.Schema()) {
		t.Errorf("Schema is no JSON: %s", excerpt.Schema())
	}
}

func FuzzRead(f *testing.F) {
	f.Add("some text", 2, "e")
	f.Add("İi", 0, "i")
	f.Fuzz(func(t *testing.T, text string, offset int, search string) {
		if got := excerpt.Read(strings.ToValidUTF8(text, "?"), offset, search); len(got) > excerpt.MaxAnswer || !utf8.ValidString(got) {
			t.Fatalf("Read = %q", got)
		}
	})
}
