package redact_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/shared/redact"
)

// marker is a secret that only its name gives away.
const marker = "hunter" + "Zwo"

// pieces are what masking goes by, and some that it doesn't.
var pieces = []string{
	"a", "B", "7", "é", "\xff", " ", "\n", "\t", `\n`, `\`, `\\`, `"`, `\"`, "'", "`", "=", ":", "::", "==", "=>", "&", "?", "#", ";", ",", "/", "//", "@", "<", ">", "{", "}", "[", "]",
	"(", ")", "|", "%", "%20", "%22", "%3D", "%253D", `\u0026`, `\u0022`, "+", "-", ".", "token", "tokens", "password", "auth", "name", "Bearer", "Basic", "eyJ", "sk-", "Cookie: ", "<secret>", "name=\"pin\"", "4111", "[REDACTED]",
	"[REDACTED:jwt]", " ... [cut]", "-----BEGIN ", "word", "unexpected ", "\u200d", "\ufe0f", "%E2%80%8D", "tokenCount", "https://", "@",
}

func text() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom(pieces), rapid.StringN(0, 8, 16)), 0, 24).Draw(t, "pieces"), "")
	})
}

func maskings() map[string]func(string) string {
	e := redact.New()
	return map[string]func(string) string{"String": e.String, "URL": e.URL, "Body": e.Body}
}

func TestMaskingTwiceIsMaskingOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := text().Draw(t, "text")
		for name, mask := range maskings() {
			once := mask(s)
			if twice := mask(once); twice != once {
				t.Fatalf("%s = %q, masked again %q, want no change", name, once, twice)
			}
			if utf8.ValidString(s) && !utf8.ValidString(once) {
				t.Fatalf("%s = %q, want valid UTF-8", name, once)
			}
		}
	})
}

func TestATokenNeverSurvives(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.SampledFrom(shapes()).Draw(t, "shape").secret
		edge := rapid.SampledFrom([]string{" ", "\n", `"`, "'", "=", ":", "&", "/", "(", ",", "%20", "%3D", `\n`, `\u0026`, "é", "<"})
		end := rapid.SampledFrom([]string{" ", "\n", `"`, "'", "&", ")", ",", ";", "<", `\n`, `\u0026`, "é", "#", "%20", ". "})
		s := text().Draw(t, "before") + edge.Draw(t, "left") + secret + end.Draw(t, "right") + text().Draw(t, "after")
		for name, mask := range maskings() {
			if out := mask(s); strings.Contains(out, secret[len(secret)-12:]) {
				t.Fatalf("%s = %q, want it without the end of %q", name, out, secret)
			}
		}
	})
}

var sensitive = rapid.SampledFrom([]string{"password", "authToken", "client_secret", "X-API-Key", "refresh-token", "sessionId", "user[password]", "tok\u0065n", "credentials"})

func TestASensitiveParameterNeverSurvives(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		other := rapid.StringMatching(`[a-z]{1,6}=[a-z0-9%+.,'"(){}\[\]:@-]{0,8}`)
		value := url.QueryEscape(rapid.String().Draw(t, "left")) + marker + url.QueryEscape(rapid.String().Draw(t, "right"))
		query := other.Draw(t, "before") + "&" + sensitive.Draw(t, "name") + "=" + value + "&" + other.Draw(t, "after")
		for name, mask := range maskings() {
			for _, s := range []string{"/p?" + query, "https://example.com/#" + query, query} {
				if out := mask(s); strings.Contains(out, marker) {
					t.Fatalf("%s(%q) = %q, want it without %q", name, s, out, marker)
				}
			}
		}
	})
}

// unruly is what makes a value reach over the end of a JSON string: quotes of
// another kind, brackets that nothing closes. Then masking too much is right.
var unruly = strings.NewReplacer("'", "", "`", "", "<", "", "{", "", "[", "", "name=", "", "-----", "")

// document makes JSON with one secret in it, behind a sensitive name, and any
// text around it; calm leaves out what is unruly.
func document(t *rapid.T, calm bool) any {
	text := text()
	if calm {
		text = rapid.Map(text, unruly.Replace)
	}
	var secret any = rapid.String().Draw(t, "left") + marker + rapid.String().Draw(t, "right")
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		secret = []any{"a", secret}
	case 1:
		secret = map[string]any{"value": secret, "}": "]"}
	}
	var doc any = map[string]any{sensitive.Draw(t, "name"): secret, rapid.StringMatching(`[a-z]{1,8}`).Draw(t, "other"): text.Draw(t, "text")}
	for range rapid.IntRange(0, 3).Draw(t, "depth") {
		switch rapid.IntRange(0, 2).Draw(t, "wrap") {
		case 0:
			doc = []any{text.Draw(t, "text"), 1.5, doc, nil}
		case 1:
			doc = map[string]any{"wrapped": doc, "n": true, "card": 4111111111111111, "cards": []any{1.5, 4111111111111111, []any{4111111111111111}}}
		default: // JSON within JSON
			data, err := json.Marshal(doc)
			if err != nil {
				t.Fatal(err)
			}
			doc = map[string]any{"body": string(data)}
		}
	}
	return doc
}

func TestASensitiveFieldNeverSurvives(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		calm := rapid.Bool().Draw(t, "calm")
		data, err := json.MarshalIndent(document(t, calm), "", rapid.SampledFrom([]string{"", " "}).Draw(t, "indent"))
		if err != nil {
			t.Fatal(err)
		}
		whole := string(data)
		cut := whole[:rapid.IntRange(0, len(whole)).Draw(t, "cut")]
		e := redact.New()
		for _, s := range []string{whole, cut} {
			if out := e.Body(s); strings.Contains(out, marker) {
				t.Fatalf("Body(%s) = %s, want it without %q", s, out, marker)
			}
		}
		if out := e.String(whole); calm && !json.Valid([]byte(out)) {
			t.Fatalf("String(%s) = %s, want JSON", whole, out)
		}
	})
}

// One engine serves all goroutines; the race detector watches.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	e := redact.New()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for _, shape := range shapes() {
				text := "x=" + shape.secret + "&password=a"
				if e.String(text) != "x=[REDACTED:"+shape.rule+"]&password="+mask || e.URL(text) == text || e.Body(text) == text || e.Header("x-note", text) == text {
					t.Errorf("masked %q = %q, want the masked secret", text, e.String(text))
				}
			}
		})
	}
	wg.Wait()
}
