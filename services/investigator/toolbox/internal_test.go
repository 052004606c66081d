package toolbox

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"pgregory.net/rapid"
)

func same(s string) string { return s }

func TestEnvironment(t *testing.T) {
	environ := []string{"PATH=/bin", "HOME=/root", "USER=u", "LANG=C", "LC_ALL=C", "LC_TIME=C", "TMPDIR=/tmp", "TZ=UTC", "SSL_CERT_FILE=f",
		"SSL_CERT_DIR=d", "HTTPS_PROXY=p", "http_proxy=q", "NO_PROXY=n", "ANTHROPIC_API_KEY=needle", "TOCSIN_TOKEN=needle", "PATHS=needle",
		"MY_LC_ALL=needle", "AWS_SECRET_ACCESS_KEY=needle", "LD_PRELOAD=needle", "=C:=needle", "odd"}
	got := Environment(environ, map[string]string{"KUBECONFIG": "/k", "HOME": "/other"})
	want := []string{"HOME=/other", "HTTPS_PROXY=p", "KUBECONFIG=/k", "LANG=C", "LC_ALL=C", "LC_TIME=C", "NO_PROXY=n", "PATH=/bin",
		"SSL_CERT_DIR=d", "SSL_CERT_FILE=f", "TMPDIR=/tmp", "TZ=UTC", "USER=u", "http_proxy=q"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Environment (-want +got):\n%s", diff)
	}
}

func tools(pairs ...string) []*Tool {
	var all []*Tool
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, &Tool{Server: pairs[i], Name: pairs[i+1], Offered: true})
	}
	return all
}

func TestNames(t *testing.T) {
	long := strings.Repeat("n", 70)
	all := tools("kube", "pods_list", "kube", "pods.list", "kube", "pods/list", "a", "b__c", "a__b", "c", "s", long, "", "conclude")
	nameTools(all)
	for i, want := range []string{`^kube__pods_list_[0-9a-f]{8}$`, `^kube__pods_list_[0-9a-f]{8}$`, `^kube__pods_list_[0-9a-f]{8}$`, `^a__b__c_[0-9a-f]{8}$`,
		`^a__b__c_[0-9a-f]{8}$`, `^s__n{52}_[0-9a-f]{8}$`, `^conclude$`} {
		if !regexp.MustCompile(want).MatchString(all[i].ModelName) {
			t.Errorf("name of %s = %q, want %s", all[i].FullName(), all[i].ModelName, want)
		}
	}
	for name, want := range map[string]*Tool{all[1].ModelName: all[1], "kube.pods.list": all[1], "kube__pods/list": all[2], "conclude": all[6], "a__b__c": nil, "": nil, "x": nil} {
		if got, _ := resolve(all, name); got != want {
			t.Errorf("resolve(%q) = %+v, want %+v", name, got, want)
		}
	}
}

// Names are unique, fit all providers, do not depend on the order, and lead back to the tool.
func TestNamesProperties(t *testing.T) {
	fits := regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-c._/ü]{1,4}|x{60,70}`)
		type key struct{ server, tool string }
		keys := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) key {
			return key{name.Draw(t, "server"), name.Draw(t, "tool")}
		}), 1, 12, rapid.ID).Draw(t, "keys")
		var forward, backward []*Tool
		for _, k := range keys {
			forward = append(forward, &Tool{Server: k.server, Name: k.tool, Offered: true})
			backward = append([]*Tool{{Server: k.server, Name: k.tool, Offered: true}}, backward...)
		}
		nameTools(forward)
		nameTools(backward)
		seen := map[string]bool{}
		for i, tool := range forward {
			if !tool.Offered {
				continue
			}
			if !fits.MatchString(tool.ModelName) || seen[tool.ModelName] {
				t.Fatalf("the name %q of %+v does not fit, or is another's", tool.ModelName, tool)
			}
			seen[tool.ModelName] = true
			if got := backward[len(backward)-1-i].ModelName; got != tool.ModelName {
				t.Fatalf("name in another order = %q, want %q", got, tool.ModelName)
			}
			if got, _ := resolve(forward, tool.ModelName); got != tool {
				t.Fatalf("resolve(%q) = %+v, want %+v", tool.ModelName, got, tool)
			}
		}
	})
}

// A name that clashes with another's suffix is withheld.
func TestNameThatClashesWithASuffix(t *testing.T) {
	all := tools("s", "a.b", "s", "a/b")
	first := suffixedName(all[0])
	all = append(all, tools("", first)...)
	nameTools(all)
	if all[0].Offered || all[0].WhyNot == "" || !all[1].Offered || all[2].ModelName != first {
		t.Errorf("tools = %+v, %+v, %+v, want the first withheld", all[0], all[1], all[2])
	}
}

func TestResultText(t *testing.T) {
	content := func(c ...mcp.Content) *mcp.CallToolResult { return &mcp.CallToolResult{Content: c} }
	tests := []struct {
		name   string
		result *mcp.CallToolResult
		want   string
	}{
		{"texts", content(&mcp.TextContent{Text: "a"}, &mcp.TextContent{Text: "b"}), "a\nb"},
		{"nothing", content(), "[the tool answered without content]"},
		{"nil content", content(nil), "[content of an unknown kind, not shown]"},
		{"image", content(&mcp.ImageContent{MIMEType: "image/png", Data: make([]byte, 3)}), "[image, image/png, 3 bytes, not shown]"},
		{"audio", content(&mcp.AudioContent{Data: make([]byte, 3)}), "[audio, unknown type, 3 bytes, not shown]"},
		{"resource", content(&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "file:///a", Text: "log"}}), "log"},
		{"blob", content(&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "file:///a", MIMEType: "x/y", Blob: []byte{1}}}), "[resource file:///a, x/y, 1 bytes, not shown]"},
		{"no resource", content(&mcp.EmbeddedResource{}), "[the tool answered without content]"},
		{"link", content(&mcp.ResourceLink{URI: "file:///a", Name: "a"}), "[link to file:///a, a, not read]"},
		{"structured", &mcp.CallToolResult{StructuredContent: map[string]any{"a": 1}}, `{"a":1}`},
		{"text wins over structured", &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "a"}}, StructuredContent: 1}, "a"},
		{"image and structured", &mcp.CallToolResult{Content: []mcp.Content{&mcp.ImageContent{MIMEType: "i"}}, StructuredContent: 1}, "[image, i, 0 bytes, not shown]\n1"},
	}
	for _, test := range tests {
		if got := resultText(test.result); got != test.want {
			t.Errorf("%s: resultText = %q, want %q", test.name, got, test.want)
		}
	}
}

func TestMasked(t *testing.T) {
	tests := []struct {
		name       string
		mask       func(string) string
		text, want string
	}{
		{"none", nil, "x", withheld},
		{"empty", nil, "", ""},
		{"panic", func(string) string { panic("x") }, "x", withheld},
		{"no UTF-8", same, "a\xffb", "a\ufffdb"},
		{"no UTF-8 from the mask", func(string) string { return "\xff" }, "x", "\ufffd"},
	}
	for _, test := range tests {
		if got := masked(test.mask, test.text); got != test.want {
			t.Errorf("%s: masked = %q, want %q", test.name, got, test.want)
		}
	}
}

// A server may repeat the secrets of its own configuration.
func TestOwnSecretsAreHidden(t *testing.T) {
	s := Server{
		Mask: same, BearerToken: "bearer-4711",
		Headers: map[string]string{"Authorization": "Basic dXNlcjo0NzEx", "X-Tenant": "production"},
		Args:    []string{"serve", "--api-key", "argument-4711", "--password=argument-4712", "--header", "Authorization: Bearer argument-4713", "--namespace", "payments", "--secrets-namespace", "shop-secrets", "--token", "--verbose"},
		Env:     map[string]string{"API_TOKEN": "variable-4711", "API_TOKEN_2": "variable-4711-long", "SHORT_TOKEN": "abc", "TOKEN_FILE": "/run/token-file", "SECRET_STORE": "ghp_" + strings.Repeat("aB3", 12), "KUBECONFIG": "/home/me/config"},
	}.hiding()
	tests := []struct{ text, want string }{
		{"401: bearer-4711 is no member", "401: [REDACTED] is no member"},
		{"got Basic dXNlcjo0NzEx", "got [REDACTED]"},
		{"got dXNlcjo0NzEx", "got [REDACTED]"},
		{"variable-4711, variable-4711-long", "[REDACTED], [REDACTED]"},
		{"argument-4711 and argument-4712 of --api-key and --password", "[REDACTED] and [REDACTED] of --api-key and --password"},
		{"got argument-4713", "got [REDACTED]"},
		{"production reads /home/me/config, abc", "production reads /home/me/config, abc"},
		{"serve payments and shop-secrets --verbose, /run/token-file", "serve payments and shop-secrets --verbose, /run/token-file"},
		{"ghp_" + strings.Repeat("aB3", 12), "[REDACTED]"},
	}
	for _, test := range tests {
		if got := masked(s.Mask, test.text); got != test.want {
			t.Errorf("masked(%q) = %q, want %q", test.text, got, test.want)
		}
	}
	if got := masked(Server{BearerToken: "bearer-4711"}.hiding().Mask, "x"); got != withheld {
		t.Errorf("without a mask: %q, want %q", got, withheld)
	}
}

// The address of a server may hold a secret.
// TestSecretsAreHidden: values from the environment are hidden wherever they stand in a text of the
// server, also as JSON and addresses write them.
func TestSecretsAreHidden(t *testing.T) {
	s := Server{Mask: same, Secrets: []string{"needle-4711", `quote"back\slash and/more`, "short", "", " lined<4711>\n"}}.hiding()
	for text, want := range map[string]string{
		"flag --tenant=needle-4711: unknown":            "flag --tenant=[REDACTED]: unknown",
		`{"text":"quote\"back\\slash and/more"}`:        `{"text":"[REDACTED]"}`,
		"GET /a?q=quote%22back%5Cslash+and%2Fmore":      "GET /a?q=[REDACTED]",
		"GET /quote%22back%5Cslash%20and%2Fmore/x":      "GET /[REDACTED]/x",
		`<lined<4711>> {"lined\u003c4711\u003e"}`:       `<[REDACTED]> {"[REDACTED]"}`,
		"a short text with needle, and nothing to hide": "a short text with needle, and nothing to hide",
	} {
		if got := masked(s.Mask, text); got != want {
			t.Errorf("%s becomes %s, want %s", text, got, want)
		}
	}
	if plain := (Server{}); plain.Digest() == (Server{Secrets: []string{"needle-4711"}}).Digest() {
		t.Error("servers with other secrets have one digest, want two: the registry keeps what it masked")
	}
}

func TestSecretsOfAnAddressAreHidden(t *testing.T) {
	s := Server{Mask: same, URL: "https://mcp.example/mcp?api_key=query%2B4711&key2=x&namespace=default"}.hiding()
	tests := []struct{ text, want string }{
		{`Post "https://mcp.example/mcp?api_key=query%2B4711&key2=x&namespace=default": refused`, `Post "https://mcp.example/mcp?[REDACTED]": refused`},
		{"unknown key query+4711, query%2B4711", "unknown key [REDACTED], [REDACTED]"},
		{"the namespace default, x", "the namespace default, x"},
	}
	for _, test := range tests {
		if got := masked(s.Mask, test.text); got != test.want {
			t.Errorf("masked(%q) = %q, want %q", test.text, got, test.want)
		}
	}
}

func TestDefinitions(t *testing.T) {
	deep := strings.Repeat(`{"items":`, 70) + `{}` + strings.Repeat(`}`, 70)
	var deepSchema any
	if err := json.Unmarshal([]byte(`{"type":"object","properties":`+deep+`}`), &deepSchema); err != nil {
		t.Fatal(err)
	}
	hint := &mcp.ToolAnnotations{ReadOnlyHint: true}
	s := Server{Name: "s", Mask: func(s string) string { return strings.ReplaceAll(s, "secret", "***") }, ReadOnlyTools: []string{"*_list", "[", "fs/*"}}
	tests := []struct {
		name   string
		tool   mcp.Tool
		whyNot string
		want   Tool
	}{
		{"hint", mcp.Tool{Name: "a", Annotations: hint}, "", Tool{ReadOnly: true, Repeatable: true}},
		{"vouched", mcp.Tool{Name: "pods_list"}, "", Tool{ReadOnly: true}},
		{"vouched with a slash", mcp.Tool{Name: "fs/read/all"}, "", Tool{ReadOnly: true}},
		{"idempotent alone", mcp.Tool{Name: "a", Annotations: &mcp.ToolAnnotations{IdempotentHint: true}}, "readOnlyHint", Tool{Repeatable: true}},
		{"no name", mcp.Tool{Annotations: hint}, "no name", Tool{ReadOnly: true, Repeatable: true}},
		{"long name", mcp.Tool{Name: strings.Repeat("x", 201), Annotations: hint}, "longer than 200", Tool{ReadOnly: true, Repeatable: true}},
		{"large schema", mcp.Tool{Name: "a", Annotations: hint, InputSchema: map[string]any{"x": strings.Repeat("x", MaxSchema)}}, "at most 65536", Tool{ReadOnly: true, Repeatable: true}},
		{"deep schema", mcp.Tool{Name: "a", Annotations: hint, InputSchema: deepSchema}, "nested over 64", Tool{ReadOnly: true, Repeatable: true}},
		{"list as schema", mcp.Tool{Name: "a", Annotations: hint, InputSchema: []any{}}, "no object", Tool{ReadOnly: true, Repeatable: true}},
	}
	for _, test := range tests {
		got := defineOne(s, &test.tool)
		if got.Offered != (test.whyNot == "") || !strings.Contains(got.WhyNot, test.whyNot) || got.ReadOnly != test.want.ReadOnly || got.Repeatable != test.want.Repeatable {
			t.Errorf("%s: %+v, want %+v, withheld for %q", test.name, got, test.want, test.whyNot)
		}
	}
	schema := map[string]any{"properties": map[string]any{"secret": map[string]any{"type": "string", "description": "the secret <x>", "examples": []any{"secret"}}}, "required": []any{"secret"}}
	got := defineOne(s, &mcp.Tool{Name: "a", Annotations: hint, InputSchema: schema, Description: strings.Repeat("ü", MaxDescription)})
	want := `{"properties":{"secret":{"description":"the *** <x>","examples":["***"],"type":"string"}},"required":["secret"],"type":"object"}`
	if string(got.Schema) != want {
		t.Errorf("Schema = %s, want %s", got.Schema, want)
	}
	if len(got.Description) > MaxDescription || !utf8.ValidString(got.Description) {
		t.Errorf("Description has %d bytes, want at most %d, of whole characters", len(got.Description), MaxDescription)
	}
}

// TestToolsThatWrite: with allow_writes all tools are offered, and those that may destroy something need
// an approval unless a person vouches for them.
func TestToolsThatWrite(t *testing.T) {
	yes, no := true, false
	s := Server{Name: "s", Mask: same, AllowWrites: true, NoApproval: []string{"scale_*"}, Tools: []string{"[a-y]*"}}
	tests := []struct {
		tool           mcp.Tool
		offered, needs bool
	}{
		{mcp.Tool{Name: "get", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}, true, false},
		{mcp.Tool{Name: "delete"}, true, true},
		{mcp.Tool{Name: "delete2", Annotations: &mcp.ToolAnnotations{DestructiveHint: &yes}}, true, true},
		{mcp.Tool{Name: "label", Annotations: &mcp.ToolAnnotations{DestructiveHint: &no}}, true, false},
		{mcp.Tool{Name: "scale_up", Annotations: &mcp.ToolAnnotations{DestructiveHint: &yes}}, true, false},
		{mcp.Tool{Name: "zap", Annotations: &mcp.ToolAnnotations{DestructiveHint: &no}}, false, false},
	}
	digests := map[string]string{}
	for _, test := range tests {
		got := defineOne(s, &test.tool)
		if got.Offered != test.offered || got.NeedsApproval != test.needs || (got.WhyNot == "") != (test.offered && !test.needs) {
			t.Errorf("%s: %+v, want offered %t, an approval %t", test.tool.Name, got, test.offered, test.needs)
		}
		test.tool.Name = "same"
		digests[defineOne(s, &test.tool).Digest] = test.tool.Name
		s := s
		s.AllowWrites = false
		if got := defineOne(s, &test.tool); got.Offered != got.ReadOnly {
			t.Errorf("%s without allow_writes: offered %t, want %t", test.tool.Name, got.Offered, got.ReadOnly)
		}
	}
	if len(digests) != 3 { // read-only, may destroy, does not
		t.Errorf("%d digests, want 3: the hints are a part of the definition", len(digests))
	}
	if a, b := s.Digest(), (Server{Name: "s", AllowWrites: true, Tools: s.Tools}).Digest(); a == b {
		t.Error("no_approval does not change the digest of a server, want that")
	}
}

// OpenAI refuses an object without properties, and Anthropic and OpenAI refuse alternatives at the
// top: such a tool would make each request of the agent fail.
func TestSchemasThatProvidersTake(t *testing.T) {
	tests := []struct{ name, schema, want string }{
		{"none", `null`, `{"properties":{},"type":"object"}`},
		{"empty", `{"type":"object"}`, `{"properties":{},"type":"object"}`},
		{"null", `{"type":"object","properties":null}`, `{"properties":{},"type":"object"}`},
		{"alternatives", `{"type":"object","properties":{"a":{"type":"string"}},"anyOf":[{"required":["a"]},{"properties":{"a":{},"b":{"type":"integer"}}}],"not":{},"enum":[1]}`,
			`{"properties":{"a":{"type":"string"},"b":{"type":"integer"}},"type":"object"}`},
		{"misshapen", `{"type":"object","oneOf":[1,{"properties":[]}],"allOf":{}}`, `{"properties":{},"type":"object"}`},
		{"below the top", `{"type":"object","properties":{"a":{"anyOf":[{"type":"string"}]}}}`, `{"properties":{"a":{"anyOf":[{"type":"string"}]}},"type":"object"}`},
	}
	for _, test := range tests {
		var schema any
		if err := json.Unmarshal([]byte(test.schema), &schema); err != nil {
			t.Fatal(err)
		}
		got := defineOne(Server{Name: "s", Mask: same}, &mcp.Tool{Name: "a", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}, InputSchema: schema})
		if string(got.Schema) != test.want || !got.Offered {
			t.Errorf("%s: Schema = %s (%s), want %s, offered", test.name, got.Schema, got.WhyNot, test.want)
		}
	}
}

func TestListIsBounded(t *testing.T) {
	endless := func(next func(n int) *mcp.ListToolsResult) pages {
		n := 0
		return func(context.Context, *mcp.ListToolsParams) (*mcp.ListToolsResult, error) {
			n++
			return next(n), nil
		}
	}
	tests := []struct {
		name string
		next pages
		want string
	}{
		{"pages", endless(func(n int) *mcp.ListToolsResult { return &mcp.ListToolsResult{NextCursor: strings.Repeat("x", n)} }), "over 100 pages"},
		{"circle", endless(func(n int) *mcp.ListToolsResult {
			return &mcp.ListToolsResult{NextCursor: []string{"a", "b"}[n%2]}
		}), "in a circle"},
		{"size", endless(func(n int) *mcp.ListToolsResult {
			return &mcp.ListToolsResult{NextCursor: strings.Repeat("x", n), Tools: []*mcp.Tool{{Name: strings.Repeat("y", n), Description: strings.Repeat("z", 1<<20)}}}
		}), "over 4 MiB"},
	}
	for _, test := range tests {
		d, err := list(t.Context(), Server{Mask: same}, test.next)
		if err != nil || len(d.notes) != 1 || !strings.Contains(d.notes[0], test.want) {
			t.Errorf("%s: notes = %q, %v, want %q", test.name, d.notes, err, test.want)
		}
	}
}

func TestLineReader(t *testing.T) {
	endless := strings.NewReader(`{"a":"` + strings.Repeat("x", MaxMessage+1))
	tests := []struct {
		name   string
		source io.Reader
		want   string
		err    error
	}{
		{"messages", strings.NewReader("{\"a\":1}\r\n\n[1]\n"), "{\"a\":1}\n[1]\n", nil},
		{"a banner", strings.NewReader("Welcome!\n{broken\n{\"a\":1}\n"), "{\"a\":1}\n", nil},
		{"no line feed at the end", strings.NewReader(`{"a":1}`), "{\"a\":1}\n", nil},
		{"no UTF-8", strings.NewReader("{\"a\":\"\xff\"}\n"), "{\"a\":\"\ufffd\"}\n", nil},
		{"garbage", strings.NewReader(strings.Repeat("garbage\n", 10_000)), "", errForeign},
		{"too large", endless, "", errTooLarge},
	}
	for _, test := range tests {
		r := newLineReader(io.NopCloser(test.source))
		got, err := io.ReadAll(r)
		if string(got) != test.want || !errors.Is(err, test.err) {
			t.Errorf("%s: %.100q, %v, want %q, %v", test.name, got, err, test.want, test.err)
		}
		if failure := r.failure.Load(); (failure != nil) != (test.err != nil) {
			t.Errorf("%s: failure = %v, want %v", test.name, failure, test.err)
		}
	}
}

func FuzzLineReader(f *testing.F) {
	f.Add([]byte("hello\n{\"a\":1}\n[]"))
	f.Add([]byte("{\"a\":\"\xff\"}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := io.ReadAll(newLineReader(io.NopCloser(strings.NewReader(string(data)))))
		if err != nil && !errors.Is(err, errForeign) {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(got)) {
			if !json.Valid([]byte(line)) || !utf8.ValidString(line) {
				t.Fatalf("%q passed, which is no message", line)
			}
		}
	})
}

func TestLastLines(t *testing.T) {
	tests := []struct{ text, want string }{{"a\nb\n", "a\nb"}, {strings.Repeat("x", 20) + "\nlast", "last"}, {strings.Repeat("x", 20), "xxxxxxxxxx"}}
	for _, test := range tests {
		if got := lastLines(test.text, 10); got != test.want {
			t.Errorf("lastLines(%q) = %q, want %q", test.text, got, test.want)
		}
	}
}

// A program that is used wrongly writes its usage after the error.
func TestLastOutput(t *testing.T) {
	usage := strings.Repeat("  --flag string\n", 20)
	tests := map[string]struct{ text, want string }{
		"short":                   {"Error: no file\nUsage:\n", "Error: no file\nUsage:"},
		"error before the usage":  {"npm warn a\nError: no file\nUsage:\n" + usage, "Error: no file\n…\n  --flag string\n  --flag string"},
		"several errors":          {"error: first\nfatal: second\n" + usage, "fatal: second\n…\n  --flag string\n  --flag string"},
		"error at the end":        {usage + "panic: nil map\n", "  --flag string\n  --flag string\n  --flag string\npanic: nil map"},
		"no error":                {"errors: 0\n" + usage, "  --flag string\n  --flag string\n  --flag string\n  --flag string"},
		"an error over the limit": {"Error: " + strings.Repeat("é", 100) + "\n" + usage, "Error: " + strings.Repeat("é", 11) + "…\n…\n  --flag string"},
	}
	for name, test := range tests {
		got := lastOutput(test.text, 64)
		if got != test.want || len(got) > 64 {
			t.Errorf("%s: lastOutput(%.60q, 64) = %q of %d bytes, want %q", name, test.text, got, len(got), test.want)
		}
	}
}
