package investigator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/services/investigator/journal"
	"github.com/tocsin-bus/tocsin/services/investigator/model/modeltest"
	"github.com/tocsin-bus/tocsin/services/investigator/session"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
	"github.com/tocsin-bus/tocsin/shared/presence"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/redact"
)

// requestRig is a backend whose requests are answered on a bus, and a gateway.
type requestRig struct {
	*restRig
	gateway  *bus.Session
	requests *requests
	// stop ends the answers, and waits until they have ended.
	stop func()
}

func newRequestRig(t *testing.T) *requestRig {
	t.Helper()
	r := &requestRig{restRig: newRESTRig(t, nil)}
	r.gateway = r.bus.Connect(bus.RoleGateway)
	r.requests = &requests{
		session: r.session, backend: r.backend, mask: redact.New(), log: bustest.Quiet(),
		sessionURL: func(id string) string { return "http://investigator/" + id },
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() {
		defer r.requests.stop()
		ended <- presence.Serve(ctx, r.session, presence.Identify("investigator", "v1", bustest.Quiet()), func() query.Health { return query.Health{OK: true} }, r.requests.endpoints(ctx)...)
	}()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve ended with %v, want nil", err)
		}
		r.requests.stop()
	})
	t.Cleanup(r.stop)
	bustest.Eventually(t, "answer to requests", func() bool {
		_, err := bus.Ask(t.Context(), r.gateway, bus.SubjectInvestigateList, query.SessionsRequest{})
		return err == nil
	})
	return r
}

// ask sends a request and decodes its answer.
func ask[T any](r *requestRig, subject string, request any) (answer T, err error) {
	data, err := bus.Ask(r.t.Context(), r.gateway, subject, request)
	if err != nil {
		return answer, err
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		r.t.Errorf("the answer %s: %v", data, err)
	}
	return answer, nil
}

func (r *requestRig) submit(q query.SubmitRequest) query.Investigation {
	r.t.Helper()
	inv, err := ask[query.Investigation](r, bus.SubjectInvestigateSubmit, q)
	if err != nil {
		r.t.Fatalf("submit %+v: %v", q, err)
	}
	return inv
}

func (r *requestRig) publish(a alert.Alert) {
	r.t.Helper()
	data, err := a.MarshalJSON()
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.session.JS.Publish(r.t.Context(), bus.AlertSubject(a), data); err != nil {
		r.t.Fatal(err)
	}
}

func (r *requestRig) waiting() int {
	r.requests.mu.Lock()
	defer r.requests.mu.Unlock()
	return r.requests.waiting
}

func storedAlert(id string) alert.Alert {
	return alert.Alert{
		ID: id, Severity: alert.Error, Category: alert.Anomaly, Title: "hunter2 fails", Timestamp: time.Unix(1, 0), Source: alert.SourceErrors,
		App: "shop", DedupKey: "shop/" + id, CorrelationID: id,
	}
}

// TestRequests submits an alert and a text as an MCP client, reads their sessions, and lists them.
func TestRequests(t *testing.T) {
	r := newRequestRig(t)
	r.publish(storedAlert("A1"))
	first := r.submit(query.SubmitRequest{Client: " Claude\x1b Code 2 ", AlertID: "A1"})
	about := &query.InvestigatedAlert{ID: "A1", App: "shop", Title: "[MASKED] fails", DedupKey: "shop/A1"}
	want := query.Investigation{SessionID: first.SessionID, Status: "pending", URL: "http://investigator/" + first.SessionID, Alert: about}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("the answer (-want +got):\n%s", diff)
	}
	if err := journal.CheckSession(first.SessionID); err != nil {
		t.Error(err)
	}
	if got := r.submit(query.SubmitRequest{AlertID: "A1"}); !got.Joined || got.SessionID != first.SessionID {
		t.Errorf("the same alert again = %+v, want that it joined %s", got, first.SessionID)
	}
	second := r.submit(query.SubmitRequest{Data: []byte(`{"pod":"web-1"}`), Chain: "crash"})
	r.end(second.SessionID, session.StatusFailed)
	got, err := ask[query.Investigation](r, bus.SubjectInvestigateGet, query.SessionRequest{SessionID: second.SessionID, WaitSeconds: query.MaxWait})
	want = query.Investigation{SessionID: second.SessionID, Status: "failed", Error: "because", URL: "http://investigator/" + second.SessionID}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("the ended session: %v (-want +got):\n%s", err, diff)
	}
	list := func(q query.SessionsRequest) (ids []string, reply query.SessionsReply) {
		t.Helper()
		reply, err := ask[query.SessionsReply](r, bus.SubjectInvestigateList, q)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range reply.Sessions {
			ids = append(ids, e.SessionID)
		}
		return ids, reply
	}
	ids, all := list(query.SessionsRequest{})
	if !slices.Equal(ids, []string{second.SessionID, first.SessionID}) || all.Older != 0 {
		t.Fatalf("the sessions are %v and %d more, want %v", ids, all.Older, []string{second.SessionID, first.SessionID})
	}
	newest, oldest := all.Sessions[0], all.Sessions[1]
	if newest.Created.IsZero() || newest.Completed.IsZero() || oldest.Created.IsZero() || !oldest.Completed.IsZero() {
		t.Errorf("the sessions are %+v, want times of creation, and of the end of the first alone", all.Sessions)
	}
	for _, at := range []time.Time{newest.Created, newest.Completed, oldest.Created} {
		if at.Location() != time.UTC || !at.Equal(at.Truncate(time.Millisecond)) {
			t.Errorf("a time of a session is %s, want one in UTC with milliseconds", at)
		}
	}
	newest.Created, newest.Completed, oldest.Created = time.Time{}, time.Time{}, time.Time{}
	wantList := []query.SessionEntry{
		{SessionID: second.SessionID, Status: "failed", Chain: "crash", Author: "mcp:unknown", Error: "because", URL: "http://investigator/" + second.SessionID},
		{SessionID: first.SessionID, Status: "pending", Chain: "crash", Author: "mcp:Claude␛ Code 2", URL: "http://investigator/" + first.SessionID, Alert: about},
	}
	if diff := cmp.Diff(wantList, []query.SessionEntry{newest, oldest}); diff != "" {
		t.Errorf("the sessions (-want +got):\n%s", diff)
	}
	for _, tt := range []struct {
		name  string
		q     query.SessionsRequest
		want  []string
		older int
	}{
		{"a limit", query.SessionsRequest{Limit: 1}, []string{second.SessionID}, 1},
		{"before", query.SessionsRequest{Before: second.SessionID}, []string{first.SessionID}, 0},
		{"an app", query.SessionsRequest{App: "shop"}, []string{first.SessionID}, 0},
		{"another app", query.SessionsRequest{App: "web"}, nil, 0},
		{"since: only what is open", query.SessionsRequest{Since: time.Now().Add(time.Hour)}, []string{first.SessionID}, 0},
	} {
		if ids, reply := list(tt.q); !slices.Equal(ids, tt.want) || reply.Older != tt.older {
			t.Errorf("%s: got %v and %d more, want %v and %d", tt.name, ids, reply.Older, tt.want, tt.older)
		}
	}
}

// TestListNamespaces: a page for a reader of one namespace is full, and its number of older sessions
// has no others.
func TestListNamespaces(t *testing.T) {
	r := newRequestRig(t)
	ids := map[string]string{}
	for _, id := range []string{"old/shop", "old/bank", "text", "new/shop", "new/bank"} {
		body := `{"data":"x"}`
		if age, namespace, ok := strings.Cut(id, "/"); ok {
			a := storedAlert(id)
			a.Category, a.Source, a.DedupKey = alert.Kubernetes, alert.SourceKubernetes, "kubernetes:dev:"+namespace+":Pod/"+age+":crash"
			r.publish(a)
			body = `{"alert_id":"` + id + `"}`
		}
		ids[id] = r.post(body)
	}
	for _, tt := range []struct {
		name  string
		q     query.SessionsRequest
		want  []string
		older int
	}{
		{"the first page", query.SessionsRequest{Namespaces: []string{"shop"}, Limit: 1}, []string{ids["new/shop"]}, 1},
		{"the second page", query.SessionsRequest{Namespaces: []string{"shop"}, Limit: 1, Before: ids["new/shop"]}, []string{ids["old/shop"]}, 0},
		{"past the end", query.SessionsRequest{Namespaces: []string{"shop"}, Before: ids["old/shop"]}, []string{}, 0},
		{"another namespace", query.SessionsRequest{Namespaces: []string{"web"}}, []string{}, 0},
		{"all", query.SessionsRequest{Limit: 1}, []string{ids["new/bank"]}, 4},
	} {
		reply, err := ask[query.SessionsReply](r, bus.SubjectInvestigateList, tt.q)
		got := []string{}
		for _, e := range reply.Sessions {
			got = append(got, e.SessionID)
		}
		if err != nil || !slices.Equal(got, tt.want) || reply.Older != tt.older {
			t.Errorf("%s: got %v and %d more, %v, want %v and %d", tt.name, got, reply.Older, err, tt.want, tt.older)
		}
	}
}

// TestRefusedRequests: a refusal has the status and the text of REST, and when to try again.
func TestRefusedRequests(t *testing.T) {
	r := newRequestRig(t)
	refused := func(name, subject string, request any, status int, says string) *bus.RefusedError {
		t.Helper()
		_, err := bus.Ask(t.Context(), r.gateway, subject, request)
		var e *bus.RefusedError
		if !errors.As(err, &e) || e.Code != strconv.Itoa(status) || !strings.Contains(e.Text, says) {
			t.Errorf("%s: got %+v, want %d with %q", name, err, status, says)
			return &bus.RefusedError{}
		}
		return e
	}
	submit := func(name string, q query.SubmitRequest, status int, says string) *bus.RefusedError {
		t.Helper()
		return refused(name, bus.SubjectInvestigateSubmit, q, status, says)
	}
	refused("a list of odd namespaces", bus.SubjectInvestigateList, query.SessionsRequest{Namespaces: []string{"Shop!"}}, http.StatusBadRequest, "namespaces must be names")
	submit("nothing", query.SubmitRequest{}, http.StatusBadRequest, "data or alert_id is missing")
	submit("both", query.SubmitRequest{AlertID: "a", Data: []byte("x")}, http.StatusBadRequest, "exclude each other")
	submit("empty data", query.SubmitRequest{Data: []byte("{ }")}, http.StatusBadRequest, "data is empty")
	submit("no UTF-8", query.SubmitRequest{Data: []byte{0xff}}, http.StatusBadRequest, "data is not UTF-8")
	submit("an unknown chain", query.SubmitRequest{Data: []byte("x"), Chain: "nochain"}, http.StatusBadRequest, "nochain")
	submit("an unknown alert", query.SubmitRequest{AlertID: "none"}, http.StatusNotFound, "no stored alert")
	submit("a long text", query.SubmitRequest{Data: []byte(strings.Repeat("x", maxData+1))}, http.StatusRequestEntityTooLarge, "data has 1048577 bytes")
	submit("a long wait", query.SubmitRequest{Data: []byte("x"), WaitSeconds: 51}, http.StatusBadRequest, "wait_seconds must be between 0 and 50")
	submit("a negative wait", query.SubmitRequest{Data: []byte("x"), WaitSeconds: -1}, http.StatusBadRequest, "wait_seconds must be between 0 and 50")
	refused("no JSON object", bus.SubjectInvestigateSubmit, "x", http.StatusBadRequest, "the request can't be read")
	for name, id := range map[string]string{"an unknown session": journal.NewSession(), "no session": "x.*", "an empty id": ""} {
		refused(name, bus.SubjectInvestigateGet, query.SessionRequest{SessionID: id}, http.StatusNotFound, "there is no such session")
	}
	if _, all := r.list(t); all != 0 {
		t.Fatalf("%d sessions were stored, want none", all)
	}
	for range r.config.Load().Queue.MaxPerHour {
		r.submit(query.SubmitRequest{Client: "codex", Data: []byte("x")})
	}
	if e := submit("over max_per_hour", query.SubmitRequest{Client: "codex", Data: []byte("x")}, http.StatusTooManyRequests, "max_per_hour is 3"); e.RetryAfter < 3500 {
		t.Errorf("over max_per_hour: try again in %d s, want nearly an hour", e.RetryAfter)
	}
	for range r.config.Load().Queue.MaxQueuedSessions - r.config.Load().Queue.MaxPerHour {
		r.post(`{"data":"x"}`)
	}
	if e := submit("a full queue", query.SubmitRequest{Client: "codex", Data: []byte("x")}, http.StatusTooManyRequests, "the queue is full"); e.RetryAfter != queueRetry {
		t.Errorf("a full queue: try again in %d s, want %d", e.RetryAfter, queueRetry)
	}
}

// list returns all sessions as REST lists them.
func (r *requestRig) list(t *testing.T) (ids []string, total int) {
	t.Helper()
	var all listed
	r.get("/api/v1/sessions", &all)
	return all.ids(), all.Pagination.TotalItems
}

// TestLongestDataIsStored: the longest text that may be submitted passes the bus.
func TestLongestDataIsStored(t *testing.T) {
	r := newRequestRig(t)
	inv := r.submit(query.SubmitRequest{Data: []byte(strings.Repeat("\x01", maxData))})
	if _, total := r.list(t); total != 1 || inv.SessionID == "" {
		t.Errorf("the answer is %+v with %d sessions, want one", inv, total)
	}
	data, err := json.Marshal(query.SubmitRequest{Data: []byte(strings.Repeat("x", 2*maxData))})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.gateway.NC.RequestWithContext(t.Context(), bus.SubjectInvestigateSubmit, data); !errors.Is(err, nats.ErrMaxPayload) {
		t.Errorf("a request over the bus's largest message = %v, want %v", err, nats.ErrMaxPayload)
	}
	if _, err := bus.Ask(t.Context(), r.gateway, bus.SubjectInvestigateSubmit, query.SubmitRequest{Data: []byte(strings.Repeat("x", 2*maxData))}); !errors.Is(err, nats.ErrMaxPayload) {
		t.Errorf("Ask = %v, want %v", err, nats.ErrMaxPayload)
	}
}

// TestAnswersWait: an answer waits for the end of its session. Beyond the bound it does not wait, and
// has a note.
func TestAnswersWait(t *testing.T) {
	r := newRequestRig(t)
	id := r.post(`{"data":"x"}`)
	type answer struct {
		inv query.Investigation
		err error
	}
	answers := make(chan answer, maxWaiting)
	for range maxWaiting {
		go func() {
			inv, err := ask[query.Investigation](r, bus.SubjectInvestigateGet, query.SessionRequest{SessionID: id, WaitSeconds: query.MaxWait})
			answers <- answer{inv, err}
		}()
	}
	bustest.Eventually(t, "answers that wait", func() bool { return r.waiting() == maxWaiting })
	inv, err := ask[query.Investigation](r, bus.SubjectInvestigateGet, query.SessionRequest{SessionID: id, WaitSeconds: query.MaxWait})
	if err != nil || inv.Status != "pending" || !strings.Contains(inv.Note, fmt.Sprintf("%d other calls wait already", maxWaiting)) {
		t.Errorf("one more = %+v, %v, want the pending session with a note", inv, err)
	}
	r.claim(id, 1)
	r.end(id, session.StatusTimedOut)
	for range maxWaiting {
		if a := <-answers; a.err != nil || a.inv.Status != "timed_out" || a.inv.Error != "because" || a.inv.Note != "" {
			t.Fatalf("an answer that waited = %+v, %v, want the session that timed out", a.inv, a.err)
		}
	}
	if got := r.waiting(); got != 0 {
		t.Errorf("%d answers wait after the end, want none", got)
	}
	begun := time.Now()
	other := r.submit(query.SubmitRequest{Data: []byte("x"), WaitSeconds: 1})
	if past := time.Since(begun); other.Status != "pending" || other.Note != "" || past < time.Second {
		t.Errorf("after %s the answer is %+v, want the pending session after a second", past, other)
	}
}

// TestAnswersAtTheEndOfAnInvestigator: an answer that waits is sent when the investigator stops, and
// no further request is accepted.
func TestAnswersAtTheEndOfAnInvestigator(t *testing.T) {
	r := newRequestRig(t)
	id := r.post(`{"data":"x"}`)
	answers := make(chan error, 1)
	go func() {
		inv, err := ask[query.Investigation](r, bus.SubjectInvestigateGet, query.SessionRequest{SessionID: id, WaitSeconds: query.MaxWait})
		if err == nil && !strings.Contains(inv.Note, "the investigator is stopping") {
			err = fmt.Errorf("the answer %+v lacks the note", inv)
		}
		answers <- err
	}()
	bustest.Eventually(t, "answer that waits", func() bool { return r.waiting() == 1 })
	r.stop()
	if err := <-answers; err != nil {
		t.Errorf("the answer = %v, want the session with a note", err)
	}
	var refusal *Refusal
	if err := r.requests.begin(); !asRefusal(err, &refusal) || refusal.Status != http.StatusServiceUnavailable {
		t.Errorf("a request after the end = %v, want 503", err)
	}
	// The server may not have read yet that the subscription ended. Until then it delivers requests.
	bustest.Eventually(t, "end of the subscription", func() bool {
		_, err := ask[query.Investigation](r, bus.SubjectInvestigateGet, query.SessionRequest{SessionID: id})
		if refused, ok := errors.AsType[*bus.RefusedError](err); !errors.Is(err, bus.ErrNoAnswer) && (!ok || refused.Code != "503") {
			t.Errorf("a request after the end = %v, want 503 or %v", err, bus.ErrNoAnswer)
			return true
		}
		return errors.Is(err, bus.ErrNoAnswer)
	})
}

// TestRequestsAreBounded: requests beyond the bound are refused.
func TestRequestsAreBounded(t *testing.T) {
	r := &requests{}
	for range maxRequests {
		if err := r.begin(); err != nil {
			t.Fatal(err)
		}
	}
	var refusal *Refusal
	if err := r.begin(); !asRefusal(err, &refusal) || refusal.Status != http.StatusServiceUnavailable || refusal.RetryAfter == 0 {
		t.Errorf("one more request = %+v, want 503 with a time to try again", err)
	}
	r.end()
	if err := r.begin(); err != nil {
		t.Errorf("a request after the end of another = %v, want none", err)
	}
	if _, err := safely(bustest.Quiet(), func() (any, error) { panic("x") }); !asRefusal(err, &refusal) || refusal.Status != http.StatusInternalServerError {
		t.Errorf("a panic = %v, want 500", err)
	}
}

// TestSessionAnswer: the conclusion of a completed session has only a suggested change that an alert
// would have; prose comes as it is.
func TestSessionAnswer(t *testing.T) {
	a := shopAlerts()[2]
	conclude := func(arguments string) query.Investigation {
		return sessionAnswer(completedSession(t, &a, "", arguments, "The deploy failed"), redact.New())
	}
	proven := conclude(provenConclusion)
	if got := string(proven.Conclusion); !strings.Contains(got, `"confidence":"proven"`) || !strings.Contains(got, `"supported":true`) ||
		!strings.Contains(got, `"suggested_change":{"file":"deploy/web.yaml","description":"Roll back to v1, see`) || strings.Contains(got, "evil.example") {
		t.Errorf("the conclusion is %s, want the change without its link", got)
	}
	if proven.Analysis != "" || proven.Summary != "The deploy failed" || proven.Alert == nil || proven.Alert.ID != a.ID {
		t.Errorf("the answer is %+v, want the summary and the alert, and no analysis", proven)
	}
	unproven := conclude(strings.Replace(provenConclusion, "deploy of v2 failed", "deploy of v3 failed", 1))
	if got := string(unproven.Conclusion); !strings.Contains(got, `"confidence":"unproven"`) || strings.Contains(got, "suggested_change") {
		t.Errorf("the conclusion is %s, want no suggested change", got)
	}
	prose := conclude("")
	if got := string(prose.Conclusion); got != `{"confidence":"unproven","structured":false}` || prose.Analysis != "It was the deploy." {
		t.Errorf("the conclusion is %s with the analysis %q, want the prose as analysis", got, prose.Analysis)
	}
}

func TestMCPAuthor(t *testing.T) {
	for client, want := range map[string]string{
		"": "mcp:unknown", " \t": "mcp:unknown", "codex 1": "mcp:codex 1", "a\u202eb\nc": "mcp:ab␊c",
		strings.Repeat("x", 1000): "mcp:" + strings.Repeat("x", maxAuthor-len("mcp:")-1) + "…",
	} {
		if got := mcpAuthor(client); got != want {
			t.Errorf("mcpAuthor(%q) = %q, want %q", client, got, want)
		}
	}
}

// TestRunAnswersRequests: a running investigator answers a gateway until the session has ended, and
// reports its health.
func TestRunAnswersRequests(t *testing.T) {
	b := bustest.Start(t)
	proceed := make(chan struct{})
	models := scripted(t, func(modeltest.Request) { <-proceed })
	start(t, b.Config(bus.RoleInvestigator), configFile(t, models.URL, "mcp_servers: { broken: { transport: { type: http, url: \"http://127.0.0.1:1/\" } } }\n"))
	gateway := b.Connect(bus.RoleGateway)
	var health *query.InvestigatorHealth
	read := func() bool {
		all, _, err := presence.CollectService(t.Context(), gateway, presence.Request{Service: "investigator", Expected: 1, First: time.Minute, Next: time.Second})
		if err != nil || len(all) != 1 || all[0].Investigator == nil {
			t.Fatalf("the health is %+v, %v, want one with the investigator's part", all, err)
		}
		health = all[0].Investigator
		return all[0].OK && health.Running == 1
	}
	read()
	answers := make(chan query.Investigation, 1)
	go func() {
		data, err := bus.Ask(t.Context(), gateway, bus.SubjectInvestigateSubmit, query.SubmitRequest{Client: "codex", Data: []byte("pod web-1 crashes"), WaitSeconds: query.MaxWait})
		var inv query.Investigation
		if err == nil {
			err = json.Unmarshal(data, &inv)
		}
		if err != nil {
			t.Error(err)
		}
		answers <- inv
	}()
	bustest.Eventually(t, "running session", read)
	bustest.Eventually(t, "server that is down", func() bool { read(); return slices.Equal(health.ServersDown, []string{"broken"}) })
	close(proceed)
	inv := <-answers
	if inv.Status != "completed" || inv.Summary != "In short: the disk is full." || !strings.Contains(string(inv.Conclusion), `"cause":"the disk is full"`) ||
		!strings.HasPrefix(inv.URL, "http://127.0.0.1:") || !strings.HasSuffix(inv.URL, "/api/v1/sessions/"+inv.SessionID) {
		t.Errorf("the answer is %+v, want the conclusion and the address of the session", inv)
	}
}
