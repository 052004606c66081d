package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/internal/testrig"
	"github.com/tocsin-bus/tocsin/services/gateway/mcpserver"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

const ofAlerts = `"name":"alert.raised"`

// polled is the answer to a poll.
type polled struct {
	Events []struct {
		EventID string
		Data    alert.Alert
	}
	Cursor             string
	Truncated, HasMore bool
}

func (c *client) pollEvents(t *testing.T, cursor string) (p polled, ids string) {
	t.Helper()
	m := c.ask(t, "events/poll", fmt.Sprintf(`{%s,"cursor":%s}`, ofAlerts, cursor))
	if err := json.Unmarshal(m.Result, &p); m.Error != nil || err != nil {
		t.Fatalf("events/poll = %s (%v), want a result", m.raw, err)
	}
	var all []string
	for _, e := range p.Events {
		all = append(all, e.EventID)
	}
	return p, strings.Join(all, " ")
}

func quoted(text string) string { return `"` + text + `"` }

// event is a notification on a stream.
type event struct {
	Method string
	Params struct {
		EventID, Cursor string
		Truncated       bool
		Meta            struct {
			ID json.RawMessage `json:"io.modelcontextprotocol/subscriptionId"`
		} `json:"_meta"`
	}
	Result json.RawMessage
	ID     json.RawMessage
}

func (e event) String() string {
	return strings.TrimPrefix(e.Method, "notifications/events/") + " " + e.Params.EventID
}

func decode(t *testing.T, line string) event {
	t.Helper()
	var e event
	if err := json.Unmarshal([]byte(line), &e); err != nil {
		t.Fatalf("decode the event %s: %v", line, err)
	}
	return e
}

func TestEventsAreDeclared(t *testing.T) {
	r := newRig(t)
	c := r.dial(t, "declared")
	if m := c.initialize(t, "2025-06-18"); !strings.Contains(string(m.Result), `"extensions":{"io.modelcontextprotocol/events":{}}`) {
		t.Errorf("got %v, want %q in it", m.raw, `"extensions":{"io.modelcontextprotocol/events":{}}`)
	}
}

// TestEventsByPoll continues from a cursor after the end of a gateway, on a bus that is
// unreachable, and on one that was recreated.
func TestEventsByPoll(t *testing.T) {
	r := newRig(t)
	r.Publish(t, r.Alert(alert.Error)) // before the first poll
	c := r.open(t, "poll")
	p, ids := c.pollEvents(t, "null")
	if ids != "" || p.Cursor == "" {
		t.Fatalf("poll without a cursor = %q, %+v, want no events and a cursor", ids, p)
	}
	r.Publish(t, r.Alert(alert.Error))
	r.Publish(t, r.Alert(alert.Info)) // the filter keeps it out
	hostile := r.Alert(alert.Warning)
	hostile.Title, hostile.Detail = "CI\u001b[31m\nresult", "Bearer abcdefghijklmnopqrstuvwxyz0123456789"
	r.Publish(t, hostile)
	first, ids := c.pollEvents(t, quoted(p.Cursor))
	if ids != "alert02 alert04" || first.HasMore || first.Truncated {
		t.Errorf("poll = %q, %+v, want alert02 alert04 and nothing more", ids, first)
	}
	if a := first.Events[1].Data; a.Title != "CI\u241b[31m\u240aresult" || strings.Contains(a.Detail, "abcdef") {
		t.Errorf("event = %+v, want visible characters and no secret", a)
	}
	if again, ids := c.pollEvents(t, quoted(p.Cursor)); ids != "alert02 alert04" || again.Cursor != first.Cursor {
		t.Errorf("the same poll again = %q, cursor %s, want alert02 alert04, cursor %s", ids, again.Cursor, first.Cursor)
	}
	c.pending(t, 4) // no poll takes an alert out of the inbox
	if err := c.hangUp(t); err != nil {
		t.Error(err)
	}

	r.Publish(t, r.Alert(alert.Error))
	c = r.open(t, "poll")
	p, ids = c.pollEvents(t, quoted(first.Cursor))
	if ids != "alert05" || p.Truncated {
		t.Errorf("poll after the gateway's restart = %q, %+v, want alert05, not truncated", ids, p)
	}
	r.Down()
	if m := c.ask(t, "events/poll", `{`+ofAlerts+`}`); m.Error == nil || m.Error.Code != -32603 || !strings.Contains(m.Error.Message, "the bus is unreachable") {
		t.Errorf("poll without a bus = %s, want error -32603 with the reason", m.raw)
	}
	r.Up(t)
	if !testrig.Poll(func() bool { return c.ask(t, "events/poll", `{`+ofAlerts+`}`).Error == nil }) {
		t.Fatal("timed out: the gateway does not find the bus again")
	}
	if p, ids := c.pollEvents(t, quoted(p.Cursor)); ids != "" || p.Truncated {
		t.Errorf("poll after the bus's restart = %q, %+v, want nothing, not truncated", ids, p)
	}
	if p, ids := c.pollEvents(t, quoted("of no stream")); ids != "alert01 alert02 alert04 alert05" || !p.Truncated {
		t.Errorf("poll with a cursor of no stream = %q, %+v, want all alerts, truncated", ids, p)
	}
}

func TestEventsByStream(t *testing.T) {
	r := newRig(t)
	c := r.open(t, "stream")
	p, _ := c.pollEvents(t, "null")
	r.Publish(t, r.Alert(alert.Error))
	id := c.send(t, "events/stream", `{`+ofAlerts+`,"arguments":{"throttle_seconds":1},"cursor":`+quoted(p.Cursor)+`}`)
	next := func(want string) event {
		t.Helper()
		e := decode(t, c.next(t).raw)
		if e.String() != want || string(e.Params.Meta.ID) != fmt.Sprint(id) {
			t.Fatalf("%s, with %s, instead of %s", e, e.Params.Meta.ID, want)
		}
		return e
	}
	next("active ")
	next("event alert01")
	r.Publish(t, r.Alert(alert.Error))
	r.Publish(t, r.Alert(alert.Error))
	next("event alert02")
	last := next("event alert03")
	if m := c.ask(t, "ping", `{}`); m.Error != nil {
		t.Errorf("got %v, want a result", m.raw)
	}
	c.pending(t, 3) // no stream takes an alert out of the inbox

	r.Down()
	r.Up(t)
	r.Publish(t, r.Alert(alert.Error))
	next("event alert04") // through the bus's restart, at another address

	c.write(t, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, id))
	if m := c.next(t); m.ID != id {
		t.Errorf("after the cancellation: got %s, want the end of the stream", m.raw)
	}
	if _, ids := c.pollEvents(t, quoted(last.Params.Cursor)); ids != "alert04" {
		t.Errorf("poll after the stream = %q, want alert04", ids)
	}
}

// TestStreamsAreNoCallsUnderWay: they leave room for calls, and calls for them.
func TestStreamsAreNoCallsUnderWay(t *testing.T) {
	r := newRig(t)
	c := r.open(t, "many")
	c.pending(t, 0)
	for range 64 {
		c.send(t, "tools/call", `{"name":"observe","arguments":{"wait_seconds":50}}`)
	}
	for range 8 {
		c.send(t, "events/stream", `{`+ofAlerts+`,"arguments":{"severity_min":"info"}}`)
		if e := decode(t, c.next(t).raw); e.String() != "active " {
			t.Fatalf("got %v, want %v", e, "active ")
		}
	}
	if m := c.ask(t, "events/stream", `{`+ofAlerts+`}`); m.Error == nil || m.Error.Code != -32025 {
		t.Errorf("one stream too many = %s, want error -32025", m.raw)
	}
	if m := c.ask(t, "ping", `{}`); m.Error == nil || m.Error.Code != -32000 {
		t.Errorf("one call too many = %s, want error -32000", m.raw)
	}
	if err := c.hangUp(t); err != nil {
		t.Error(err)
	}
}

// TestSilencedAlertsAreNoEvents: a suppressed alert is no event either.
func TestSilencedAlertsAreNoEvents(t *testing.T) {
	r := newRig(t)
	c := r.open(t, "silence")
	p, _ := c.pollEvents(t, "null")
	if res := c.call(t, "configure", `{"action":"silence","app":"web","minutes":5,"reason":"a deployment"}`); res.isError {
		t.Fatalf("got %v, want no error", res.blocks)
	}
	c.send(t, "events/stream", `{`+ofAlerts+`}`)
	c.next(t)
	r.Publish(t, r.now(alert.Error))
	other := r.now(alert.Error)
	other.App = "shop"
	r.Publish(t, other)
	if e := decode(t, c.next(t).raw); e.String() != "event alert02" {
		t.Errorf("got %v, want %v", e, "event alert02")
	}
	if _, ids := c.pollEvents(t, quoted(p.Cursor)); ids != "alert02" {
		t.Errorf("poll = %q, want alert02", ids)
	}
}

// TestEventsEndWithStdin: an open stream does not delay the end.
func TestEventsEndWithStdin(t *testing.T) {
	r := newRig(t)
	c := r.open(t, "end")
	id := c.send(t, "events/stream", `{`+ofAlerts+`}`)
	c.next(t)
	start := time.Now()
	if err := c.in.Close(); err != nil {
		t.Fatal(err)
	}
	if m := c.next(t); m.ID != id || string(m.Result) != fmt.Sprintf(`{"_meta":{"io.modelcontextprotocol/subscriptionId":%d},"resultType":"complete"}`, id) {
		t.Errorf("the end of the stream = %s, want its result", m.raw)
	}
	if err := <-c.done; err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > time.Second {
		t.Errorf("the end took %s, want at most 1 s", took)
	}
	c.in = nil
}

// post sends one message over HTTP and returns the lines of the answer's stream.
func post(ctx context.Context, t *testing.T, url, version, session, message string) (lines chan string, sessionID string) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(message))
	if err != nil {
		t.Fatal(err)
	}
	var m struct{ Method string }
	if err := json.Unmarshal([]byte(message), &m); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": version, "Mcp-Session-Id": session, "Mcp-Method": m.Method,
	} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	answer, err := http.DefaultClient.Do(r) //nolint:bodyclose // the reader closes it
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode >= 300 {
		body, _ := io.ReadAll(answer.Body)
		t.Fatalf("%s = %d %s, want a status below 300", message, answer.StatusCode, body)
	}
	lines = make(chan string, 100)
	go func() {
		defer answer.Body.Close()
		defer close(lines)
		for scan := bufio.NewScanner(answer.Body); scan.Scan(); {
			if data, ok := strings.CutPrefix(scan.Text(), "data: "); ok {
				lines <- data
			}
		}
	}()
	return lines, answer.Header.Get("Mcp-Session-Id")
}

func receive(t *testing.T, lines <-chan string) event {
	t.Helper()
	select {
	case l, ok := <-lines:
		if !ok {
			t.Fatal("the response ended, want an event")
		}
		return decode(t, l)
	case <-time.After(patience):
		t.Fatalf("got no event within %s", patience)
		return event{}
	}
}

// TestEventsOverHTTP: the response to the request is the stream, in versions
// with sessions and without.
func TestEventsOverHTTP(t *testing.T) {
	r := newRig(t)
	url := r.serve(t, mcpserver.Latest, mcpserver.HTTPConfig{})
	defer http.DefaultClient.CloseIdleConnections()
	_, session := post(t.Context(), t, url, "", "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}`)
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"b","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`

	discovered, _ := post(t.Context(), t, url, "2026-07-28", "", `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{`+meta+`}}`)
	if e := receive(t, discovered); !strings.Contains(string(e.Result), `"extensions":{"io.modelcontextprotocol/events":{}}`) {
		t.Errorf("server/discover = %s, want the events extension", e.Result)
	}
	open := func(version, session, meta string) (lines chan string, abort context.CancelFunc) {
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		lines, _ = post(ctx, t, url, version, session, `{"jsonrpc":"2.0","id":"s 1","method":"events/stream","params":{`+ofAlerts+meta+`}}`)
		if e := receive(t, lines); e.String() != "active " || string(e.Params.Meta.ID) != `"s 1"` {
			t.Fatalf("%s: got %s, want the stream s 1 to be active", version, e)
		}
		return lines, cancel
	}
	a, _ := open("2025-11-25", session, "")
	b, abort := open("2026-07-28", "", ","+meta)
	r.Publish(t, r.Alert(alert.Error))
	for _, lines := range []chan string{a, b} {
		if e := receive(t, lines); e.String() != "event alert01" {
			t.Errorf("got %v, want %v", e, "event alert01")
		}
	}
	abort()
	for range b { // until it has ended
	}

	// The end of a session ends its streams, with a result.
	end, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	end.Header.Set("Mcp-Session-Id", session)
	start := time.Now()
	answer, err := http.DefaultClient.Do(end)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("the session took %s to end, want at most 5 s", took)
	}
	for l := range a {
		if e := decode(t, l); e.Method != "" || string(e.ID) != `"s 1"` {
			t.Errorf("after the session's end: got %s, want only the result of the stream", l)
		}
	}
}

// TestEventsEndWithTheServer: open streams do not delay the end of a gateway on HTTP. Their
// clients get a result, or only see the response end.
func TestEventsEndWithTheServer(t *testing.T) {
	open := map[string]chan string{}
	t.Cleanup(func() { // after the gateway's end
		for version, lines := range open {
			for l := range lines {
				if e := decode(t, l); !strings.Contains(string(e.Result), `"resultType":"complete"`) {
					t.Errorf("%s: got %s, want %q in it", version, l, `"resultType":"complete"`)
				}
			}
		}
		http.DefaultClient.CloseIdleConnections()
	})
	r := newRig(t)
	url := r.serve(t, mcpserver.Latest, mcpserver.HTTPConfig{})
	ctx := context.WithoutCancel(t.Context()) // the client stays
	_, session := post(ctx, t, url, "", "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}`)
	for version, meta := range map[string]string{
		"2025-11-25": ``,
		"2026-07-28": `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"b","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`,
	} {
		id := session
		if meta != "" {
			id = "" // it has no sessions
		}
		open[version], _ = post(ctx, t, url, version, id, `{"jsonrpc":"2.0","id":1,"method":"events/stream","params":{`+ofAlerts+meta+`}}`)
		if e := receive(t, open[version]); e.String() != "active " {
			t.Errorf("got %v, want %v", e, "active ")
		}
	}
}

// TestEventsUseTheClientsFilters: a subscription without filters has those of the client's
// notifications, where these use the channel events.
func TestEventsUseTheClientsFilters(t *testing.T) {
	r := newRig(t)
	c := r.open(t, "wants")
	c.delivered(t)
	for _, tt := range []struct {
		enable, want string
		messages     int // about the error
	}{
		{`{"action":"enable","severity_min":"error","via":["message"]}`, "both", 1},
		{`{"action":"enable","severity_min":"error","via":["events"]}`, "the error", 0},
	} {
		if r := c.call(t, "configure_streaming", tt.enable); r.isError {
			t.Fatalf("got %v, want no error", r)
		}
		at, _ := c.pollEvents(t, "null")
		warning, severe := r.Alert(alert.Warning), r.Alert(alert.Error)
		r.Publish(t, warning)
		r.Publish(t, severe)
		want := warning.ID + " " + severe.ID
		if tt.want == "the error" {
			want = severe.ID
		}
		// The answer to the poll and the message, where one is due, may come in either
		// order, and both must have come before the next call.
		id := c.send(t, "events/poll", fmt.Sprintf(`{%s,"cursor":%q}`, ofAlerts, at.Cursor))
		var p polled
		messages := 0
		for answered := false; !answered || messages < tt.messages; {
			m := c.next(t)
			switch {
			case m.ID == id:
				if err := json.Unmarshal(m.Result, &p); m.Error != nil || err != nil {
					t.Fatalf("events/poll = %s (%v), want a result", m.raw, err)
				}
				answered = true
			case m.Method != "notifications/message" || !strings.Contains(m.raw, severe.ID) || strings.Contains(m.raw, warning.ID):
				t.Fatalf("got %s, want the answer to a request", m.raw)
			default:
				messages++
			}
		}
		if messages != tt.messages {
			t.Errorf("%s: got %d messages, want %d", tt.enable, messages, tt.messages)
		}
		var got []string
		for _, e := range p.Events {
			got = append(got, e.EventID)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", tt.enable, got, want)
		}
		if r := c.call(t, "configure_streaming", `{"action":"disable"}`); r.isError {
			t.Fatalf("got %v, want no error", r)
		}
	}
}
