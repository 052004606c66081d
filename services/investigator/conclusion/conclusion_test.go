package conclusion_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/investigator/conclusion"
	"github.com/tocsin-bus/tocsin/shared/redact"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

const whole = `{"cause":"The deploy set DB_HOST to a name that does not exist.","confidence":"proven",
"evidence":[{"claim":"The pod cannot resolve its database","call_id":"call_1","quote":"lookup db-old: no such host"},{"claim":"It is in the configuration","call_id":"fact-2","quote":"DB_HOST=db-old"}],
"ruled_out":[{"hypothesis":"The database is down","call_id":"call_3"},{"hypothesis":"Network policy"}],
"impact":"No orders since 10:04.","next_steps":["Correct DB_HOST","Add a check\nto the pipeline"],
"suggested_change":{"file":"deploy/values.yaml","description":"Set DB_HOST to db-main."}}`

func lookup(texts map[string]string) func(string) []string {
	return func(id string) []string {
		if text, ok := texts[id]; ok {
			return []string{text}
		}
		return nil
	}
}

func parsed(t *testing.T, text string) conclusion.Conclusion {
	t.Helper()
	c, err := conclusion.Parse(text)
	if err != nil {
		t.Fatalf("Parse(%s) = %v, want a conclusion", text, err)
	}
	return c
}

func TestWireForm(t *testing.T) {
	for name, c := range map[string]conclusion.Conclusion{
		"proven": conclusion.Check(parsed(t, whole), lookup(map[string]string{"call_1": "dial: lookup db-old: no such host", "fact-2": "DB_HOST=db-old"})),
		"likely": conclusion.Check(parsed(t, whole), lookup(map[string]string{"call_1": "dial: lookup db-old: no such host"})),
		"least":  parsed(t, `{"cause":"Unknown.","confidence":"unproven"}`),
		"prose":  conclusion.Prose(),
	} {
		data, err := json.MarshalIndent(c, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name+".json", append(data, '\n'))
		if c.Structured {
			golden(t, name+".md", []byte(conclusion.Markdown(c)))
		}
	}
	var schema bytes.Buffer
	if err := json.Indent(&schema, conclusion.Schema, "", "  "); err != nil {
		t.Fatalf("Schema: %v, want JSON", err)
	}
	if got := conclusion.Markdown(conclusion.Prose()); got != "" {
		t.Errorf("Markdown of prose = %q, want nothing", got)
	}
}

func TestParseRefuses(t *testing.T) {
	many := func(item string, n int) string { return "[" + strings.Repeat(item+",", n-1) + item + "]" }
	evidence := `{"claim":"c","call_id":"x","quote":"12345678"}`
	for _, tt := range []struct{ name, in, want string }{
		{"nothing", ``, "not a JSON object"},
		{"null", `null`, "not a JSON object"},
		{"a list", `[]`, "not a JSON object"},
		{"broken", `{"cause":`, "unexpected EOF"},
		{"more after it", `{"cause":"a","confidence":"likely"} {}`, "go on after"},
		{"no UTF-8", "{\"cause\":\"\xff\"}", "UTF-8"},
		{"too large", `{"cause":"` + strings.Repeat("a", conclusion.MaxArguments) + `"}`, "at most 262144"},
		{"unknown key", `{"cause":"a","confidence":"likely","severity":1}`, `unknown field "severity"`},
		{"supported by the model", `{"cause":"a","confidence":"likely","evidence":[{"claim":"c","call_id":"x","quote":"12345678","supported":true}]}`, `unknown field "supported"`},
		{"wrong type", `{"cause":7,"confidence":"likely"}`, "cause"},
		{"no cause", `{"cause":" ","confidence":"likely"}`, "cause is missing or empty"},
		{"no confidence", `{"cause":"a"}`, "proven, likely, unproven"},
		{"bad confidence", `{"cause":"a","confidence":"Proven"}`, `confidence is "Proven"`},
		{"short quote", `{"cause":"a","confidence":"likely","evidence":[{"claim":"c","call_id":"x","quote":"1234567"}]}`, "evidence[0].quote has 7 characters; it needs 8 to 500"},
		{"long quote", `{"cause":"a","confidence":"likely","evidence":[{"claim":"c","call_id":"x","quote":"` + strings.Repeat("é", 501) + `"}]}`, "has 501 characters"},
		{"no call", `{"cause":"a","confidence":"likely","evidence":[{"claim":"c","quote":"12345678"}]}`, "evidence[0].call_id is missing"},
		{"much evidence", `{"cause":"a","confidence":"likely","evidence":` + many(evidence, 21) + `}`, "evidence has 21 items; send at most 20"},
		{"many steps", `{"cause":"a","confidence":"likely","next_steps":` + many(`"a"`, 21) + `}`, "next_steps has 21"},
		{"many hypotheses", `{"cause":"a","confidence":"likely","ruled_out":` + many(`{"hypothesis":"a"}`, 21) + `}`, "ruled_out has 21"},
		{"long impact", `{"cause":"a","confidence":"likely","impact":"` + strings.Repeat("a", 4001) + `"}`, "impact has 4001"},
		{"all at once", `{"confidence":"x","suggested_change":{}}`, "cause is missing or empty\nconfidence is \"x\"; it is one of proven, likely, unproven\nsuggested_change.file is missing or empty\nsuggested_change.description"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if c, err := conclusion.Parse(tt.in); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Parse = %+v, %v, want an error with %q", c, err, tt.want)
			}
		})
	}
	for _, n := range []int{conclusion.MinQuote, conclusion.MaxQuote} {
		parsed(t, fmt.Sprintf(`{"cause":"a","confidence":"likely","evidence":[{"claim":"c","call_id":"x","quote":%q}]}`, strings.Repeat("é", n)))
	}
}

func TestQuotes(t *testing.T) {
	for _, tt := range []struct {
		name, text, quote string
		want              bool
	}{
		{"verbatim", "a panic: nil map in main.go", "panic: nil map", true},
		{"another case", "a panic: nil map", "Panic: nil map", false},
		{"paraphrased", "a panic: nil map", "panic: a nil map", false},
		{"made up", "all is well here", "panic: nil map", false},
		{"no text", "", "panic: nil map", false},
		{"lines", "error:\r\n\t  no such host", "error: no such host", true},
		{"no-break space", "error: no\u00a0such host", "error: no such host", true},
		{"missing space", "error: no such host", "error:no such host", false},
		{"quote with lines", "error: no such host", "error:\n no such  host ", true},
		{"text escaped", `{"log":"open \"a.txt\":\n no such file"}`, "open \"a.txt\": no such file", true},
		{"text escaped twice", `{"log":"{\"msg\":\"open \\\"a.txt\\\"\"}"}`, `open "a.txt"`, true},
		{"quote escaped", `open "a.txt" failed`, `open \"a.txt\" failed`, true},
		{"both escaped", `{"log":"open \"a.txt\""}`, `"open \"a.txt\""`, true},
		{"unicode escape", `{"log":"Gr\u00f6\u00dfe \ud83d\udea8 ok"}`, "Größe 🚨 ok", true},
		{"lone surrogate", `{"log":"\ud83d bad one"}`, "\ufffd bad one", true},
		{"windows path", `C:\new\table missing`, `C:\new\table`, true},
		{"slash", `GET \/api\/users`, "GET /api/users", true},
		{"NFD text", norm.NFD.String("Größe ungültig"), "Größe ungültig", true},
		{"NFD quote", "Größe ungültig", norm.NFD.String("Größe ungültig"), true},
		{"only space", "       \n\n\n       ", "\n\n\n\n\n\n\n\n\n", false},
		{"short without space", "a b", "a       b", false},
		{"short without escapes", `a"b`, `\u0061\"b`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := conclusion.Conclusion{Confidence: conclusion.Proven, Structured: true, Evidence: []conclusion.Evidence{{CallID: "x", Quote: tt.quote, Supported: !tt.want}}}
			if got := conclusion.Check(c, lookup(map[string]string{"x": tt.text})); got.Evidence[0].Supported != tt.want {
				t.Errorf("%q in %q: supported = %t, want %t", tt.quote, tt.text, got.Evidence[0].Supported, tt.want)
			}
		})
	}
}

func TestConfidence(t *testing.T) {
	const yes, no = "it is there", "it is not there"
	for _, tt := range []struct {
		given  conclusion.Confidence
		quotes []string
		want   conclusion.Confidence
	}{
		{conclusion.Proven, nil, conclusion.Likely},
		{conclusion.Likely, nil, conclusion.Likely},
		{conclusion.Unproven, nil, conclusion.Unproven},
		{conclusion.Proven, []string{yes}, conclusion.Proven},
		{conclusion.Proven, []string{yes, no}, conclusion.Likely},
		{conclusion.Likely, []string{yes, no}, conclusion.Likely},
		{conclusion.Proven, []string{no}, conclusion.Unproven},
		{conclusion.Likely, []string{no, no}, conclusion.Unproven},
		{conclusion.Unproven, []string{yes}, conclusion.Unproven},
	} {
		c := conclusion.Conclusion{Confidence: tt.given, Structured: true}
		for _, q := range tt.quotes {
			c.Evidence = append(c.Evidence, conclusion.Evidence{CallID: "x", Quote: q})
		}
		if got := conclusion.Check(c, lookup(map[string]string{"x": "we see: it is there"})).Confidence; got != tt.want {
			t.Errorf("%s with %q: got %s, want %s", tt.given, tt.quotes, got, tt.want)
		}
	}
}

// TestTexts: each text is looked up once, however many pieces cite it, and evidence beyond the
// bound is not looked up.
func TestTexts(t *testing.T) {
	asked := map[string]int{}
	c := conclusion.Conclusion{Confidence: conclusion.Likely}
	for i := range conclusion.MaxEvidence + 1 {
		c.Evidence = append(c.Evidence, conclusion.Evidence{CallID: fmt.Sprint("call", i/2), Quote: "it is there"})
	}
	got := conclusion.Check(c, func(id string) []string { asked[id]++; return []string{"it is there"} })
	for id, n := range asked {
		if n != 1 {
			t.Errorf("%s was looked up %d times, want once", id, n)
		}
	}
	if len(asked) != conclusion.MaxEvidence/2 || !got.Evidence[conclusion.MaxEvidence-1].Supported || got.Evidence[conclusion.MaxEvidence].Supported {
		t.Errorf("looked up %v, want the texts of the first %d pieces alone", asked, conclusion.MaxEvidence)
	}
	if c.Evidence[0].Supported {
		t.Error("Check changed its argument")
	}
}

// TestSeveralTexts: a quote is found in any of the texts with its id, and not across two of them.
func TestSeveralTexts(t *testing.T) {
	texts := func(string) []string { return []string{"the pod exits", "with status 137", "out of memory"} }
	c := conclusion.Conclusion{Confidence: conclusion.Proven, Evidence: []conclusion.Evidence{
		{CallID: "x", Quote: "the pod exits"}, {CallID: "x", Quote: "out of memory"}, {CallID: "x", Quote: "exits with status"}, {CallID: "x", Quote: "exitswith status"},
	}}
	var got []bool
	for _, e := range conclusion.Check(c, texts).Evidence {
		got = append(got, e.Supported)
	}
	if diff := cmp.Diff([]bool{true, true, false, false}, got); diff != "" {
		t.Errorf("supported (-want +got):\n%s", diff)
	}
}

// TestEvidenceThatIsThere: a part of a text is found, however either was escaped, spaced or
// composed; one with a character that the text lacks is not.
func TestEvidenceThatIsThere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.StringMatching(`[a-zäöüÅ"\\/{}:=]{1,10}`), 9, 30).Draw(t, "words")
		from := rapid.IntRange(0, len(words)-8).Draw(t, "from")
		space := rapid.SampledFrom([]string{" ", "\n", "\t ", "  ", "\r\n", "\u00a0"})
		text, quote := strings.Join(words, space.Draw(t, "space")), strings.Join(words[from:from+8], space.Draw(t, "other space"))
		made := quote + "§"
		shape := func(name, s string) string {
			if rapid.Bool().Draw(t, name+" decomposed") {
				s = norm.NFD.String(s)
			}
			if rapid.Bool().Draw(t, name+" escaped") {
				data, err := json.Marshal(s)
				if err != nil {
					t.Fatal(err)
				}
				s = string(data[1 : len(data)-1])
			}
			return s
		}
		c := conclusion.Conclusion{Confidence: conclusion.Proven, Evidence: []conclusion.Evidence{{CallID: "x", Quote: shape("quote", quote)}, {CallID: "x", Quote: made}}}
		got := conclusion.Check(c, lookup(map[string]string{"x": shape("text", text)}))
		if !got.Evidence[0].Supported || got.Evidence[1].Supported || got.Confidence != conclusion.Likely {
			t.Fatalf("got %+v, want the first piece alone supported, and likely", got)
		}
		if diff := cmp.Diff(got, conclusion.Check(got, lookup(map[string]string{"x": text}))); diff != "" && got.Evidence[0].Quote == quote {
			t.Fatalf("checked twice (-once +twice):\n%s", diff)
		}
	})
}

func TestPublishedChange(t *testing.T) {
	mask := redact.New()
	base := func() conclusion.Conclusion {
		return conclusion.Conclusion{Confidence: conclusion.Proven, Structured: true, Evidence: []conclusion.Evidence{{Supported: true}}, SuggestedChange: &conclusion.Change{File: "deploy/values.yaml", Description: "Set it."}}
	}
	for _, file := range []string{
		"", "/etc/passwd", "../a", "a/../b", "a//b", "./a", "a/", `a\b`, "C:/a", "~/a", ".env", ".github/workflows/ci.yml", "a/.ssh/config", "Jenkinsfile", "ci/jenkinsfile.prod",
		".gitlab-ci.yml", "azure-pipelines.yml", "bitbucket-pipelines.yml", "go.sum", "web/package-lock.json", "yarn.lock", "pnpm-lock.yaml", "Cargo.lock", "poetry.lock", "Gemfile.lock", "composer.lock", "a/.terraform.lock.hcl", "packages.lock.json",
		"a\nb", "a\x1b[2J", "a\u202eb", " a", "a ", "https://example.com/a", strings.Repeat("a", 201), "ghp_0123456789abcdefghijABCDEFGHIJ012345",
	} {
		c := base()
		c.SuggestedChange.File = file
		if got, err := conclusion.PublishedChange(c, mask); got != nil || err == nil {
			t.Errorf("file %q: got %+v, %v, want it left out with a reason", file, got, err)
		}
	}
	for _, file := range []string{"main.go", "deploy/values.yaml", "src/lock.go", "a/b/c/Makefile", "src/größe.ts", strings.Repeat("a", 200)} {
		c := base()
		c.SuggestedChange.File = file
		if got, err := conclusion.PublishedChange(c, mask); err != nil || got == nil || got.File != file {
			t.Errorf("file %q: got %+v, %v, want it published", file, got, err)
		}
	}
	for name, change := range map[string]func(*conclusion.Conclusion){
		"likely":         func(c *conclusion.Conclusion) { c.Confidence = conclusion.Likely },
		"no evidence":    func(c *conclusion.Conclusion) { c.Evidence = nil },
		"unsupported":    func(c *conclusion.Conclusion) { c.Evidence = append(c.Evidence, conclusion.Evidence{}) },
		"a fence":        func(c *conclusion.Conclusion) { c.SuggestedChange.Description = "Run\n```\nrm -rf /\n```" },
		"indented code":  func(c *conclusion.Conclusion) { c.SuggestedChange.Description = "Run\n\n    rm -rf /" },
		"only an image":  func(c *conclusion.Conclusion) { c.SuggestedChange.Description = "![x](http://e.example/x)" },
		"an HTML block":  func(c *conclusion.Conclusion) { c.SuggestedChange.Description = "<PRE>rm</PRE>" },
		"a tilded fence": func(c *conclusion.Conclusion) { c.SuggestedChange.Description = "~~~\nrm\n~~~" },
	} {
		c := base()
		change(&c)
		if got, err := conclusion.PublishedChange(c, mask); got != nil || err == nil {
			t.Errorf("%s: got %+v, %v, want it left out with a reason", name, got, err)
		}
	}
	c := base()
	c.SuggestedChange.Description = strings.Repeat("ä", 501)
	if got, err := conclusion.PublishedChange(c, mask); err != nil || utf8.RuneCountInString(got.Description) != conclusion.MaxDescription {
		t.Errorf("a long description: got %+v, %v, want it cut to %d characters", got, err, conclusion.MaxDescription)
	}
	if got, err := conclusion.PublishedChange(conclusion.Prose(), mask); got != nil || err != nil {
		t.Errorf("without a suggestion: got %+v, %v, want neither a change nor a reason", got, err)
	}
}

func TestSummary(t *testing.T) {
	mask := redact.New()
	for _, tt := range []struct{ in, want string }{
		{"The deploy broke\n it.", "The deploy broke it."},
		{"See [the log](https://e.example/x?y=(1)) now", "See the log now"},
		{"See ![chart](https://e.example/x.png) now", "See now"},
		{"See [![chart](https://e.example/x.png)](https://e.example) now", "See now"},
		{"See https://e.example/a?b=c now", "See now"},
		{"See <https://e.example> and www.e.example/x now", "See and now"},
		{"See [a][1] now\n[1]: http://e.example", "See a now [1]:"},
		{"See <a href='http://e.example'>it</a> now", "See it now"},
		{"See //e.example/a now", "See now"},
		{"ht\u200btps://e.example now", "now"},
		{"go javascript:alert(1) now", "go ) now"},
		{"a\x1b[2Jb", "a␛[2Jb"},
		{"token ghp_0123456789abcdefghijABCDEFGHIJ012345 leaked", "token [REDACTED:github] leaked"},
		{"map[a](b)", "mapa"},
		{strings.Repeat("é", 601), strings.Repeat("é", 599) + "…"},
		{"", ""},
	} {
		if got := conclusion.Summary(tt.in, mask); got != tt.want {
			t.Errorf("Summary(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

func FuzzSummary(f *testing.F) {
	f.Add("a [b[c](d)](e) ![x](y) https://e.example <a href=x>")
	mask := redact.New()
	f.Fuzz(func(t *testing.T, text string) {
		got := conclusion.Summary(text, mask)
		if utf8.RuneCountInString(got) > conclusion.MaxSummary || strings.ContainsAny(got, "\n\t\x1b\x00") || strings.Contains(got, "](") || strings.Contains(got, "://") {
			t.Fatalf("Summary(%q) = %q, want one short line without links", text, got)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add(whole)
	f.Add(`{"cause":"a","confidence":"likely","evidence":null}`)
	f.Fuzz(func(t *testing.T, text string) {
		c, err := conclusion.Parse(text)
		if err != nil {
			return
		}
		if !c.Structured || c.Cause == "" || len(c.Evidence) > conclusion.MaxEvidence {
			t.Fatalf("Parse(%q) = %+v, want it within the bounds", text, c)
		}
		data, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		var again conclusion.Conclusion
		if err := json.Unmarshal(data, &again); err != nil {
			t.Fatalf("decode %s: %v, want the conclusion", data, err)
		}
		conclusion.Markdown(c)
	})
}

func FuzzCheck(f *testing.F) {
	f.Add(`{"log":"open \"a.txt\" \ud83d\udea8"}`, `open "a.txt"`)
	f.Add("a\\u00", "\\ud83d\\u12")
	f.Fuzz(func(t *testing.T, text, quote string) {
		for _, confidence := range []conclusion.Confidence{conclusion.Proven, conclusion.Likely, conclusion.Unproven} {
			c := conclusion.Conclusion{Confidence: confidence, Evidence: []conclusion.Evidence{{CallID: "x", Quote: quote}}}
			got := conclusion.Check(c, lookup(map[string]string{"x": text}))
			if want := confidence; got.Evidence[0].Supported && got.Confidence != want || !got.Evidence[0].Supported && got.Confidence != conclusion.Unproven {
				t.Fatalf("%s with %q in %q = %+v, want the confidence that its evidence supports", confidence, quote, text, got)
			}
		}
	})
}

// BenchmarkCheck looks up all pieces of evidence in one text of 8 MiB.
func BenchmarkCheck(b *testing.B) {
	text := strings.Repeat(`{"log":"GET \/api\/users took 120 ms"}`+"\n", 8<<20/40)
	c := conclusion.Conclusion{Confidence: conclusion.Proven}
	for i := range conclusion.MaxEvidence {
		c.Evidence = append(c.Evidence, conclusion.Evidence{CallID: "x", Quote: fmt.Sprintf("GET /api/users took %d ms", i)})
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		conclusion.Check(c, lookup(map[string]string{"x": text}))
	}
}
