package investigator

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/services/investigator/recent"
	"github.com/tocsin-bus/tocsin/services/investigator/session"
	"github.com/tocsin-bus/tocsin/services/investigator/toolbox"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
	"github.com/tocsin-bus/tocsin/shared/kube"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/redact"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

var builtinOnly = []session.Server{{Name: "tocsin"}}

// filledServer returns a built-in server whose window has alerts, a fault and a CI result, and is
// not connected to a bus.
func filledServer(t *testing.T) *builtinServer {
	t.Helper()
	w := newBusWindow(redact.New(), bustest.Quiet())
	for i, a := range shopAlerts() {
		a.Timestamp = noon.Add(time.Duration(i-3) * time.Minute)
		if a.ID == "cause" {
			a.Investigation = &alert.Investigation{SessionID: "secret-session", Status: alert.InvestigationCompleted, Summary: "secret-summary"}
			a.Severity = alert.Warning
		}
		w.alerts.Add(a, 1)
	}
	w.clusters.Add(crash(), noon.Add(-time.Minute), 1)
	w.results.Add(failedRun(), noon.Add(-time.Minute))
	return &builtinServer{
		window: w, mask: func(s string) string { return strings.ReplaceAll(s, "password", "[MASKED]") }, now: func() time.Time { return noon },
		ask: func(context.Context, string, any) ([]byte, error) { return nil, bus.ErrNoAnswer },
	}
}

func callTool(t *testing.T, b *builtinServer, tool, args string) toolbox.Result {
	t.Helper()
	set := toolbox.NewSet(nil, b.Builtins(builtinOnly))
	set.Open(t.Context(), nil)
	defer set.Close()
	return set.Call(t.Context(), "tocsin", tool, json.RawMessage(args))
}

// ids returns the ids, names or kinds of the entries of an answer.
func entryIDs(t *testing.T, text string) string {
	t.Helper()
	var a struct {
		Entries []struct {
			Alert struct{ ID string }
			Event struct{ Reason string }
			Logs  []struct{ Sample string }
			Text  struct{ Name string } `json:"result"`
		}
		More int
	}
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatalf("the answer is no JSON: %v: %s", err, text)
	}
	var list []string
	for _, e := range a.Entries {
		name := e.Alert.ID + e.Event.Reason + e.Text.Name
		if len(e.Logs) > 0 {
			name += "+log"
		}
		list = append(list, name)
	}
	if a.More > 0 {
		list = append(list, fmt.Sprintf("%d more", a.More))
	}
	return strings.Join(list, " ")
}

func TestBuiltinTools(t *testing.T) {
	tests := []struct{ tool, args, want string }{
		{"alerts", `{}`, "symptom cause other"},
		{"alerts", `{"limit":1}`, "symptom 2 more"},
		{"alerts", `{"app":"web"}`, ""},
		{"alerts", `{"category":"errors"}`, "symptom"},
		{"alerts", `{"severity":"error","since":"7d"}`, "symptom other"},
		{"alerts", `{"since":"90s"}`, "symptom"},
		{"alerts", `{"id":"cause","app":"not used"}`, "cause"},
		{"ci", `{}`, "test"},
		{"ci", `{"since":"30s"}`, ""},
		{"kubernetes", `{"workload":"Deployment/web"}`, "Crash"},
		{"kubernetes", `{"workload":"api"}`, ""},
		{"kubernetes", `{"logs":true}`, "Crash+log"},
	}
	for _, test := range tests {
		t.Run(test.tool+test.args, func(t *testing.T) {
			r := callTool(t, filledServer(t), test.tool, test.args)
			if r.IsError {
				t.Fatalf("error %s, want %q", r.Text, test.want)
			}
			if got := entryIDs(t, r.Text); got != test.want {
				t.Errorf("answer has %q, want %q", got, test.want)
			}
			if strings.Contains(r.Text, "secret-") {
				t.Errorf("the answer shows another session: %s", r.Text)
			}
			if !strings.Contains(r.Text, "missing: the newest") {
				t.Errorf("the answer does not name what could not be read: %s", r.Text)
			}
		})
	}
}

// TestBuiltinToolsRefuse: a wrong argument is an error that names what is right.
func TestBuiltinToolsRefuse(t *testing.T) {
	long := strings.Repeat("x", maxFilter+1)
	tests := []struct{ tool, args, want string }{
		{"alerts", `{"severity":"fatal"}`, "severity must be one of info, warning, error"},
		{"alerts", `{"category":"x"}`, "category must be one of regression"},
		{"alerts", `{"since":"8d"}`, "at most 7d"},
		{"alerts", `{"since":"-1h"}`, "at most 7d"},
		{"alerts", `{"since":"99999999999d"}`, "at most 7d"},
		{"alerts", `{"since":"soon"}`, `it is "soon"`},
		{"alerts", `{"limit":101}`, "limit must be from 1 to 100; it is 101"},
		{"alerts", `{"limit":-1}`, "limit must be from 1 to 100"},
		{"alerts", `{"limit":"10"}`, "the argument limit must be of type int, not string"},
		{"alerts", `{"inbox":true}`, `unknown field "inbox"`},
		{"alerts", `{"id":"nothing"}`, `no alert that is remembered has the id "nothing"`},
		{"alerts", `{"app":"` + long + `"}`, "at most 1024 are allowed"},
		{"kubernetes", `{"workload":"` + long + `"}`, "at most 1024 are allowed"},
		{"kubernetes", `{"severity":"x"}`, "severity must be one of"},
		{"events", `{"kinds":["trace"]}`, "kinds must be one of log"},
		{"events", `{"url":"` + long + `"}`, "at most 1024 are allowed"},
		{"events", `{}`, "no detector answers"},
		{"ci", `{"since":"x"}`, "since must be a duration"},
	}
	for _, test := range tests {
		t.Run(test.tool+" "+test.want, func(t *testing.T) {
			r := callTool(t, filledServer(t), test.tool, test.args)
			if !r.IsError || !strings.Contains(r.Text, test.want) {
				t.Errorf("answer = %q, error %v, want an error with %q", r.Text, r.IsError, test.want)
			}
		})
	}
}

// TestBuiltinEvents: the query goes to the detector with the arguments, and the answer is masked.
func TestBuiltinEvents(t *testing.T) {
	b := filledServer(t)
	var asked query.EventsRequest
	b.ask = func(_ context.Context, subject string, request any) ([]byte, error) {
		if subject != query.SubjectEvents {
			t.Errorf("asked %s, want %s", subject, query.SubjectEvents)
		}
		asked = request.(query.EventsRequest)
		return json.Marshal(query.EventsReply{
			Events: []query.StoredEvent{{Event: telemetry.Event{Kind: telemetry.KindLog, App: "shop", Log: &telemetry.Log{Level: "error", Message: "the password is wrong"}}, Received: noon}},
			Older:  4, Part: query.Part{Unanswered: []int{1}},
		})
	}
	r := callTool(t, b, "events", `{"kinds":["log","log"],"app":"shop","url":"/x","severity":"error","since":"10m","limit":5}`)
	want := query.EventsRequest{Kinds: []telemetry.Kind{telemetry.KindLog}, App: "shop", URL: "/x", MinRank: 3, Since: noon.Add(-10 * time.Minute), Limit: 5, Paged: true}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
	for _, part := range []string{`"message":"the [MASKED] is wrong"`, `"more":4`, "no detector answers for 1 partitions"} {
		if r.IsError || !strings.Contains(r.Text, part) {
			t.Errorf("answer = %s, want it with %s", r.Text, part)
		}
	}
}

// TestBuiltinAnswersAreBounded: an answer leaves entries out before it is too long.
func TestBuiltinAnswersAreBounded(t *testing.T) {
	b := filledServer(t)
	for i := range 100 {
		m := crash()
		m.Fault.ID = fmt.Sprint("f", i)
		m.Logs = []kube.Log{{Container: "web", Sample: strings.Repeat("log line\n", 1000)}}
		b.window.clusters.Add(m, noon, 1)
	}
	r := callTool(t, b, "kubernetes", `{"logs":true,"limit":100}`)
	if r.IsError || len(r.Text) > maxAnswer || len(r.Text) < maxAnswer/4 {
		t.Errorf("the answer has %d bytes, error %v, want up to %d", len(r.Text), r.IsError, maxAnswer)
	}
	shown := strings.Count(r.Text, `"sample"`)
	if !strings.Contains(r.Text, fmt.Sprintf(`"more":%d`, 100-shown)) {
		t.Errorf("the answer has %d of 100 messages, want the others counted: %s", shown, r.Text[len(r.Text)-200:])
	}
}

func TestBuiltinsAreNarrowed(t *testing.T) {
	b := filledServer(t)
	tests := []struct {
		name    string
		servers []session.Server
		want    []string
	}{
		{"all", builtinOnly, []string{"alerts", "events", "ci", "kubernetes"}},
		{"another server", []session.Server{{Name: "kubernetes"}}, nil},
		{"by name", []session.Server{{Name: "x"}, {Name: "tocsin", Tools: []string{"ci", "alerts"}}}, []string{"alerts", "ci"}},
		{"by pattern", []session.Server{{Name: "tocsin", Tools: []string{"e*"}}}, []string{"events"}},
		{"none", []session.Server{{Name: "tocsin", Tools: []string{"[", "inbox"}}}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, tool := range b.Builtins(test.servers) {
				got = append(got, tool.Definition.Name)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("tools (-want +got):\n%s", diff)
			}
		})
	}
}

// TestBuiltinSchemas: each argument has a description, and a closed set its values.
func TestBuiltinSchemas(t *testing.T) {
	for _, tool := range filledServer(t).tools() {
		var schema struct {
			Type                 string
			AdditionalProperties any `json:"additionalProperties"`
			Required             []string
			Properties           map[string]struct {
				Description string
				Type        any
				Enum        []string
				Items       struct{ Enum []string }
			}
		}
		d := tool.Definition
		if err := json.Unmarshal(d.Schema, &schema); err != nil {
			t.Fatal(err)
		}
		if schema.Type != "object" || len(schema.Required) > 0 || schema.AdditionalProperties == nil || !d.ReadOnly || !d.Repeatable {
			t.Errorf("%s: schema %s, want a closed object with optional arguments, and a read-only tool", d.Name, d.Schema)
		}
		for name, p := range schema.Properties {
			if p.Description == "" {
				t.Errorf("%s: the argument %s has no description", d.Name, name)
			}
			if got := slices.Concat(p.Enum, p.Items.Enum); !slices.Equal(got, enums[name]) {
				t.Errorf("%s: the values of %s are %q, want %q", d.Name, name, got, enums[name])
			}
		}
	}
}

// TestBuiltinReadsTheBus: an answer has what was acknowledged before the call.
func TestBuiltinReadsTheBus(t *testing.T) {
	b := bustest.Start(t)
	c := b.Connect(bus.RoleInvestigator)
	server := &builtinServer{
		window: followed(t, b), mask: func(s string) string { return s }, now: time.Now,
		ask: func(ctx context.Context, subject string, request any) ([]byte, error) {
			return bus.Ask(ctx, c, subject, request)
		},
	}
	bustest.Eventually(t, "the window is connected", func() bool { return len(server.window.catchUp(t.Context())) == 0 })
	a := shopAlerts()[2]
	a.Timestamp = time.Now()
	publishAlert(t, b, a)
	if r := callTool(t, server, "alerts", `{"open":true}`); r.IsError || entryIDs(t, r.Text) != "symptom" || strings.Contains(r.Text, "notes") {
		t.Errorf("alerts = %+v, want symptom without notes", r)
	}
	if r := callTool(t, server, "events", `{}`); !r.IsError || !strings.Contains(r.Text, "no detector answers") {
		t.Errorf("events without a detector = %+v, want an error that names it", r)
	}
	server.window.view(func(l *recent.Alerts, _ *recent.Clusters, _ *recent.Results) {
		if _, ok := l.ByID("symptom"); !ok {
			t.Error("the alert is gone from the window, want reading to take nothing")
		}
	})
}
