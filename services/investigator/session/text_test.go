package session

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestNewTextKeepsShortTextsInline(t *testing.T) {
	long := strings.Repeat("line of a log\n", MaxInline/14+1)
	escaped := strings.Repeat("<", MaxInline/6+1)
	name := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return hex.EncodeToString(sum[:])
	}
	for name, c := range map[string]struct {
		whole  string
		object string
		store  bool
	}{
		"short":         {whole: "ok"},
		"bound":         {whole: strings.Repeat("x", MaxInline)},
		"long":          {whole: long, object: name(long), store: true},
		"long as JSON":  {whole: escaped, object: name(escaped), store: true},
		"bound as JSON": {whole: escaped[1:]},
	} {
		t.Run(name, func(t *testing.T) {
			got, store := NewText(c.whole)
			if store != c.store || got.Object != c.object || got.Len() != len(c.whole) {
				t.Errorf("NewText of %d bytes = object %q of %d bytes, store %t; want object %q, store %t", len(c.whole), got.Object, got.Len(), store, c.object, c.store)
			}
			if len(got.Shown()) > max(len(c.whole), maxExcerpt) || (!store && got.Shown() != c.whole) {
				t.Errorf("Shown() has %d bytes of %d", len(got.Shown()), len(c.whole))
			}
		})
	}
}

func TestExcerptKeepsHeadAndTailWithinItsLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 2000, -1).Draw(t, "text")
		limit := rapid.IntRange(0, 3000).Draw(t, "limit")
		got := Excerpt(text, limit, "hint")
		if len(got) > limit && got != text {
			t.Fatalf("an excerpt of %d bytes has %d, want at most %d", len(text), len(got), limit)
		}
		if !utf8.ValidString(got) {
			t.Fatalf("the excerpt %q is no valid text", got)
		}
		if len(text) <= limit && got != text {
			t.Fatalf("Excerpt(%q) = %q, want it unchanged", text, got)
		}
	})
	text := "first\n" + strings.Repeat("middle\n", 1000) + "last"
	got := Excerpt(text, 500, "see read_result")
	if !strings.HasPrefix(got, "first\n") || !strings.HasSuffix(got, "last") || !strings.Contains(got, "see read_result") {
		t.Errorf("Excerpt = %q, want the first line, the hint and the last line", got)
	}
}

func TestDerivedIDsAreULIDs(t *testing.T) {
	const id = "01JD3ZK9Q2W4X6Y8Z0A1B2C3D4"
	a, b := DeriveID(id, "stage", "1"), DeriveID(id, "stage", "2")
	if a == b || a != DeriveID(id, "stage", "1") || !ValidID(a) || a[:10] != id[:10] {
		t.Errorf("derived ids %q and %q: want two ULIDs of the time of %s", a, b, id)
	}
	if DeriveID(id, "ab", "c") == DeriveID(id, "a", "bc") {
		t.Error("parts are joined without a separator")
	}
	for _, bad := range []string{"", "01jd3zk9q2w4x6y8z0a1b2c3d4", "81JD3ZK9Q2W4X6Y8Z0A1B2C3D4", "01JD3ZK9Q2W4X6Y8Z0A1B2C3DI"} {
		if ValidID(bad) {
			t.Errorf("ValidID(%q) = true, want false", bad)
		}
	}
}

// The excerpt of an object is that of its whole text, as far as its head and tail reach.
func TestExcerptOfAnObject(t *testing.T) {
	whole := "first\n" + strings.Repeat("[... 7 bytes left out: the rest is stored ...]\n", MaxInline/40) + "last"
	object, store := NewText(whole)
	if !store {
		t.Fatal("the text is inline, want an object")
	}
	hint := func(offset int) string { return fmt.Sprintf("read on at %d", offset) }
	for _, limit := range []int{1000, 50_000, maxExcerpt, maxExcerpt + 1000} {
		got := object.excerpt(limit, hint)
		var gap, offset int
		start := strings.Index(got, ": read on at ")
		if start < 0 {
			t.Fatalf("limit %d: the excerpt has no hint", limit)
		}
		line := got[strings.LastIndexByte(got[:start], '\n')+1:]
		if _, err := fmt.Sscanf(line, "[... %d bytes left out: read on at %d ...]", &gap, &offset); err != nil {
			t.Fatalf("limit %d: reading %.80q: %v", limit, line, err)
		}
		mark := strings.IndexByte(line, '\n') + 2
		if len(got) > limit || len(got)-mark+gap != len(whole) || got[:offset] != whole[:offset] || !strings.HasSuffix(got, "last") {
			t.Errorf("limit %d: %d bytes with %d left out after %d, want %d in all, from the first to the last", limit, len(got), gap, offset, len(whole))
		}
	}
	if head, tail, isWhole := (Text{Object: "x", Size: 5, Excerpt: "whole"}).ends(); head != "whole" || tail != "" || !isWhole {
		t.Errorf("ends of a text that is there = %q, %q, %t; want it whole", head, tail, isWhole)
	}
}
