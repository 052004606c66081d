package mcpserver

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/services/gateway/history"
	"github.com/tocsin-bus/tocsin/services/gateway/kubernetes"
	"github.com/tocsin-bus/tocsin/services/gateway/notifier"
	"github.com/tocsin-bus/tocsin/shared/kube"
	"github.com/tocsin-bus/tocsin/shared/namespaces"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/silence"
)

func mustSchema[T any](t testing.TB) func(string) (T, error) {
	t.Helper()
	s, err := newSchema[T]()
	if err != nil {
		t.Fatal(err)
	}
	return func(data string) (T, error) { return s.Decode(json.RawMessage(data)) }
}

// TestToolSchemas compares the names, schemas and bounds of all tools with a golden file,
// without their descriptions: clients rely on them.
func TestToolSchemas(t *testing.T) {
	var all []any
	for _, tool := range tools() {
		var schema map[string]any
		if err := json.Unmarshal(tool.schema, &schema); err != nil {
			t.Fatalf("the schema of %s: %v", tool.name, err)
		}
		all = append(all, map[string]any{"name": tool.name, "schema": withoutDescriptions(schema)})
	}
	got, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	compareGolden(t, "tool_schemas.json", string(got)+"\n")
}

// TestToolReference: the page of the reference ends with what Reference renders.
func TestToolReference(t *testing.T) {
	const path, heading = "../../../docs/reference/mcp.md", "(`mcpserver.Reference`).\n\n"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, got, found := strings.Cut(string(page), heading)
	if !found {
		t.Fatalf("%s has no line that ends with %q", path, heading)
	}
	if updating() {
		if err := os.WriteFile(path, []byte(before+heading+Reference()), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(Reference(), got); diff != "" {
		t.Errorf("%s differs (-want +got); go test -update writes it:\n%s", path, diff)
	}
}

// updating reports whether to write golden files. The flag is defined with the
// tests of the wire.
func updating() bool {
	f := flag.Lookup("update")
	return f != nil && f.Value.String() == "true"
}

func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if updating() {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got); go test -update writes it:\n%s", name, diff)
	}
}

// withoutDescriptions removes the descriptions of a schema. Properties may have that name.
func withoutDescriptions(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if text, ok := v["description"].(string); ok && text != "" {
			delete(v, "description")
		}
		for key := range v {
			v[key] = withoutDescriptions(v[key])
		}
	case []any:
		for i := range v {
			v[i] = withoutDescriptions(v[i])
		}
	}
	return v
}

// TestBoundsInTags: the bounds in the tags of arguments are those of the packages that
// they are passed to.
func TestBoundsInTags(t *testing.T) {
	for _, tt := range []struct {
		tool, property, keyword string
		want                    int
	}{
		{"observe", "since_seconds", "maximum", int(history.MaxAge / time.Second)},
		{"observe", "limit", "default", query.DefaultLimit},
		{"observe", "limit", "maximum", query.MaxLimit},
		{"investigate", "wait_seconds", "maximum", query.MaxWait},
		{"configure", "minutes", "maximum", int(silence.MaxDuration / time.Minute)},
		{"configure", "minutes", "default", int(silence.DefaultDuration / time.Minute)},
		{"configure", "throttle_seconds", "minimum", notifier.MinThrottleSeconds},
		{"configure", "throttle_seconds", "maximum", notifier.MaxThrottleSeconds},
		{"configure", "throttle_seconds", "default", notifier.DefaultConfig().ThrottleSeconds},
	} {
		for _, tool := range tools() {
			var schema struct {
				Properties map[string]map[string]any
			}
			if err := json.Unmarshal(tool.schema, &schema); err != nil {
				t.Fatal(err)
			}
			if got := schema.Properties[tt.property][tt.keyword]; tool.name == tt.tool && got != float64(tt.want) {
				t.Errorf("%s of %s in %s = %v, want %d", tt.keyword, tt.property, tt.tool, got, tt.want)
			}
		}
	}
	over := func(property string, length int) string {
		return `{"` + property + `":"` + strings.Repeat("x", length+1) + `"}`
	}
	subscribe := mustSchema[subscribeArgs](t)
	for property, length := range map[string]int{
		"cluster": kube.MaxName, "labelSelector": kubernetes.MaxSelector, "involvedKind": kubernetes.MaxKind,
		"involvedName": kubernetes.MaxName, "involvedNamespace": kubernetes.MaxName, "reason": kubernetes.MaxReason,
	} {
		if _, err := subscribe(over(property, length)); err == nil {
			t.Errorf("%s of %d bytes is accepted, want at most %d", property, length+1, length)
		}
		if _, err := subscribe(over(property, length-1)); err != nil {
			t.Errorf("%s of %d bytes = %v, want no error", property, length-1, err)
		}
	}
	if _, err := mustSchema[configureArgs](t)(`{"action":"silence","dedup_key":"` + strings.Repeat("k", silence.MaxKey) + `"}`); err != nil {
		t.Errorf("a dedup_key of %d bytes = %v, want no error", silence.MaxKey, err)
	}
	for length, want := range map[int]bool{query.MaxInvestigationData: true, query.MaxInvestigationData + 1: false} {
		if _, err := mustSchema[investigateArgs](t)(`{"data":"` + strings.Repeat("x", length) + `"}`); (err == nil) != want {
			t.Errorf("data of %d bytes = %v, want accepted %t", length, err, want)
		}
	}
	list := `{"namespaces":["a"` + strings.Repeat(`,"a"`, namespaces.Max) + `]}`
	if _, err := subscribe(list); err == nil {
		t.Errorf("%d namespaces are accepted, want at most %d", namespaces.Max+1, namespaces.Max)
	}
}

func TestObserveQuery(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	for _, tt := range []struct {
		in   string
		want history.Query
		wait int
	}{
		{``, history.Query{What: "status", From: now.Add(-10 * time.Minute), Limit: 50}, 0},
		{`null`, history.Query{What: "status", From: now.Add(-10 * time.Minute), Limit: 50}, 0},
		{`{"what":"","app":""}`, history.Query{What: "status", From: now.Add(-10 * time.Minute), Limit: 50}, 0},
		{`{"what":"errors","app":"web","url":"/cart","since_seconds":60,"limit":5,"wait_seconds":50}`,
			history.Query{What: "errors", App: "web", URL: "/cart", MinRank: 3, From: now.Add(-time.Minute), Limit: 5}, 50},
		{`{"what":"logs","severity_min":"warning","limit":200.0}`, history.Query{What: "logs", MinRank: 2, From: now.Add(-10 * time.Minute), Limit: 200}, 0},
	} {
		args, err := mustSchema[observeArgs](t)(tt.in)
		if err != nil {
			t.Errorf("%s = %v, want no error", tt.in, err)
			continue
		}
		got, err := args.query(now)
		if err != nil {
			t.Errorf("the query of %s = %v, want no error", tt.in, err)
		}
		if got != tt.want {
			t.Errorf("the query of %s = %+v, want %+v", tt.in, got, tt.want)
		}
		if args.WaitSeconds != tt.wait {
			t.Errorf("wait_seconds of %s = %d, want %d", tt.in, args.WaitSeconds, tt.wait)
		}
	}
}

// TestBadArguments: each refusal names the argument and what is allowed.
func TestBadArguments(t *testing.T) {
	observe := func(in string) error { _, err := mustSchema[observeArgs](t)(in); return err }
	streaming := func(in string) error { _, err := mustSchema[streamingArgs](t)(in); return err }
	for _, tt := range []struct {
		name     string
		decode   func(string) error
		in, want string
	}{
		{"no object", observe, `[1]`, "the arguments must be a JSON object"},
		{"what", observe, `{"what":"everything"}`, "what must be one of alerts, errors, logs, network, vitals, actions, ci, kubernetes, investigations, noise, security, status"},
		{"what is a number", observe, `{"what":1}`, "what must be one of"},
		{"app", observe, `{"app":5}`, "app must be a text of at most 2048 bytes"},
		{"severity", observe, `{"severity_min":"fatal"}`, "severity_min must be one of info, warning, error"},
		{"since", observe, `{"since_seconds":0}`, "since_seconds must be between 1 and 604800"},
		{"limit", observe, `{"limit":201}`, "limit must be between 1 and 200"},
		{"limit is text", observe, `{"limit":"5"}`, "limit must be between 1 and 200"},
		{"limit is a fraction", observe, `{"limit":1.5}`, "limit must be between 1 and 200, in whole numbers"},
		{"wait", observe, `{"wait_seconds":51}`, "wait_seconds must be between 0 and 50"},
		{"unknown", observe, `{"severity":"error","what":"logs"}`, "unknown argument severity; the arguments are what, app, url, severity_min, since_seconds, limit, wait_seconds"},
		{"unknown with controls", observe, `{"a\u001b[31m":1}`, "unknown argument a␛[31m"},
		{"throttle 0", streaming, `{"throttle_seconds":0}`, "throttle_seconds must be between 1 and 60"},
		{"throttle 61", streaming, `{"throttle_seconds":61}`, "throttle_seconds must be between 1 and 60"},
		{"throttle huge", streaming, `{"throttle_seconds":1e300}`, "throttle_seconds must be between 1 and 60"},
		{"events", streaming, `{"events":["all","x"]}`, "events must be a list with at least one of " + strings.Join(notifier.Filters(), ", ")},
		{"events is empty", streaming, `{"events":[]}`, "events must be a list with at least one of"},
		{"events is a word", streaming, `{"events":"all"}`, "events must be a list"},
		{"severity_min", streaming, `{"severity_min":"high"}`, "severity_min must be one of info, warning, error"},
		{"url_filter", streaming, `{"url_filter":["a"]}`, "url_filter must be a text"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.decode(tt.in); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("error of %s = %v, want %s", tt.in, err, tt.want)
			}
		})
	}
	args, err := mustSchema[observeArgs](t)(`{"what":"ci","before":"x"}`)
	if err != nil {
		t.Fatal(err)
	}
	const want = `before must be the value of truncated.before in an earlier answer to observe {"what":"ci"}`
	if _, err := args.query(time.Now()); err == nil || err.Error() != want {
		t.Errorf("the query of a wrong cursor = %v, want %s", err, want)
	}
}

func FuzzObserveArguments(f *testing.F) {
	decode := mustSchema[observeArgs](f)
	f.Add(`{"what":"logs","limit":5}`)
	f.Add(`{"limit":1e400}`)
	f.Fuzz(func(t *testing.T, in string) {
		args, err := decode(in)
		if err == nil && (args.Limit < 1 || args.Limit > 200 || args.WaitSeconds < 0 || args.WaitSeconds > 50 || args.SinceSeconds < 1 || args.What == "") {
			t.Errorf("%s gives %+v, want values within the bounds", in, args)
		}
	})
}

// FuzzArguments: any arguments are within the bounds or refused, and a refusal is one
// line of printable text.
func FuzzArguments(f *testing.F) {
	observe, streaming := mustSchema[observeArgs](f), mustSchema[streamingArgs](f)
	f.Add(`{"what":"logs","limit":5,"wait_seconds":1}`)
	f.Add(`{"events":["ci"],"throttle_seconds":60,"url_filter":"/api"}`)
	f.Add(`{"\u001b":{}}`)
	f.Fuzz(func(t *testing.T, data string) {
		_, err := observe(data)
		if err != nil && strings.ContainsAny(err.Error(), "\x1b\n") {
			t.Errorf("the error %q has control characters, want none", err)
		}
		args, err := streaming(data)
		if err == nil && (args.ThrottleSeconds < 1 || args.ThrottleSeconds > 60 || len(args.Events) == 0) {
			t.Errorf("%s gives %+v, want values within the bounds", data, args)
		}
	})
}

// TestToolsAreSmall: the list of tools stays under 8 KB and the instructions under 1 KB,
// for the sake of a model's context.
func TestToolsAreSmall(t *testing.T) {
	if n := len(instructions); n > 1024 {
		t.Errorf("the instructions have %d bytes, want at most 1024", n)
	}
	size := 0
	for _, tool := range tools() {
		var schema struct {
			Type       string
			Properties map[string]any
		}
		if err := json.Unmarshal(tool.schema, &schema); err != nil || schema.Type != "object" || schema.Properties == nil {
			t.Errorf("the schema of %s = %s, %v, want an object with properties", tool.name, tool.schema, err)
		}
		size += len(tool.name) + len(tool.description) + len(tool.schema)
	}
	if size > 8<<10 {
		t.Errorf("the tools have %d bytes, want at most %d", size, 8<<10)
	}
	t.Logf("the tools have %d bytes", size)
}
