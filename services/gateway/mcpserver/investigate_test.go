package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/micro"

	"github.com/tocsin-bus/tocsin/services/gateway/internal/testrig"
	"github.com/tocsin-bus/tocsin/services/gateway/mcpserver"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/namespaces"
	"github.com/tocsin-bus/tocsin/shared/presence"
	"github.com/tocsin-bus/tocsin/shared/query"
)

// investigator stands in for an investigator: it records the requests of gateways, and answers
// what the test says.
type investigator struct {
	conn *bus.Session
	stop func()

	mu       sync.Mutex
	requests []string
	// answer and refusal are those to the next requests. An answer of nil is not sent.
	answer  any
	refusal *bus.RefusedError
	// held has the subjects of requests that were left without an answer.
	held chan string
}

const session01 = "01KABCDEFGHJKMNPQRSTVWXYZ0"

func (r *rig) startInvestigator(t *testing.T) *investigator {
	t.Helper()
	i := &investigator{conn: r.Join(t, bus.RoleInvestigator), held: make(chan string, 10)}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	var endpoints []presence.Endpoint
	for _, subject := range []string{bus.SubjectInvestigateSubmit, bus.SubjectInvestigateGet, bus.SubjectInvestigateList} {
		_, name, _ := strings.Cut(subject, ".")
		endpoints = append(endpoints, presence.Endpoint{Name: name, Subject: subject, Handle: micro.HandlerFunc(func(m micro.Request) { i.handle(t, m) })})
	}
	health := query.Health{OK: true, Investigator: &query.InvestigatorHealth{Queued: 2, Running: 1, ServersDown: []string{"metrics"}}}
	go func() {
		done <- presence.Serve(ctx, i.conn, presence.Identify("investigator", "v1", testrig.Quiet()), func() query.Health { return health }, endpoints...)
	}()
	i.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(i.stop)
	return i
}

func (i *investigator) handle(t *testing.T, m micro.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.requests = append(i.requests, m.Subject()+" "+string(m.Data()))
	if i.answer == nil && i.refusal == nil {
		i.held <- m.Subject()
		return
	}
	if err := bus.Answer(i.conn, m.Reply(), i.answer, i.refusal); err != nil {
		t.Error(err)
	}
}

// says sets the answer to the next requests.
func (i *investigator) says(answer any, refusal *bus.RefusedError) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.answer, i.refusal = answer, refusal
}

// got returns the requests since the last call.
func (i *investigator) got() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	got := i.requests
	i.requests = nil
	return got
}

// openWithInvestigator opens a client whose gateway has seen an investigator.
func (r *rig) openWithInvestigator(t *testing.T, name string) (*client, *investigator) {
	t.Helper()
	i := r.startInvestigator(t)
	c := r.open(t, name)
	c.awaitInvestigator(t)
	return c, i
}

// awaitInvestigator waits until the gateway has seen an investigator. It lists no tools, so that no
// change of the list is announced.
func (c *client) awaitInvestigator(t *testing.T) {
	t.Helper()
	if !testrig.Poll(func() bool {
		return strings.Contains(c.call(t, "configure", `{"action":"health"}`).blocks[0], `"investigator":`)
	}) {
		t.Fatal("timed out: the gateway sees no investigator")
	}
}

// TestInvestigateIsListed: the tool is listed once an investigator is on the bus, and stays when it
// has gone.
func TestInvestigateIsListed(t *testing.T) {
	r := newRig(t)
	c := r.open(t, "")
	if names := c.tools(t); slices.Contains(names, "investigate") {
		t.Fatalf("tools without an investigator = %v, want no investigate", names)
	}
	const none = "no investigator answers: start one with tocsin up --investigator FILE"
	if why := c.fails(t, "investigate", `{"data":"x"}`); !strings.HasPrefix(why, none) {
		t.Errorf("got %v, want %q", why, none)
	}
	if block := c.call(t, "observe", `{"what":"investigations"}`).blocks[0]; !strings.Contains(block, none) {
		t.Errorf("observe = %s, want %q in it", block, none)
	}
	if health := c.call(t, "configure", `{"action":"health"}`).blocks[0]; strings.Contains(health, `"investigator"`) {
		t.Errorf("the health without an investigator is %s, want nothing of one", health)
	}
	i := r.startInvestigator(t)
	if m := c.next(t); m.Method != "notifications/tools/list_changed" {
		t.Fatalf("got %v, want %v", m.raw, "notifications/tools/list_changed")
	}
	if names := c.tools(t); !slices.Contains(names, "investigate") || slices.Contains(names, "events_subscribe") {
		t.Errorf("tools = %v, want investigate and none for Kubernetes", names)
	}
	other := r.open(t, "other")
	other.awaitInvestigator(t)
	if names := other.tools(t); !slices.Contains(names, "investigate") {
		t.Errorf("the first list of tools = %v, want investigate in it", names)
	}
	const health = `"investigator":{"ok":true,"queued":2,"running":1,"servers_down":["metrics"]}`
	if got := c.call(t, "configure", `{"action":"health"}`).blocks[0]; !strings.Contains(got, health) {
		t.Errorf("the health is %s, want %s in it", got, health)
	}
	i.stop()
	if !testrig.Poll(func() bool {
		return strings.Contains(c.call(t, "configure", `{"action":"health"}`).blocks[0], `"investigator":{"ok":false,"reason":"no investigator answers`)
	}) {
		t.Error("timed out: the health does not report that the investigator has gone")
	}
	if names := c.tools(t); !slices.Contains(names, "investigate") {
		t.Errorf("tools after the investigator has gone = %v, want investigate to stay", names)
	}
	if why := c.fails(t, "investigate", `{"data":"x"}`); !strings.HasPrefix(why, none) {
		t.Errorf("got %v, want %q", why, none)
	}
}

// TestInvestigateIsListedOverHTTP: a client over HTTP lists the tool once an investigator is on the
// bus.
func TestInvestigateIsListedOverHTTP(t *testing.T) {
	r := newRig(t)
	h := r.begin(t, r.serve(t, mcpserver.Compatible, mcpserver.HTTPConfig{}), "later")
	const list = `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`
	if text := h.say(t, http.MethodPost, list); strings.Contains(text, `"investigate"`) {
		t.Fatalf("got %v, want no investigate", text)
	}
	r.startInvestigator(t)
	if !testrig.Poll(func() bool { return strings.Contains(h.say(t, http.MethodPost, list), `"investigate"`) }) {
		t.Error("timed out: investigate is not listed")
	}
}

// TestInvestigateArguments: the requests have what the arguments say, and other arguments are
// refused without a request.
func TestInvestigateArguments(t *testing.T) {
	r := newRig(t)
	c, i := r.openWithInvestigator(t, "claude")
	i.says(query.Investigation{SessionID: session01, Status: "pending", URL: "http://h/1"}, nil)
	for _, tt := range []struct{ args, want string }{
		{`{"alert_id":"a1"}`, `investigate.submit {"client":"claude","alert_id":"a1"}`},
		{`{"data":"pod","chain":"crash","wait_seconds":50}`, `investigate.submit {"client":"claude","data":"cG9k","chain":"crash","wait_seconds":50}`},
		{`{"data":{"pod": "web"}}`, `investigate.submit {"client":"claude","data":"eyJwb2QiOiJ3ZWIifQ=="}`},
		{`{"session_id":"` + session01 + `","wait_seconds":3,"alert_id":""}`, `investigate.get {"session_id":"` + session01 + `","wait_seconds":3}`},
	} {
		if got := c.call(t, "investigate", tt.args); got.isError {
			t.Errorf("%s = %v, want no error", tt.args, got.blocks)
		}
		if diff := cmp.Diff([]string{tt.want}, i.got()); diff != "" {
			t.Errorf("the request of %s (-want +got):\n%s", tt.args, diff)
		}
	}
	for args, want := range map[string]string{
		`{}`:                                 "name one of alert_id, data and session_id",
		`{"alert_id":"a","data":"x"}`:        "name one of alert_id, data and session_id",
		`{"session_id":"a","data":"x"}`:      "name one of alert_id, data and session_id",
		`{"session_id":"a","chain":"crash"}`: "chain is for alert_id and data",
		`{"data":"x","wait_seconds":51}`:     "wait_seconds must be between 0 and 50",
		`{"data":"x","wait_seconds":-1}`:     "wait_seconds must be between 0 and 50",
		`{"data":["x"]}`:                     "data must be a text of at most 1048576 bytes",
		`{"data":"x","question":"why"}`:      "unknown argument question; the arguments are alert_id, data, chain, session_id, wait_seconds",
		`{"data":"` + strings.Repeat("x", query.MaxInvestigationData+1) + `"}`: "data must be a text of at most 1048576 bytes",
	} {
		if why := c.fails(t, "investigate", args); !strings.HasPrefix(why, want) {
			t.Errorf("%.60s = %v, want %q", args, why, want)
		}
	}
	if got := i.got(); len(got) != 0 {
		t.Errorf("refused arguments led to the requests %v, want none", got)
	}
	i.says(nil, &bus.RefusedError{Code: "429", Text: "the queue\x1b is full", RetryAfter: 10})
	if why := c.fails(t, "investigate", `{"data":"x"}`); why != "the queue␛ is full; try again in 10 s" {
		t.Errorf("a full queue = %q, want the reason and when to try again", why)
	}
	i.says(nil, &bus.RefusedError{Code: "404", Text: "there is no such session"})
	if why := c.fails(t, "investigate", `{"session_id":"x"}`); why != "there is no such session" {
		t.Errorf("an unknown session = %q, want the reason", why)
	}
}

// TestInvestigateAnswers: the answer has the texts of the session, masked and bounded, with their
// origin.
func TestInvestigateAnswers(t *testing.T) {
	const secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
	r := newRig(t)
	c, i := r.openWithInvestigator(t, "claude")
	const open = `"note":"The investigation has not ended: call investigate again with session_id."`
	for _, tt := range []struct {
		name string
		inv  query.Investigation
		want string
	}{
		{"pending", query.Investigation{SessionID: session01, Status: "pending", Joined: true, URL: "http://h/1"},
			`{"session_id":"` + session01 + `","status":"pending","summary":null,"conclusion":null,"url":"http://h/1","joined":true,` + open + `}`},
		{"a note of the investigator", query.Investigation{SessionID: session01, Status: "in_progress", URL: "u", Note: "64 others wait"},
			`{"session_id":"` + session01 + `","status":"in_progress","summary":null,"conclusion":null,"url":"u","note":"64 others wait"}`},
		{"completed", query.Investigation{
			SessionID: session01, Status: "completed", Summary: "The pool\u202e is small " + secret,
			Conclusion: json.RawMessage(`{"cause":"a\u001b[31m ` + secret + `","confidence":"proven","evidence":[{"quote":"<x>","supported":true}],"suggested_change":{"file":"pool.go","description":"Raise it."}}`), URL: "u",
		}, `{"session_id":"` + session01 + `","status":"completed","summary":"The pool is small [REDACTED:github]","conclusion":{"cause":"a␛[31m [REDACTED:github]","confidence":"proven",` +
			`"evidence":[{"quote":"<x>","supported":true}],"suggested_change":{"description":"Raise it.","file":"pool.go","from":"model"}},"url":"u","from":"model"}`},
		{"prose", query.Investigation{
			SessionID: session01, Status: "completed", Conclusion: json.RawMessage(`{"confidence":"unproven","structured":false}`), Analysis: "It was\n\x1bthe deploy.", URL: "u",
		}, `{"session_id":"` + session01 + `","status":"completed","summary":null,"conclusion":{"confidence":"unproven","structured":false},"analysis":"It was\n␛the deploy.","url":"u","from":"model"}`},
		{"failed", query.Investigation{SessionID: session01, Status: "failed", Error: "the model\nfailed", URL: "u"},
			`{"session_id":"` + session01 + `","status":"failed","summary":null,"conclusion":null,"error":"the model␊failed","url":"u"}`},
	} {
		i.says(tt.inv, nil)
		got := c.call(t, "investigate", `{"session_id":"`+session01+`"}`)
		if diff := cmp.Diff(result{blocks: []string{tt.want}}, got, cmp.AllowUnexported(result{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	long := query.Investigation{SessionID: session01, Status: "completed", Analysis: strings.Repeat("→", query.MaxAnalysis), URL: "u"}
	i.says(long, nil)
	if got := c.call(t, "investigate", `{"session_id":"x"}`).blocks[0]; len(got) > 40<<10 || !strings.Contains(got, session01) || !json.Valid([]byte(got)) {
		t.Errorf("the answer has %d bytes (%.200s), want valid JSON of at most %d with the session", len(got), got, 40<<10)
	}
	i.says("x", nil)
	if why := c.fails(t, "investigate", `{"session_id":"x"}`); !strings.Contains(why, "decode the answer of the investigator") {
		t.Errorf("no object = %q, want that it can't be decoded", why)
	}
}

// TestInvestigateWaits: a call that waits reports progress, and a client that cancels it gets no
// answer.
func TestInvestigateWaits(t *testing.T) {
	r := newRig(t)
	c, i := r.openWithInvestigator(t, "claude")
	id := c.send(t, "tools/call", `{"name":"investigate","arguments":{"session_id":"x","wait_seconds":50},"_meta":{"progressToken":"p"}}`)
	select {
	case <-i.held:
	case <-time.After(patience):
		t.Fatal("timed out: no request")
	}
	if m := c.next(t); m.Method != "notifications/progress" || !strings.Contains(string(m.Params), `"message":"the investigation goes on"`) {
		t.Errorf("got %s, want progress", m.raw)
	}
	c.write(t, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, id))
	i.says(query.Investigation{SessionID: session01, Status: "pending", URL: "u"}, nil)
	if !testrig.Poll(func() bool { // progress may have been under way
		other := c.send(t, "tools/call", `{"name":"investigate","arguments":{"session_id":"x"}}`)
		for m := c.next(t); ; m = c.next(t) {
			if m.ID == other {
				return strings.Contains(m.raw, session01)
			}
		}
	}) {
		t.Error("timed out: the client gets no further answers")
	}
}

// TestObserveInvestigations: a list has a line for each session, bounded and in pages.
func TestObserveInvestigations(t *testing.T) {
	r := newRig(t)
	c, i := r.openWithInvestigator(t, "claude")
	at := time.Date(2026, 1, 28, 14, 30, 0, 0, time.UTC)
	i.says(query.SessionsReply{Sessions: []query.SessionEntry{{
		SessionID: session01, Status: "completed", Chain: "crash", Author: "mcp:claude", Created: at, Completed: at.Add(time.Minute),
		Summary: "The pool\nis small. password=hunter2secret", URL: "http://h/1",
		Alert: &query.InvestigatedAlert{ID: "a1", App: "web", Title: "New\u202e error", DedupKey: "errors:web:1"},
	}}, Older: 3}, nil)
	i.got()
	got := c.call(t, "observe", `{"what":"investigations","limit":1,"app":"web","since_seconds":60}`).blocks[0]
	const want = `{"what":"investigations","investigations":[{"session_id":"` + session01 + `","status":"completed","alert":{"id":"a1","app":"web","title":"New error","dedup_key":"errors:web:1"},` +
		`"chain":"crash","author":"mcp:claude","created_at":"2026-01-28T14:30:00.000Z","completed_at":"2026-01-28T14:31:00.000Z","summary":"The pool␊is small. password=[REDACTED]","url":"http://h/1"}],"truncated":{"left_out":3,"before":"`
	if !strings.HasPrefix(got, want) {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
	requests := i.got()
	if len(requests) != 1 || !strings.HasPrefix(requests[0], `investigate.list {"app":"web","since":"`) || !strings.HasSuffix(requests[0], `,"limit":1}`) {
		t.Errorf("the requests are %v, want one for the app, the last minute and one session", requests)
	}
	before, _, _ := strings.Cut(strings.TrimPrefix(got, want), `"`)
	c.call(t, "observe", `{"what":"investigations","before":"`+before+`"}`)
	if requests := i.got(); len(requests) != 1 || !strings.Contains(requests[0], `"before":"`+session01+`"`) {
		t.Errorf("the requests of the next page are %v, want one before %s", requests, session01)
	}
	// The newest without since_seconds are those of any time, and so are those of the next page.
	got = c.call(t, "observe", `{"what":"investigations","limit":1}`).blocks[0]
	_, after, _ := strings.Cut(got, `"before":"`)
	after, _, _ = strings.Cut(after, `"`)
	c.call(t, "observe", `{"what":"investigations","limit":1,"before":"`+after+`"}`)
	if diff := cmp.Diff([]string{`investigate.list {"limit":1}`, `investigate.list {"before":"` + session01 + `","limit":1}`}, i.got()); diff != "" {
		t.Errorf("the requests without since_seconds (-want +got):\n%s", diff)
	}
	long := make([]query.SessionEntry, query.MaxLimit)
	for n := range long {
		long[n] = query.SessionEntry{SessionID: fmt.Sprintf("01K%023d", n), Status: "failed", Created: at, Summary: strings.Repeat("s", 600), Error: strings.Repeat("e", 600), URL: "u"}
	}
	i.says(query.SessionsReply{Sessions: long}, nil)
	if got := c.call(t, "observe", `{"what":"investigations","limit":200}`).blocks[0]; len(got) > 40<<10 || !strings.Contains(got, `"session_id":"01K`) || !json.Valid([]byte(got)) {
		t.Errorf("the list has %d bytes (%.200s), want valid JSON of at most %d", len(got), got, 40<<10)
	}
}

// TestInvestigateNamespaces: a gateway that is limited to namespaces neither investigates nor shows
// what belongs to others.
func TestInvestigateNamespaces(t *testing.T) {
	r := newRig(t)
	var err error
	if r.kubernetes.Namespaces, err = namespaces.New([]string{"shop"}); err != nil {
		t.Fatal(err)
	}
	alertIn := func(namespace string) alert.Alert {
		a := r.Alert(alert.Error)
		a.Category, a.Source, a.DedupKey = alert.Kubernetes, alert.SourceKubernetes, "kubernetes:dev:"+namespace+":Pod/web:crash"
		a.Context = map[string]any{alert.NamespaceKey: namespace}
		r.Publish(t, a)
		return a
	}
	own, other := alertIn("shop"), alertIn("bank")
	c, i := r.openWithInvestigator(t, "claude")
	about := func(a alert.Alert) query.Investigation {
		return query.Investigation{SessionID: session01, Status: "pending", URL: "u", Alert: &query.InvestigatedAlert{ID: a.ID, DedupKey: a.DedupKey}}
	}
	i.says(about(own), nil)
	if got := c.call(t, "investigate", `{"alert_id":"`+own.ID+`"}`); got.isError {
		t.Errorf("an alert that is shown = %v, want no error", got.blocks)
	}
	i.got()
	if why := c.fails(t, "investigate", `{"alert_id":"`+other.ID+`"}`); !strings.HasPrefix(why, "alert_id must be the id of an alert") {
		t.Errorf("an alert of another namespace = %q, want that there is none", why)
	}
	if got := i.got(); len(got) != 0 {
		t.Errorf("an alert of another namespace led to the requests %v, want none", got)
	}
	i.says(about(other), nil)
	if why := c.fails(t, "investigate", `{"session_id":"`+session01+`"}`); why != "there is no such session" {
		t.Errorf("a session of another namespace = %q, want that there is none", why)
	}
	entry := func(id string, a *query.InvestigatedAlert) query.SessionEntry {
		return query.SessionEntry{SessionID: id, Status: "pending", URL: "u", Alert: a}
	}
	i.says(query.SessionsReply{Sessions: []query.SessionEntry{entry("S1", about(own).Alert), entry("S2", about(other).Alert), entry("S3", nil)}}, nil)
	i.got()
	got := c.call(t, "observe", `{"what":"investigations"}`).blocks[0]
	if diff := cmp.Diff([]string{`investigate.list {"namespaces":["shop"],"limit":50}`}, i.got()); diff != "" {
		t.Errorf("the request of the list (-want +got):\n%s", diff)
	}
	if !strings.Contains(got, `"S1"`) || strings.Contains(got, `"S2"`) || strings.Contains(got, `"S3"`) {
		t.Errorf("the list is %s, want the session of the own namespace alone", got)
	}
}
