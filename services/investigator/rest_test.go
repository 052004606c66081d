package investigator

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/services/investigator/config"
	"github.com/tocsin-bus/tocsin/services/investigator/journal"
	"github.com/tocsin-bus/tocsin/services/investigator/masking"
	"github.com/tocsin-bus/tocsin/services/investigator/session"
	"github.com/tocsin-bus/tocsin/services/investigator/toolbox"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
	"github.com/tocsin-bus/tocsin/shared/httpguard"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
	"github.com/tocsin-bus/tocsin/shared/httpserve/httpservetest"
	"github.com/tocsin-bus/tocsin/shared/namespaces"
)

const alerts = "/api/v1/alerts"

func TestReference(t *testing.T) {
	httpservetest.CheckReference(t, "../../docs/reference/http.md", "Investigator", newRESTRig(t, nil).handler.Routes())
}

func TestRefusals(t *testing.T) {
	r := newRESTRig(t, nil)
	unknown := journal.NewSession()
	big := strings.Repeat("x", maxData+1)
	for _, c := range []struct {
		name, method, path, body string
		header                   []string
		status                   int
		says                     string
	}{
		{name: "neither data nor alert_id", body: `{}`, status: 400, says: "data or alert_id is missing"},
		{name: "null data", body: `{"data":null}`, status: 400, says: "data or alert_id is missing"},
		{name: "both", body: `{"data":"x","alert_id":"y"}`, status: 400, says: "exclude each other"},
		{name: "empty data", body: `{"data":""}`, status: 400, says: "data is empty"},
		{name: "blank data", body: `{"data":" \n"}`, status: 400, says: "data is empty"},
		{name: "an empty object", body: `{"data":{ }}`, status: 400, says: "data is empty"},
		{name: "an empty object as text", body: `{"data":"{}"}`, status: 400, says: "data is empty"},
		{name: "a number", body: `{"data":1}`, status: 400, says: "data must be a string or an object"},
		{name: "a list", body: `{"data":["x"]}`, status: 400, says: "data must be a string or an object"},
		{name: "an empty alert_id", body: `{"alert_id":""}`, status: 400, says: "alert_id is empty"},
		{name: "no UTF-8", body: "{\"data\":\"\xff\"}", status: 400, says: "not UTF-8"},
		{name: "no JSON", body: `{"data":`, status: 400, says: "not JSON"},
		{name: "no object", body: `["data"]`, status: 400, says: "must be a JSON object"},
		{name: "two objects", body: `{"data":"x"}{}`, status: 400, says: "after the JSON object"},
		{name: "an unknown field", body: `{"data":"x","colour":"red"}`, status: 400, says: `\"colour\"`},
		{name: "a field in other case", body: `{"data":"x","Chain":"crash"}`, status: 400, says: `\"Chain\"`},
		{name: "a field twice", body: `{"data":"x","data":"y"}`, status: 400, says: `twice`},
		{name: "an unknown field of mcp", body: `{"data":"x","mcp":{"server":[]}}`, status: 400, says: `\"server\"`},
		{name: "an unknown field of a server", body: `{"data":"x","mcp":{"servers":[{"name":"own","tool":[]}]}}`, status: 400, says: `\"tool\"`},
		{name: "a server without a name", body: `{"data":"x","mcp":{"servers":[{}]}}`, status: 400, says: "mcp.servers[0].name"},
		{name: "a type that is no string", body: `{"data":"x","alert_type":5}`, status: 400, says: "alert_type must be a string"},
		{name: "a tool with a long name", body: `{"data":"x","mcp":{"servers":[{"name":"own","tools":["` + strings.Repeat("x", maxName+1) + `"]}]}}`, status: 400, says: "mcp.servers[0].tools[0]"},
		{name: "an unknown chain", body: `{"data":"x","chain":"nope"}`, status: 400, says: "nope"},
		{name: "an unknown server", body: `{"data":"x","mcp":{"servers":[{"name":"nope"}]}}`, status: 400, says: "nope"},
		{name: "a runbook of another domain", body: `{"data":"x","runbook":"https://evil.example/x.md"}`, status: 400, says: "evil.example"},
		{name: "an alert that is not stored", body: `{"alert_id":"01ABC"}`, status: 404, says: "no stored alert"},
		{name: "data over 1 MiB", body: `{"data":"` + big + `"}`, status: 413, says: "1048576"},
		{name: "an object over 1 MiB", body: `{"data":{"a":"` + big + `"}}`, status: 413, says: "1048576"},
		{name: "a body over 4 MiB", body: `{"data":"x"}` + strings.Repeat(" ", maxBody), status: 413, says: "4194304"},
		{name: "an empty body", body: " ", status: 400, says: "empty"},
		{name: "a form", body: `{"data":"x"}`, header: []string{"=Content-Type", "text/plain"}, status: 415, says: "application/json"},
		{name: "an Idempotency-Key that is too long", body: `{"data":"x"}`, header: []string{"Idempotency-Key", strings.Repeat("k", 201)}, status: 400, says: "Idempotency-Key"},
		{name: "an empty Idempotency-Key", body: `{"data":"x"}`, header: []string{"Idempotency-Key", ""}, status: 400, says: "Idempotency-Key"},
		{name: "two Idempotency-Keys", body: `{"data":"x"}`, header: []string{"Idempotency-Key", "a", "Idempotency-Key", "b"}, status: 400, says: "twice"},
		{name: "a foreign page", body: `{"data":"x"}`, header: []string{"Origin", "https://evil.example"}, status: 403},
		{name: "another host", body: `{"data":"x"}`, header: []string{"Origin", "null"}, status: 403},

		{name: "a page 0", method: "GET", path: "/api/v1/sessions?page=0", status: 400, says: "page"},
		{name: "a page below every int", method: "GET", path: "/api/v1/sessions?page=-99999999999999999999", status: 400, says: "page"},
		{name: "a page that is no number", method: "GET", path: "/api/v1/sessions?page=x", status: 400, says: "page"},
		{name: "a page size of 0", method: "GET", path: "/api/v1/sessions?page_size=0", status: 400, says: "page_size"},
		{name: "a page size of 101", method: "GET", path: "/api/v1/sessions?page_size=101", status: 400, says: "page_size"},
		{name: "an unknown order", method: "GET", path: "/api/v1/sessions?sort_by=colour", status: 400, says: "sort_by"},
		{name: "an unknown direction", method: "GET", path: "/api/v1/sessions?sort_order=up", status: 400, says: "sort_order"},
		{name: "an unknown status", method: "GET", path: "/api/v1/sessions?status=failed,odd", status: 400, says: "status"},
		{name: "an unknown date", method: "GET", path: "/api/v1/sessions?start_date=yesterday", status: 400, says: "start_date"},
		{name: "a search", method: "GET", path: "/api/v1/sessions?search=abc", status: 400, says: "not supported yet"},
		{name: "an unknown parameter", method: "GET", path: "/api/v1/sessions?colour=red", status: 400, says: "colour"},
		{name: "a parameter twice", method: "GET", path: "/api/v1/sessions?page=1&page=2", status: 400, says: "twice"},

		{name: "an unknown session", method: "GET", path: "/api/v1/sessions/" + unknown, status: 404},
		{name: "a malformed session", method: "GET", path: "/api/v1/sessions/x", status: 404},
		{name: "a session with a wildcard", method: "GET", path: "/api/v1/sessions/*", status: 404},
		{name: "a session in lower case", method: "GET", path: "/api/v1/sessions/" + strings.ToLower(unknown), status: 404},
		{name: "summary of an unknown session", method: "GET", path: "/api/v1/sessions/" + unknown + "/summary", status: 404},
		{name: "status of a malformed session", method: "GET", path: "/api/v1/sessions/x/status", status: 404},
		{name: "timeline of an unknown session", method: "GET", path: "/api/v1/sessions/" + unknown + "/timeline", status: 404},
		{name: "trace of an unknown session", method: "GET", path: "/api/v1/sessions/" + unknown + "/trace", status: 404},
		{name: "model call of an unknown session", method: "GET", path: "/api/v1/sessions/" + unknown + "/trace/llm/x", status: 404},
		{name: "tool call of a malformed session", method: "GET", path: "/api/v1/sessions/x/trace/mcp/x", status: 404},
		{name: "cancelling an unknown session", path: "/api/v1/sessions/" + unknown + "/cancel", status: 404},
		{name: "retrying a malformed session", path: "/api/v1/sessions/x/retry", status: 404},
		{name: "cancelling as a form", path: "/api/v1/sessions/" + unknown + "/cancel", header: []string{"Content-Type", "text/plain"}, status: 415},
		{name: "chat", path: "/api/v1/sessions/" + unknown + "/chat/messages", body: `{}`, status: 404},
		{name: "usage", method: "GET", path: "/api/v1/usage", status: 404},
		{name: "WebSocket", method: "GET", path: "/api/v1/ws", status: 404},
		{name: "another method", method: "DELETE", path: "/api/v1/sessions/" + unknown, status: 405},
	} {
		if c.method == "" {
			c.method = "POST"
		}
		if c.path == "" {
			c.path = alerts
		}
		got := r.send(c.method, c.path, c.body, c.header...)
		var refusal struct {
			Error *string `json:"error"`
			OK    *bool   `json:"ok"`
		}
		if got.status != c.status || !strings.Contains(got.body, c.says) {
			t.Errorf("%s: got %d %.300s, want %d with %q", c.name, got.status, got.body, c.status, c.says)
			continue
		}
		got.decode(t, &refusal)
		if refusal.Error == nil || *refusal.Error == "" || refusal.OK != nil {
			t.Errorf("%s: got %s, want only an error", c.name, got.body)
		}
	}
	var list listed
	if r.get("/api/v1/sessions", &list); len(list.Sessions) != 0 {
		t.Errorf("refused alerts left %d sessions, want none", len(list.Sessions))
	}
}

// listed is an answer of GET /sessions.
type listed struct {
	Sessions []struct {
		ID     string         `json:"id"`
		Status session.Status `json:"status"`
		Author string         `json:"author"`
	} `json:"sessions"`
	Pagination pagination `json:"pagination"`
}

func (l listed) ids() []string {
	ids := []string{}
	for _, s := range l.Sessions {
		ids = append(ids, s.ID)
	}
	return ids
}

func TestSubmitIsStored(t *testing.T) {
	r := newRESTRig(t, nil)
	for _, c := range []struct{ name, body, want string }{
		{"a string", `{"data":"pod down, hunter2","alert_type":"crash"}`, "pod down, [MASKED]"},
		{"an object", `{"data": { "b": 1.50, "a": "hunter2" }}`, `{"b":1.50,"a":"[MASKED]"}`},
		{"a long text", `{"data":"` + strings.Repeat("line hunter2 ", 40_000) + `"}`, strings.Repeat("line [MASKED] ", 40_000)},
		{"a chosen server", `{"data":"x","mcp":{"servers":[{"name":"chosen","tools":["a"]}]},"slack_message_fingerprint":"f"}`, "x"},
	} {
		var d struct {
			Data      string `json:"alert_data"`
			Type      string `json:"alert_type"`
			Chain     string `json:"chain_id"`
			Author    string `json:"author"`
			Status    string `json:"status"`
			WaitingOn any    `json:"waiting_for"`
		}
		r.get("/api/v1/sessions/"+r.post(c.body), &d)
		if d.Data != c.want || d.Type != "crash" || d.Chain != "crash" || d.Author != AuthorAPI || d.Status != "pending" {
			t.Errorf("%s: got %+.300v, want data %.100s, type and chain crash, author %s, pending", c.name, d, c.want, AuthorAPI)
		}
	}
	queued, err := r.journal.Queued(t.Context())
	if err != nil || len(queued) != 4 || queued[0].Attempt != 1 {
		t.Errorf("queued %+v, %v, want 4 first attempts", queued, err)
	}
}

func TestSubmitStoredAlert(t *testing.T) {
	r := newRESTRig(t, nil)
	publish := func(a alert.Alert) {
		t.Helper()
		data, err := a.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.session.JS.Publish(t.Context(), bus.AlertSubject(a), data); err != nil {
			t.Fatal(err)
		}
	}
	a := alert.Alert{
		ID: "A1", Severity: alert.Error, Category: alert.Anomaly, Title: "hunter2 fails", Timestamp: time.Unix(1, 0), Source: alert.SourceErrors,
		App: "shop", DedupKey: "shop/x", CorrelationID: "A1",
	}
	publish(a)
	revised := a
	revised.ID, revised.Revises, revised.Title = "A2", "A1", "hunter2 fails more"
	publish(revised)
	id := r.post(`{"alert_id":"A1"}`)
	err := r.log.view(t.Context(), id, func(s *session.Session) error {
		got := s.Submitted()
		if got.Alert == nil || got.Alert.ID != "A1" || got.Alert.Title != "[MASKED] fails more" || got.DedupKey != "shop/x" {
			t.Errorf("submitted %+v with alert %+v, want alert A1 as it was stored last, masked, with its key", got, got.Alert)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if got := r.send("POST", alerts, `{"alert_id":"A1"}`); got.status != 200 || !strings.Contains(got.body, `"joined"`) {
		t.Errorf("the same alert again: %d %s, want 200 joined", got.status, got.body)
	}
}

func TestQueueIsBounded(t *testing.T) {
	r := newRESTRig(t, nil)
	limit := r.config.Load().Queue.MaxQueuedSessions
	var accepted, refused int
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range limit + 5 {
		all.Go(func() {
			got := r.send("POST", alerts, fmt.Sprintf(`{"data":"alert %d"}`, i))
			mu.Lock()
			defer mu.Unlock()
			switch got.status {
			case http.StatusAccepted:
				accepted++
			case http.StatusTooManyRequests:
				refused++
				if got.header.Get("Retry-After") == "" {
					t.Errorf("429 without Retry-After: %v", got.header)
				}
			default:
				t.Errorf("got %d %s, want 202 or 429", got.status, got.body)
			}
		})
	}
	all.Wait()
	if accepted != limit || refused != 5 {
		t.Errorf("accepted %d and refused %d, want %d and 5", accepted, refused, limit)
	}
}

func TestRateOfTriggersAndMCP(t *testing.T) {
	r := newRESTRig(t, nil)
	submit := func(author string) error {
		_, err := r.submitter.Submit(t.Context(), Request{Data: "x", Author: author})
		return err
	}
	for _, author := range []string{AuthorTrigger, AuthorMCP + "claude", AuthorAPI, AuthorTrigger} {
		if err := submit(author); err != nil {
			t.Fatalf("%s: %v", author, err)
		}
	}
	for _, author := range []string{AuthorTrigger, AuthorMCP + "claude"} {
		var refusal *Refusal
		if err := submit(author); !asRefusal(err, &refusal) || refusal.Status != http.StatusTooManyRequests || refusal.RetryAfter < 3500 {
			t.Errorf("%s over max_per_hour: %+v, want 429 with an hour to wait", author, err)
		}
	}
	if err := submit(AuthorAPI); err != nil {
		t.Errorf("REST over max_per_hour: %v, want none", err)
	}
}

func asRefusal(err error, into **Refusal) bool {
	*into = httpserve.AsRefusal(err)
	return *into != nil
}

func TestJoin(t *testing.T) {
	r := newRESTRig(t, nil)
	const total = keptJoins + 30
	id := r.post(`{"data":"first","dedup_key":"k"}`)
	const others = 3 // notes of a worker, which count for nothing
	for range others {
		r.store(id, session.Fact{Noted: &session.Noted{Text: "12 tools are not offered"}})
	}
	for i := range total {
		got := r.send("POST", alerts, fmt.Sprintf(`{"data":"again %d hunter2","dedup_key":"k"}`, i))
		if want := fmt.Sprintf(`{"session_id":%q,"status":"joined"}`, id); got.status != 200 || got.body != want {
			t.Fatalf("joining: %d %s, want 200 %s", got.status, got.body, want)
		}
	}
	r.submitter.joins.close()
	var events session.Events
	r.get("/api/v1/sessions/"+id+"/timeline", &events)
	kept, counted := 0, 0
	for _, e := range events.Events {
		n, isCount := e.Metadata["count"].(float64)
		switch {
		case strings.Contains(e.Content, "are not offered"):
		case strings.Contains(e.Content, "again ") && strings.Contains(e.Content, "[MASKED]"):
			kept++
		case isCount:
			counted += int(n)
		default:
			counted++
		}
	}
	if kept != keptJoins || counted != total-keptJoins {
		t.Errorf("the timeline keeps %d alerts and counts %d, want %d and %d", kept, counted, keptJoins, total-keptJoins)
	}
	if len(events.Events) > keptJoins+others+3 {
		t.Errorf("%d notes, want few beyond %d", len(events.Events), keptJoins)
	}
	// An ended session is joined no more, also where its key was not freed.
	r.claim(id, 1)
	r.end(id, session.StatusCompleted)
	if next := r.post(`{"data":"later","dedup_key":"k"}`); next == id {
		t.Errorf("an alert after the end has session %s, want a new one", next)
	}
}

func TestJoinWhileAnotherSubmits(t *testing.T) {
	r := newRESTRig(t, nil)
	var mu sync.Mutex
	sessions, joined := map[string]bool{}, 0
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			got := r.send("POST", alerts, fmt.Sprintf(`{"data":"same %d","dedup_key":"k"}`, i))
			var a Answer
			got.decode(t, &a)
			mu.Lock()
			defer mu.Unlock()
			sessions[a.SessionID] = true
			if got.status == 200 && a.Joined() {
				joined++
			}
		})
	}
	all.Wait()
	if len(sessions) != 1 || joined != 19 {
		t.Errorf("20 alerts with one dedup_key: sessions %v, %d joined, want one session and 19", sessions, joined)
	}
}

func TestAbandonedReservation(t *testing.T) {
	r := newRESTRig(t, nil)
	if _, ok, err := r.journal.Reserve(t.Context(), "k", journal.NewSession(), 1); !ok || err != nil {
		t.Fatalf("reserve: %t, %v", ok, err)
	}
	start := time.Now()
	r.post(`{"data":"x","dedup_key":"k"}`)
	if took := time.Since(start); took < 9*time.Second {
		t.Errorf("took over a reservation after %s, want 10s", took)
	}
}

// TestSlowSubmission: another session took the dedup_key while a submission was under way. Its alert
// joins that one, and no second session opens.
func TestSlowSubmission(t *testing.T) {
	r := newRESTRig(t, nil)
	request := Request{Data: "slow", DedupKey: "k", Author: AuthorAPI}
	submitted, err := r.submitter.prepare(t.Context(), &request)
	if err != nil {
		t.Fatal(err)
	}
	submitted.ID = journal.NewSession()
	if _, own, err := r.submitter.claim(t.Context(), request, submitted.ID); !own || err != nil {
		t.Fatalf("claim = %t, %v, want true", own, err)
	}
	if err := r.journal.Free(t.Context(), "k", submitted.ID, 1); err != nil { // as a takeover after 10 s does
		t.Fatal(err)
	}
	other := r.post(`{"data":"fast","dedup_key":"k"}`)
	got, err := r.submitter.storeNew(t.Context(), request, submitted)
	if want := (Answer{SessionID: other, Status: statusJoined}); got != want || err != nil {
		t.Errorf("the slow submission = %+v, %v, want %+v", got, err, want)
	}
	if last, err := r.journal.Last(t.Context(), submitted.ID); last.Seq != 0 || err != nil {
		t.Errorf("the slow session has the message %d, %v, want none", last.Seq, err)
	}
	if owner, err := r.journal.Owner(t.Context(), "k"); owner != other || err != nil {
		t.Errorf("the key has the owner %q, %v, want %s", owner, err, other)
	}
}

func TestRefusedSubmissionFreesItsKey(t *testing.T) {
	r := newRESTRig(t, nil)
	for i := range r.config.Load().Queue.MaxQueuedSessions {
		r.post(fmt.Sprintf(`{"data":"alert %d"}`, i))
	}
	if got := r.send("POST", alerts, `{"data":"x","dedup_key":"k"}`); got.status != http.StatusTooManyRequests {
		t.Fatalf("over the bound: %d %s, want 429", got.status, got.body)
	}
	if owner, err := r.journal.Owner(t.Context(), "k"); owner != "" || err != nil {
		t.Errorf("the key of a refused alert has the owner %q, %v, want none", owner, err)
	}
}

func TestIdempotencyKey(t *testing.T) {
	r := newRESTRig(t, nil)
	const body = `{"data":"x","dedup_key":"k"}`
	first := r.send("POST", alerts, body, "Idempotency-Key", "one")
	again := r.send("POST", alerts, body, "Idempotency-Key", "one")
	if first.status != 202 || again.status != 202 || again.body != first.body {
		t.Errorf("got %d %s, then %d %s, want the same answer twice", first.status, first.body, again.status, again.body)
	}
	if other := r.send("POST", alerts, `{"data":"y"}`, "Idempotency-Key", "one"); other.status != http.StatusConflict {
		t.Errorf("another body: %d %s, want 409", other.status, other.body)
	}
	joined := r.send("POST", alerts, body, "Idempotency-Key", "two")
	again = r.send("POST", alerts, body, "Idempotency-Key", "two")
	if joined.status != 200 || again.body != joined.body || again.status != 200 {
		t.Errorf("joined: %d %s, then %d %s, want the same answer twice", joined.status, joined.body, again.status, again.body)
	}
	var answer Answer
	first.decode(t, &answer)
	var events session.Events
	if r.get("/api/v1/sessions/"+answer.SessionID+"/timeline", &events); len(events.Events) != 1 {
		t.Errorf("%d notes, want the one of the joined alert", len(events.Events))
	}
}

func TestIdempotencyKeyOfADeadProcess(t *testing.T) {
	r := newRESTRig(t, nil)
	const body = `{"data":"x"}`
	id := journal.NewSession()
	stored := fmt.Sprintf(`{"session_id":%q,"status":"queued","message":"m"}`, id)
	if _, _, err := r.journal.Remember(t.Context(), "one", digestOf([]byte(body)), []byte(stored)); err != nil {
		t.Fatal(err)
	}
	if got := r.send("POST", alerts, body, "Idempotency-Key", "one"); got.status != 202 || got.body != stored {
		t.Errorf("got %d %s, want 202 %s", got.status, got.body, stored)
	}
	var d session.Outcome
	if r.get("/api/v1/sessions/"+id+"/summary", &d); d.ID != id || d.Status != session.StatusPending {
		t.Errorf("the session is %+v, want %s pending", d, id)
	}
}

// TestIdempotencyKeyOfADeadJoin: a process died between storing the answer and storing the note.
func TestIdempotencyKeyOfADeadJoin(t *testing.T) {
	r := newRESTRig(t, nil)
	const body = `{"data":"again","dedup_key":"k"}`
	id := r.post(`{"data":"first","dedup_key":"k"}`)
	stored := fmt.Sprintf(`{"session_id":%q,"status":"joined"}`, id)
	if _, _, err := r.journal.Remember(t.Context(), "one", digestOf([]byte(body)), []byte(stored)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := r.send("POST", alerts, body, "Idempotency-Key", "one"); got.status != 200 || got.body != stored {
			t.Errorf("got %d %s, want 200 %s", got.status, got.body, stored)
		}
		var events session.Events
		if r.get("/api/v1/sessions/"+id+"/timeline", &events); len(events.Events) != 1 || !strings.Contains(events.Events[0].Content, "again") {
			t.Errorf("the timeline is %+v, want one note of the alert", events.Events)
		}
	}
}

// TestIdempotencyKeyOfADeletedSession: the repetition of a request does not bring back a session that
// was deleted to make room.
func TestIdempotencyKeyOfADeletedSession(t *testing.T) {
	r := newRESTRig(t, nil)
	const body = `{"data":"x"}`
	first := r.send("POST", alerts, body, "Idempotency-Key", "one")
	var a Answer
	first.decode(t, &a)
	r.claim(a.SessionID, 1)
	r.end(a.SessionID, session.StatusCompleted)
	if err := (&sweeper{backend: r.backend, log: bustest.Quiet()}).deleteAll(t.Context(), []string{a.SessionID}); err != nil {
		t.Fatal(err)
	}
	if again := r.send("POST", alerts, body, "Idempotency-Key", "one"); again.status != 202 || again.body != first.body {
		t.Errorf("got %d %s, want 202 %s", again.status, again.body, first.body)
	}
	if got := r.send("GET", "/api/v1/sessions/"+a.SessionID, ""); got.status != http.StatusNotFound {
		t.Errorf("the deleted session: %d %s, want 404", got.status, got.body)
	}
}

// TestSubmittedTextsAreMasked: no text of an alert is stored with its secret, and dedup_keys that
// differ in it alone are different.
func TestSubmittedTextsAreMasked(t *testing.T) {
	r := newRESTRig(t, nil)
	const body = `{"data":"hunter2","dedup_key":"disk hunter2","alert_type":"hunter2","chain":"crash","slack_message_fingerprint":"hunter2","runbook":"https://github.com/a?token=hunter2"}`
	id := r.post(body)
	if got := r.send("POST", alerts, body); got.status != 200 || !strings.Contains(got.body, id) {
		t.Errorf("the same dedup_key: %d %s, want 200 and %s", got.status, got.body, id)
	}
	if other := r.post(`{"data":"x","dedup_key":"disk [MASKED]"}`); other == id {
		t.Error("another dedup_key joined the session, want a new one")
	}
	messages, err := r.journal.Read(t.Context(), id, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		if strings.Contains(string(m.Data), "hunter2") {
			t.Errorf("stored: %s, want no secret", m.Data)
		}
	}
	// The end frees the key.
	if got := r.send("POST", "/api/v1/sessions/"+id+"/cancel", ""); got.status != 200 {
		t.Fatalf("cancel: %d %s, want 200", got.status, got.body)
	}
	if next := r.post(body); next == id {
		t.Error("an alert after the end joined the session, want a new one")
	}
}

// TestConfiguredTextsAreMasked: the texts of the configuration that a model reads are stored without
// their secrets, by a submission and by a retry.
func TestConfiguredTextsAreMasked(t *testing.T) {
	r := newRESTRig(t, nil)
	text := strings.NewReplacer(
		"own: { ", "own: { instructions: visible-server hunter2, ",
		"triage: { ", "triage: { custom_instructions: visible-agent hunter2, ",
		"[{ name: triage }]", "[{ name: triage, replicas: 2 }]",
		"defaults: { ", "defaults: { runbook: visible-runbook hunter2, ",
	).Replace(restConfig)
	text += "\nsystem: { runbooks: { allowed_domains: [github.com] } }\n"
	check := func(id string, plans int, visible ...string) {
		t.Helper()
		messages, err := r.journal.Read(t.Context(), id, 0)
		if err != nil {
			t.Fatal(err)
		}
		var all strings.Builder
		for _, m := range messages {
			all.Write(m.Data)
		}
		if strings.Contains(all.String(), "hunter2") {
			t.Errorf("stored: %s, want no secret", all.String())
		}
		for _, want := range visible {
			if got := strings.Count(all.String(), want); got < plans {
				t.Errorf("%q is stored %d times, want at least %d: in each plan", want, got, plans)
			}
		}
	}
	r.config.Store(parseConfig(t, text))
	id := r.post(`{"data":"x"}`)
	check(id, 1, "visible-server", "visible-agent", "visible-runbook")
	r.end(id, session.StatusFailed)
	if got := r.send("POST", "/api/v1/sessions/"+id+"/retry", ""); got.status != 202 {
		t.Fatalf("retry: %d %s, want 202", got.status, got.body)
	}
	check(id, 2, "visible-server", "visible-agent", "visible-runbook")

	r.config.Store(parseConfig(t, strings.Replace(text, "runbook: visible-runbook hunter2", `runbook: "https://github.com/visible-address?token=hunter2"`, 1)))
	r.end(id, session.StatusFailed)
	if got := r.send("POST", "/api/v1/sessions/"+id+"/retry", ""); got.status != 202 {
		t.Fatalf("retry: %d %s, want 202", got.status, got.body)
	}
	check(id, 1, "visible-address")
}

// TestBuiltinInstructionsStay: masking takes nothing in them for a secret.
func TestBuiltinInstructionsStay(t *testing.T) {
	masker, err := masking.New(masking.Config{Groups: []string{"all"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, agent := range parseConfig(t, restConfig).Agents {
		if got := masker.Mask(agent.Instructions); got != agent.Instructions {
			t.Errorf("the instructions of %s are masked:\n%s\nwant them as they are:\n%s", name, got, agent.Instructions)
		}
	}
}

// TestSelectionsWithSecrets: an alert's servers and tools are stored as they were sent, so names that
// masking would change are refused.
func TestSelectionsWithSecrets(t *testing.T) {
	r := newRESTRig(t, nil)
	for _, test := range []struct {
		selection string
		status    int
	}{
		{`{"servers":[{"name":"own","tools":["get hunter2"]}]}`, 400},
		{`{"servers":[{"name":"own","tools":["get","hunter2"]},{"name":"chosen"}]}`, 400},
		{`{"servers":[{"name":"hunter2"}]}`, 400},
		{`{"servers":[{"name":"own","tools":["get"]}]}`, 202},
	} {
		got := r.send("POST", alerts, `{"data":"x","mcp":`+test.selection+`}`)
		if got.status != test.status || test.status == 400 && strings.Contains(got.body, "hunter2") {
			t.Errorf("mcp %s: %d %s, want %d and no secret", test.selection, got.status, got.body, test.status)
		}
	}
}

// TestUnqueuedSessions: 202 means that a session has a place in the queue. Without one the answer is
// 503, and the same request finds the session once the queue can be reached.
func TestUnqueuedSessions(t *testing.T) {
	r := newRESTRig(t, nil)
	admin := r.bus.Connect(bus.RoleProvisioner).JS
	stream, err := admin.Stream(t.Context(), bus.StreamInvestigationQueue)
	if err != nil {
		t.Fatal(err)
	}
	working := stream.CachedInfo().Config
	broken := working
	broken.Subjects = []string{"elsewhere.>"}
	update := func(c jetstream.StreamConfig) {
		t.Helper()
		if _, err := admin.UpdateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	place := func(id string, attempt int) bool {
		t.Helper()
		all, err := r.journal.Queued(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(all, func(q journal.Queued) bool { return q.Session == id && q.Attempt == attempt })
	}
	refused := func(what, hint string, got response) {
		t.Helper()
		if got.status != 503 || got.header.Get("Retry-After") == "" || !strings.Contains(got.body, hint) {
			t.Errorf("%s without a queue: %d %s, want 503 with Retry-After and %q", what, got.status, got.body, hint)
		}
	}
	ended := r.post(`{"data":"a session that fails"}`)
	r.end(ended, session.StatusFailed)

	update(broken)
	r.submitter.queueWithin = 100 * time.Millisecond
	const found = "the same request with the same Idempotency-Key or dedup_key finds it"
	refused("a submission", found, r.send("POST", alerts, `{"data":"x","dedup_key":"disk"}`, "Idempotency-Key", "k"))
	refused("its repetition", found, r.send("POST", alerts, `{"data":"x","dedup_key":"disk"}`, "Idempotency-Key", "k"))
	refused("a retry", "once the bus can do so, without another retry", r.send("POST", "/api/v1/sessions/"+ended+"/retry", ""))
	// An outage that ends in time is not seen.
	r.submitter.queueWithin = time.Minute
	answered := make(chan response, 1)
	go func() { answered <- r.send("POST", alerts, `{"data":"another"}`) }()
	bustest.Eventually(t, "the session is stored", func() bool { return r.index.countOpen() == 3 })
	update(working)
	var other Answer
	if got := <-answered; got.status != 202 {
		t.Errorf("a submission during a short outage: %d %s, want 202", got.status, got.body)
	} else if got.decode(t, &other); !place(other.SessionID, 1) {
		t.Error("the session has no place in the queue after 202, want one")
	}

	id := r.post(`{"data":"x","dedup_key":"disk"}`, "Idempotency-Key", "k")
	if !place(id, 1) {
		t.Error("the session has no place in the queue after the repeated request, want one")
	}
	var list struct {
		Pagination pagination `json:"pagination"`
	}
	if r.get("/api/v1/sessions", &list); list.Pagination.TotalItems != 3 {
		t.Errorf("there are %d sessions, want 3: a repeated request stores none", list.Pagination.TotalItems)
	}
	if n, err := r.journal.Sweep(t.Context(), func() []journal.Due { return []journal.Due{{Session: ended, Attempt: 2}} }); n != 1 || err != nil {
		t.Errorf("the sweep queued %d sessions (error %v), want the one that was retried", n, err)
	}
}

func TestMaskedKeys(t *testing.T) {
	masker, err := masking.New(masking.Config{Groups: []string{"all"}})
	if err != nil {
		t.Fatal(err)
	}
	for key, secret := range map[string]string{
		"password=s3cr3tvalue":                        "s3cr3tvalue",
		"login of bob@mail.com":                       "bob@mail.com",
		"ci/api_key: abcdefghijklmnopqrstuvwx/failed": "abcdefghijklmnopqrstuvwx",
	} {
		got := maskedKey(masker.Mask, key)
		if got == key || strings.Contains(got, secret) || maskedKey(masker.Mask, key) != got || maskedKey(masker.Mask, got) != got {
			t.Errorf("maskedKey(%q) = %q, and of that %q, want one that hides %q and stays", key, got, maskedKey(masker.Mask, got), secret)
		}
		if other := maskedKey(masker.Mask, strings.ReplaceAll(key, secret, "x"+secret)); other == got {
			t.Errorf("maskedKey gives %q for two keys, want different ones", got)
		}
	}
	shop, err := namespaces.New([]string{"shop"})
	if err != nil {
		t.Fatal(err)
	}
	// The name of the namespace reads as that of a secret.
	if key := maskedKey(masker.Mask, "kubernetes:prod:token:Deployment/api/main:oom_killed"); !strings.Contains(key, "[REDACTED]") || shop.ShowsKey(key) {
		t.Errorf("a reader of the namespace shop is shown the key %q, want a masked one that is not shown", key)
	}
	if got := maskedKey(masker.Mask, "shop/crash"); got != "shop/crash" {
		t.Errorf("maskedKey of a key without secrets = %q, want it as it is", got)
	}
	if got := maskedKey(func(string) string { panic("x") }, "k"); got == "k" || got == "" {
		t.Errorf("maskedKey of a key that can't be masked = %q, want its digest", got)
	}
}

// TestRetryAfterOfTheRate: a refused submission names the time at which enough of the earlier ones count no more,
// also where max_per_hour was lowered.
func TestRetryAfterOfTheRate(t *testing.T) {
	r := newRESTRig(t, nil)
	begin := time.Now().Add(-50 * time.Minute)
	at := begin
	r.submitter.now = func() time.Time { return at }
	submit := func() error {
		_, err := r.submitter.Submit(t.Context(), Request{Data: "x", Author: AuthorTrigger})
		return err
	}
	for i := range 3 {
		at = begin.Add(time.Duration(i) * 20 * time.Minute)
		if err := submit(); err != nil {
			t.Fatal(err)
		}
	}
	at = begin.Add(50*time.Minute + 500*time.Millisecond)
	for limit, want := range map[int]int{3: 600, 2: 1800, 1: 3000} {
		cfg := parseConfig(t, strings.Replace(restConfig, "max_per_hour: 3", fmt.Sprintf("max_per_hour: %d", limit), 1))
		r.config.Store(cfg)
		var refusal *Refusal
		if err := submit(); !asRefusal(err, &refusal) || refusal.RetryAfter != want {
			t.Errorf("max_per_hour %d: %+v, want 429 with %d s to wait", limit, err, want)
		}
	}
}

// TestQueueOfTwoProcesses: the bound of the queue counts what another process stored.
func TestQueueOfTwoProcesses(t *testing.T) {
	r := newRESTRig(t, nil)
	other := r.open()
	limit := r.config.Load().Queue.MaxQueuedSessions
	for i := range limit {
		submitter := []*submitter{r.submitter, other.submitter}[i%2]
		if _, err := submitter.Submit(t.Context(), Request{Data: "x", Author: AuthorAPI}); err != nil {
			t.Fatal(err)
		}
	}
	for _, submitter := range []*submitter{r.submitter, other.submitter} {
		var refusal *Refusal
		if _, err := submitter.Submit(t.Context(), Request{Data: "x", Author: AuthorAPI}); !asRefusal(err, &refusal) || refusal.Status != http.StatusTooManyRequests {
			t.Errorf("over the bound: %v, want 429", err)
		}
	}
}

// TestRunbookOfARetry: a retry has the runbook of the submission, else that of the configuration as it
// is now.
func TestRunbookOfARetry(t *testing.T) {
	r := newRESTRig(t, nil)
	configure := func(runbook string) {
		r.config.Store(parseConfig(t, strings.Replace(restConfig, "alert_type: crash }", "alert_type: crash, runbook: "+runbook+" }", 1)))
	}
	configure("https://github.com/a/old")
	byDefault, own := r.post(`{"data":"x"}`), r.post(`{"data":"x","runbook":"https://github.com/a/own"}`)
	configure("https://github.com/a/new")
	for id, want := range map[string]string{byDefault: "https://github.com/a/new", own: "https://github.com/a/own"} {
		r.claim(id, 1)
		r.end(id, session.StatusFailed)
		if got := r.send("POST", "/api/v1/sessions/"+id+"/retry", ""); got.status != http.StatusAccepted {
			t.Fatalf("retry: %d %s, want 202", got.status, got.body)
		}
		var d struct {
			RunbookURL string `json:"runbook_url"`
		}
		if r.get("/api/v1/sessions/"+id, &d); d.RunbookURL != want {
			t.Errorf("the runbook after a retry = %q, want %q", d.RunbookURL, want)
		}
	}
}

// TestIdempotencyKeyOfATakenDedupKey: a process died, or its bus did, between storing the answer and
// storing the session, and another alert took the dedup_key.
func TestIdempotencyKeyOfATakenDedupKey(t *testing.T) {
	r := newRESTRig(t, nil)
	const body = `{"data":"x","dedup_key":"k"}`
	id := journal.NewSession()
	stored := fmt.Sprintf(`{"session_id":%q,"status":"queued","message":"m"}`, id)
	if _, _, err := r.journal.Remember(t.Context(), "one", digestOf([]byte(body)), []byte(stored)); err != nil {
		t.Fatal(err)
	}
	other := r.post(`{"data":"y","dedup_key":"k"}`)
	want := fmt.Sprintf(`{"session_id":%q,"status":"joined"}`, other)
	if got := r.send("POST", alerts, body, "Idempotency-Key", "one"); got.status != 200 || got.body != want {
		t.Errorf("while the other session is open: %d %s, want 200 %s", got.status, got.body, want)
	}
	r.claim(other, 1)
	r.end(other, session.StatusCompleted) // its worker has not freed the key
	if got := r.send("POST", alerts, body, "Idempotency-Key", "one"); got.status != 202 || got.body != stored {
		t.Errorf("after its end: %d %s, want 202 %s", got.status, got.body, stored)
	}
	if owner, err := r.journal.Owner(t.Context(), "k"); owner != id || err != nil {
		t.Errorf("the key has the owner %q, %v, want %s", owner, err, id)
	}
}

// TestRepeatOfAPreparedRequest: the answer to a request for a stored alert was stored by another
// process after this one had prepared the request.
func TestRepeatOfAPreparedRequest(t *testing.T) {
	r := newRESTRig(t, nil)
	publishAlert(t, r.bus, shopAlerts()[2])
	request := Request{AlertID: "symptom", Author: AuthorAPI, IdempotencyKey: "one", BodyDigest: "d"}
	if _, err := r.submitter.prepare(t.Context(), &request); err != nil {
		t.Fatal(err)
	}
	id := journal.NewSession()
	got, err := r.submitter.repeat(t.Context(), request, journal.Remembered{Answer: fmt.Appendf(nil, `{"session_id":%q,"status":"queued"}`, id)})
	if err != nil || got.SessionID != id {
		t.Errorf("repeat = %+v, %v, want session %s", got, err, id)
	}
}

// TestJoinsOfEndedSessions: an ended session takes no alert, and is reported as ended.
func TestJoinsOfEndedSessions(t *testing.T) {
	r := newRESTRig(t, nil)
	id := r.post(`{"data":"x"}`)
	for _, want := range []bool{true, false} {
		if open, err := r.submitter.joins.add(t.Context(), id, "again"); open != want || err != nil {
			t.Errorf("add = %t, %v, want %t", open, err, want)
		}
		if want {
			r.claim(id, 1)
			r.end(id, session.StatusFailed)
		}
	}
}

// TestJoinsKeepCounts: writing the count of one session forgets none of another that is about to be
// written.
func TestJoinsKeepCounts(t *testing.T) {
	j := newJoins(nil, time.Now, bustest.Quiet())
	j.counted["one"], j.counted["other"], j.counted["idle"] = &joinCount{}, &joinCount{count: 3}, &joinCount{}
	j.flush("one")
	if c := j.counted["other"]; c == nil || c.count != 3 {
		t.Errorf("the other session counts %+v, want 3", c)
	}
	if j.counted["idle"] != nil {
		t.Error("a session that counts nothing is remembered, want it forgotten")
	}
}

// TestIndexIsReadyAfterDeletions: of the messages that were to come, some are deleted by another
// process before they come.
func TestIndexIsReadyAfterDeletions(t *testing.T) {
	x := newIndex(nil, bustest.Quiet(), nil)
	x.atStart = 9
	x.started(5)
	note, err := session.Encode([]session.Fact{{Noted: &session.Noted{Text: "n"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []struct {
		pending uint64
		ready   bool
	}{{3, false}, {0, true}} {
		if err := x.apply(t.Context(), journal.Message{Session: sessionID, Data: note, Seq: 9 - m.pending, Pending: m.pending}); err != nil {
			t.Fatal(err)
		}
		if got := x.ready(); got != m.ready {
			t.Errorf("ready with %d messages left = %t, want %t", m.pending, got, m.ready)
		}
	}
}

func TestSubmissionTooLarge(t *testing.T) {
	if got := explainStore(fmt.Errorf("append: %w", journal.ErrTooLarge)); got.Status != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d, want 413: the sender can do something about it", got.Status)
	}
}

func TestIdempotencyKeyAtOnce(t *testing.T) {
	r := newRESTRig(t, nil)
	var mu sync.Mutex
	answers := map[string]int{}
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			got := r.send("POST", alerts, `{"data":"x"}`, "Idempotency-Key", "one")
			mu.Lock()
			defer mu.Unlock()
			answers[got.body]++
		})
	}
	all.Wait()
	var list listed
	r.get("/api/v1/sessions", &list)
	if len(answers) != 1 || len(list.Sessions) != 1 {
		t.Errorf("answers %v and %d sessions, want one of each", answers, len(list.Sessions))
	}
}

func TestCancel(t *testing.T) {
	r := newRESTRig(t, nil)
	cancel := func(id string, want int) string {
		t.Helper()
		got := r.send("POST", "/api/v1/sessions/"+id+"/cancel", "")
		if got.status != want {
			t.Errorf("cancel: %d %s, want %d", got.status, got.body, want)
		}
		return got.body
	}
	status := func(id string, want session.Status) {
		t.Helper()
		var o session.Outcome
		if r.get("/api/v1/sessions/"+id+"/status", &o); o.Status != want {
			t.Errorf("status %s, want %s", o.Status, want)
		}
	}
	queued := r.post(`{"data":"queued","dedup_key":"k"}`)
	cancel(queued, 200)
	status(queued, session.StatusCancelled)
	cancel(queued, 409)
	if owner, err := r.journal.Owner(t.Context(), "k"); owner != "" || err != nil {
		t.Errorf("the key has the owner %q, %v, want none", owner, err)
	}
	running := r.post(`{"data":"running"}`)
	r.claim(running, 1)
	cancel(running, 200)
	status(running, session.StatusCancelling)
	if body := cancel(running, 200); !strings.Contains(body, running) {
		t.Errorf("cancel again: %s, want the session's id", body)
	}
	for _, ended := range []session.Status{session.StatusCompleted, session.StatusFailed, session.StatusTimedOut} {
		id := r.post(`{"data":"ended"}`)
		r.claim(id, 1)
		r.end(id, ended)
		cancel(id, 409)
		status(id, ended)
	}
}

func TestRetry(t *testing.T) {
	r := newRESTRig(t, nil)
	retry := func(id string, want int, says string) {
		t.Helper()
		if got := r.send("POST", "/api/v1/sessions/"+id+"/retry", "{}"); got.status != want || !strings.Contains(got.body, says) {
			t.Errorf("retry: %d %s, want %d with %q", got.status, got.body, want, says)
		}
	}
	ended := func(status session.Status) string {
		t.Helper()
		id := r.post(`{"data":"x","dedup_key":"` + string(status) + `"}`)
		r.claim(id, 1)
		r.end(id, status)
		return id
	}
	for _, status := range []session.Status{session.StatusFailed, session.StatusTimedOut, session.StatusCancelled} {
		id := ended(status)
		retry(id, 202, id)
		retry(id, 409, "pending")
		var list listed
		if r.get("/api/v1/sessions?status=pending", &list); !slices.Contains(list.ids(), id) {
			t.Errorf("pending sessions are %v, want %s among them", list.ids(), id)
		}
		queued, err := r.journal.Queued(t.Context())
		if err != nil || !slices.ContainsFunc(queued, func(q journal.Queued) bool { return q.Session == id && q.Attempt == 2 }) {
			t.Errorf("queued %+v, %v, want attempt 2 of %s", queued, err, id)
		}
		if owner, err := r.journal.Owner(t.Context(), string(status)); owner != id || err != nil {
			t.Errorf("the key has the owner %q, %v, want %s", owner, err, id)
		}
	}
	retry(ended(session.StatusCompleted), 409, "completed")
	running := r.post(`{"data":"running"}`)
	r.claim(running, 1)
	retry(running, 409, "in_progress")
	first := r.post(`{"data":"x","dedup_key":"shared"}`)
	r.claim(first, 1)
	r.end(first, session.StatusFailed)
	second := r.post(`{"data":"x","dedup_key":"shared"}`)
	retry(first, 409, second)
	r.send("POST", "/api/v1/sessions/"+second+"/cancel", "")
	retry(first, 202, first)
}

func TestTimelinePages(t *testing.T) {
	r := newRESTRig(t, nil)
	id := r.post(`{"data":"x"}`)
	for i := range 5 {
		r.store(id, session.Fact{Noted: &session.Noted{Text: fmt.Sprint("note ", i)}})
	}
	read := func(after int64, limit int) session.Events {
		t.Helper()
		var e session.Events
		r.get(fmt.Sprintf("/api/v1/sessions/%s/timeline?after=%d&limit=%d", id, after, limit), &e)
		return e
	}
	var got []string
	next := int64(0)
	for range 4 {
		page := read(next, 2)
		for _, e := range page.Events {
			got = append(got, e.Content)
		}
		next = page.Next
	}
	if diff := cmp.Diff([]string{"note 0", "note 1", "note 2", "note 3", "note 4"}, got); diff != "" {
		t.Errorf("the pages differ (-want +got):\n%s", diff)
	}
	if page := read(next, 2); page.Next != next || len(page.Events) != 0 {
		t.Errorf("where nothing is new: %+v, want no event and next %d", page, next)
	}
	for _, query := range []string{"after=-1", "limit=0", "limit=1001", "after=x", "before=1"} {
		if a := r.send("GET", "/api/v1/sessions/"+id+"/timeline?"+query, ""); a.status != 400 {
			t.Errorf("%s: %d %s, want 400", query, a.status, a.body)
		}
	}
}

func TestLists(t *testing.T) {
	r := newRESTRig(t, nil)
	var ids []string
	for i := range 5 {
		id := r.post(fmt.Sprintf(`{"data":"alert %d","alert_type":"%s"}`, i, []string{"crash", "other"}[i%2]))
		ids = append(ids, id)
	}
	r.claim(ids[1], 1)
	r.claim(ids[0], 1)
	r.end(ids[0], session.StatusCompleted)
	reversed := slices.Clone(ids)
	slices.Reverse(reversed)
	for _, c := range []struct {
		query string
		want  []string
	}{
		{"", reversed},
		{"?sort_order=asc", ids},
		{"?page_size=2", reversed[:2]},
		{"?page_size=2&page=3", reversed[4:]},
		{"?page=9", []string{}},
		{"?page=1000001", []string{}},
		{"?page=9223372036854775807&page_size=100", []string{}},
		{"?page=4611686018427387905&page_size=4", []string{}}, // the product with the size overflows to 0
		{"?page=99999999999999999999999", []string{}},
		{"?status=completed", ids[:1]},
		{"?status=in_progress,completed&sort_order=asc", ids[:2]},
		{"?alert_type=other&sort_order=asc", []string{ids[1], ids[3]}},
		{"?chain_id=default&sort_order=asc", []string{ids[1], ids[3]}},
		{"?start_date=2100-01-01", []string{}},
		{"?end_date=2000-01-01T00:00:00Z", []string{}},
		{"?sort_by=duration&page_size=1", ids[:1]},
	} {
		var list listed
		r.get("/api/v1/sessions"+c.query, &list)
		if diff := cmp.Diff(c.want, list.ids()); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.query, diff)
		}
	}
	var page listed
	if r.get("/api/v1/sessions?page_size=2", &page); page.Pagination != (pagination{1, 2, 3, 5}) {
		t.Errorf("pagination %+v, want page 1 of 3 with 2 each, 5 in all", page.Pagination)
	}
	var open struct {
		Active, Queued []struct {
			ID       string `json:"id"`
			Position int    `json:"queue_position"`
		}
	}
	r.get("/api/v1/sessions/active", &open)
	if len(open.Active) != 1 || open.Active[0].ID != ids[1] || len(open.Queued) != 3 || open.Queued[0].ID != ids[2] || open.Queued[2].Position != 3 {
		t.Errorf("active %+v, want %s running and %v queued", open, ids[1], ids[2:])
	}
	if got, want := r.send("GET", "/api/v1/sessions/filter-options", "").body, `{"alert_types":["crash","other"],"chain_ids":["crash","default"],"statuses":["pending","in_progress","cancelling","completed","failed","cancelled","timed_out"]}`; got != want {
		t.Errorf("filter options\ngot  %s\nwant %s", got, want)
	}
	// A second process sees the same from the start.
	other := r.open()
	bustest.Eventually(t, "the second index to have read all", other.index.ready)
	items, total := other.index.page(listQuery{page: 1, pageSize: 100, sortBy: "created_at"})
	if total != 5 || items[0].ID != ids[4] || items[4].Status != session.StatusCompleted {
		t.Errorf("the second index has %d items, want the same 5", total)
	}
}

// TestTimesOfServers: times have milliseconds, also where these are 0, and name the reason why the
// built-in server can't be used.
func TestTimesOfServers(t *testing.T) {
	at := time.Date(2026, 1, 28, 14, 30, 0, 0, time.FixedZone("", 3600))
	encoded, err := json.Marshal(serverStatus{toolbox.Status{ID: "s", LastCheck: &at}, (*session.Time)(&at)})
	if want := `"last_check":"2026-01-28T13:30:00.000Z"`; err != nil || strings.Count(string(encoded), "last_check") != 1 || !strings.Contains(string(encoded), want) {
		t.Errorf("a server is %s (error %v), want %s once", encoded, err, want)
	}
	r := newRESTRig(t, func(cfg *handlerConfig) { cfg.reachable = func() error { return bus.ErrUnreachable } })
	got := r.send("GET", "/api/v1/system/mcp-servers", "")
	if got.status != 200 || !strings.Contains(got.body, `"id":"tocsin","healthy":false,"error":"`+bus.ErrUnreachable.Error()) {
		t.Errorf("without the bus: %d %s, want the built-in server with the reason", got.status, got.body)
	}
}

func TestSystem(t *testing.T) {
	r := newRESTRig(t, nil)
	for path, want := range map[string]string{
		"/api/v1/alert-types":                           `{"alert_types":[{"type":"crash","chain_id":"crash"}],"default":"crash"}`,
		"/api/v1/runbooks":                              `[]`,
		"/api/v1/system/warnings":                       `{"warnings":[]}`,
		"/api/v1/system/default-tools":                  `{"alert_type":"crash","chain_id":"crash","servers":[{"name":"own","tools":[]}]}`,
		"/api/v1/system/default-tools?alert_type=other": `{"alert_type":"other","chain_id":"default","servers":[{"name":"tocsin","tools":["alerts","events","ci","kubernetes"]}]}`,
	} {
		if got := r.send("GET", path, ""); got.status != 200 || got.body != want {
			t.Errorf("GET %s: %d %s, want 200 %s", path, got.status, got.body, want)
		}
	}
	var out struct {
		Servers []struct {
			ID        string `json:"id"`
			Healthy   bool   `json:"healthy"`
			LastCheck string `json:"last_check"`
			Error     string `json:"error"`
			Tools     []toolbox.ToolStatus
		} `json:"servers"`
	}
	r.get("/api/v1/system/mcp-servers", &out)
	if len(out.Servers) != 1 || out.Servers[0].ID != config.BuiltinServer || !out.Servers[0].Healthy || len(out.Servers[0].Tools) != 4 {
		t.Fatalf("the servers are %+v, want the built-in one with its 4 tools", out.Servers)
	}
	for _, tool := range out.Servers[0].Tools {
		if tool.Name == "" || tool.Description == "" || !tool.ReadOnly || !tool.Offered || tool.WhyNot != "" {
			t.Errorf("the built-in server has the tool %+v, want an offered one that only reads", tool)
		}
	}
	if got := r.send("GET", "/api/v1/system/config", ""); got.status != 200 || !strings.Contains(got.body, `"agent_chains"`) {
		t.Errorf("config: %d %s, want the chains", got.status, got.body)
	}
	bustest.Eventually(t, "the index to have read all", r.index.ready)
	if got := r.send("GET", pathHealth, ""); got.status != 200 || !strings.Contains(got.body, `"status":"healthy","version":"v1","checks":{`) {
		t.Errorf("health: %d %s, want 200 healthy", got.status, got.body)
	}
	r.handler.backend.Store(nil)
	for path, want := range map[string]int{pathHealth: 503, pathReady: 503, pathAlive: 200, pathMetrics: 200, "/api/v1/sessions": 503} {
		if got := r.send("GET", path, ""); got.status != want {
			t.Errorf("without a bus, GET %s: %d %s, want %d", path, got.status, got.body, want)
		}
	}
}

func TestAccess(t *testing.T) {
	var network httpguard.Network
	for _, c := range []struct {
		name         string
		proxies      []string
		secret       string
		userHeader   string
		token        string
		header       []string
		status       int
		author, says string
	}{
		{name: "no token is set", status: 202, author: AuthorAPI},
		{name: "no token", token: "s3cret", status: 401},
		{name: "the token", token: "s3cret", header: []string{"Authorization", "Bearer s3cret"}, status: 202, author: AuthorAPI},
		{name: "a user header of anybody", header: []string{"X-Forwarded-User", "ann", "X-Forwarded-User", "bob"}, status: 202, author: AuthorAPI},
		{name: "a proxy", proxies: []string{"192.0.2.0/24"}, token: "s3cret", header: []string{"From", "192.0.2.7:1", "X-Forwarded-User", "ann", "X-Remote-User", "bob"}, status: 202, author: "ann"},
		{name: "a proxy's e-mail", proxies: []string{"192.0.2.7"}, header: []string{"From", "192.0.2.7:1", "X-Forwarded-Email", "ann@x"}, status: 202, author: "ann@x"},
		{name: "a proxy's remote user", proxies: []string{"192.0.2.7"}, header: []string{"From", "192.0.2.7:1", "X-Remote-User", "bob"}, status: 202, author: "bob"},
		{name: "a proxy without a user", proxies: []string{"192.0.2.7"}, header: []string{"From", "192.0.2.7:1"}, status: 202, author: AuthorAPI},
		{name: "a header twice", proxies: []string{"192.0.2.7"}, header: []string{"From", "192.0.2.7:1", "X-Forwarded-User", "ann", "X-Forwarded-User", "bob"}, status: 400, says: "twice"},
		{name: "a header twice and a token", proxies: []string{"192.0.2.7"}, token: "s3cret", header: []string{"From", "192.0.2.7:1", "X-Forwarded-User", "ann", "X-Forwarded-User", "bob"}, status: 400, says: "twice"},
		{name: "groups twice", proxies: []string{"192.0.2.7"}, header: []string{"From", "192.0.2.7:1", "X-Forwarded-User", "ann", "X-Forwarded-Groups", "a", "X-Forwarded-Groups", "b"}, status: 400, says: "twice"},
		{name: "a proxy's user like a trigger", proxies: []string{"192.0.2.7"}, header: []string{"From", "192.0.2.7:1", "X-Forwarded-User", "Trigger"}, status: 202, author: "user:Trigger"},
		{name: "a proxy's user like a client of MCP", proxies: []string{"192.0.2.7"}, header: []string{"From", "192.0.2.7:1", "X-Forwarded-User", "mcp:claude"}, status: 202, author: "user:mcp:claude"},
		{name: "a configured header", proxies: []string{"192.0.2.7"}, userHeader: "X-Auth-User", token: "s3cret", header: []string{"From", "192.0.2.7:1", "X-Auth-User", "ann"}, status: 202, author: "ann"},
		{name: "a client's header beside the configured one", proxies: []string{"192.0.2.7"}, userHeader: "X-Auth-User", header: []string{"From", "192.0.2.7:1", "X-Forwarded-User", "bob", "X-Auth-User", "ann"}, status: 202, author: "ann"},
		{name: "a client's header without the configured one", proxies: []string{"192.0.2.7"}, userHeader: "X-Auth-User", token: "s3cret", header: []string{"From", "192.0.2.7:1", "X-Forwarded-User", "ann"}, status: 401},
		{name: "another machine", proxies: []string{"192.0.2.7"}, header: []string{"From", "192.0.2.8:1", "X-Forwarded-User", "ann"}, status: 202, author: AuthorAPI},
		{name: "loopback without a secret", proxies: []string{"127.0.0.1"}, header: []string{"X-Forwarded-User", "ann"}, status: 202, author: AuthorAPI},
		{name: "loopback with a wrong secret", proxies: []string{"127.0.0.1"}, secret: "p", header: []string{"X-Tocsin-Proxy", "q", "X-Forwarded-User", "ann"}, status: 202, author: AuthorAPI},
		{name: "loopback with the secret", proxies: []string{"127.0.0.1"}, secret: "p", token: "s3cret", header: []string{"X-Tocsin-Proxy", "p", "X-Forwarded-User", "ann"}, status: 202, author: "ann"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRESTRig(t, func(cfg *handlerConfig) {
				cfg.token, cfg.proxies.Secret, cfg.proxies.Header = c.token, c.secret, c.userHeader
				for _, text := range c.proxies {
					if err := network.UnmarshalText([]byte(text)); err != nil {
						t.Fatal(err)
					}
					cfg.proxies.Networks = append(cfg.proxies.Networks, network)
				}
			})
			got := r.send("POST", alerts, `{"data":"x"}`, c.header...)
			if got.status != c.status || !strings.Contains(got.body, c.says) {
				t.Fatalf("got %d %s, want %d with %q", got.status, got.body, c.status, c.says)
			}
			var list listed
			r.get("/api/v1/sessions", &list)
			if c.author != "" && (len(list.Sessions) != 1 || list.Sessions[0].Author != c.author) {
				t.Errorf("sessions %+v, want one of %s", list.Sessions, c.author)
			}
		})
	}
}

// TestReadsRefuseAUserTwice: a request in which the user is named twice reads nothing.
func TestReadsRefuseAUserTwice(t *testing.T) {
	var network httpguard.Network
	if err := network.UnmarshalText([]byte("192.0.2.7")); err != nil {
		t.Fatal(err)
	}
	r := newRESTRig(t, func(cfg *handlerConfig) {
		cfg.token, cfg.exposed, cfg.proxies.Networks = "s3cret", true, []httpguard.Network{network}
	})
	for _, path := range []string{"/api/v1/sessions", "/api/v1/system/config", "/metrics"} {
		if got := r.send("GET", path, "", "From", "192.0.2.7:1", "X-Forwarded-User", "ann", "X-Forwarded-User", "bob"); got.status != http.StatusBadRequest {
			t.Errorf("GET %s: %d %s, want 400", path, got.status, got.body)
		}
		if got := r.send("GET", path, "", "From", "192.0.2.7:1"); got.status != http.StatusUnauthorized {
			t.Errorf("GET %s without a user: %d, want 401", path, got.status)
		}
	}
}

// FuzzParseSubmission checks that no body makes the parser panic, and that what it accepts is
// within the bounds.
func FuzzParseSubmission(f *testing.F) {
	for _, seed := range []string{`{"data":"x"}`, `{"data":{"a":1},"mcp":{"servers":[{"name":"k","tools":["a"]}]}}`, `{"alert_id":"a","dedup_key":null}`, `{"data":"\ud800"}`, `[`, `{"data":`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := parseSubmission(body)
		if err != nil {
			var refusal *Refusal
			if !asRefusal(err, &refusal) || refusal.Status != http.StatusBadRequest {
				t.Errorf("%q: %v, want a refusal with 400", body, err)
			}
			return
		}
		if isEmptyData(r.Data) && r.Data != "" {
			t.Errorf("%q: accepted the empty data %q", body, r.Data)
		}
		if len(r.Servers) > maxServers {
			t.Errorf("%q: %d servers, want at most %d", body, len(r.Servers), maxServers)
		}
	})
}
