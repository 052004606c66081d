package mcpserver_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tocsin-bus/tocsin/services/gateway/internal/testrig"
	"github.com/tocsin-bus/tocsin/services/gateway/mcpserver"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// TestSubscriptions: a client is notified of changes after it subscribed, and others are
// not notified.
func TestSubscriptions(t *testing.T) {
	r := newRig(t)
	past := r.Alert(alert.Error)
	r.Publish(t, past)
	one, two := r.open(t, "one"), r.open(t, "two")
	for range 2 { // twice is once
		if m := one.subscribe(t, "tocsin://alerts"); string(m.Result) != "{}" {
			t.Fatalf("got %v, want %v", m.raw, "{}")
		}
	}
	one.subscribe(t, "tocsin://alerts/"+past.ID)
	one.subscribe(t, "tocsin://ci/latest")
	two.delivered(t)
	one.silent(t)

	ofOther := r.Alert(alert.Error)
	ofOther.Category = alert.Errors
	r.Publish(t, ofOther)
	if m := one.notified(t, "tocsin://alerts"); m.raw != `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"tocsin://alerts"}}` {
		t.Errorf("got %v, want %v", m.raw, `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"tocsin://alerts"}}`)
	}
	if got := one.read(t, "tocsin://alerts"); !strings.HasPrefix(got, `{"alerts":[{"id":"alert02"`) || !strings.HasSuffix(got, `"pending":2}`) {
		t.Errorf("got %v, want it with %q and with %q", got, `{"alerts":[{"id":"alert02"`, `"pending":2}`)
	}
	one.silent(t)
	one.ask(t, "resources/unsubscribe", `{"uri":"tocsin://alerts"}`)
	for _, change := range []func(*alert.Alert){
		func(a *alert.Alert) { a.DedupKey = past.DedupKey },
		func(a *alert.Alert) { a.Revises = past.ID },
		func(a *alert.Alert) { a.Resolves = past.ID },
	} {
		a := r.Alert(alert.Error)
		change(&a)
		r.Publish(t, a)
		one.notified(t, "tocsin://ci/latest")
		one.notified(t, "tocsin://alerts/"+past.ID)
	}
	// After another initialize on the connection it has to subscribe again.
	one.initialize(t, "2025-06-18")
	r.Publish(t, r.Alert(alert.Error))
	one.silent(t)
	two.silent(t)
}

// TestSubscriptionsAreBounded: 100 for a client.
func TestSubscriptionsAreBounded(t *testing.T) {
	r := newRig(t)
	for range 101 {
		r.Publish(t, r.Alert(alert.Error))
	}
	c := r.open(t, "")
	for i := 1; i <= 100; i++ {
		if m := c.subscribe(t, fmt.Sprintf("tocsin://alerts/alert%02d", i)); m.Error != nil {
			t.Fatalf("got %v, want a result", m.raw)
		}
	}
	if m := c.subscribe(t, "tocsin://alerts/alert101"); m.Error == nil || !strings.Contains(m.Error.Message, "at most 100") {
		t.Fatalf("got %v, want an error with %q", m.raw, "at most 100")
	}
	c.ask(t, "resources/unsubscribe", `{"uri":"tocsin://alerts/alert07"}`)
	if m := c.subscribe(t, "tocsin://alerts/alert101"); m.Error != nil {
		t.Fatalf("got %v, want a result", m.raw)
	}
}

// TestBurst: a thousand alerts are few updates, and the last of them comes after
// the last alert.
func TestBurst(t *testing.T) {
	r := newRig(t)
	c := r.open(t, "")
	c.delivered(t)
	c.subscribe(t, "tocsin://alerts")
	start := time.Now()
	var a alert.Alert
	for range 1000 {
		a = r.Alert(alert.Error)
		a.DedupKey = "one" // so that the inbox holds it
		r.Publish(t, a)
	}
	updates := 0
	for {
		c.notified(t, "tocsin://alerts")
		updates++
		// A change while this is read belongs to the next update.
		id := c.send(t, "resources/read", `{"uri":"tocsin://alerts"}`)
		m := c.next(t)
		for ; m.ID != id; m = c.next(t) {
			updates++
		}
		if strings.Contains(m.raw, `\"`+a.ID+`\"`) {
			break
		}
	}
	if most := int(time.Since(start)/(250*time.Millisecond)) + 1; updates > most {
		t.Errorf("%d updates, want at most %d", updates, most)
	}
}

// TestSubscriptionsOverHTTP: the SDK's client, in a protocol that has sessions
// and in one that has none.
func TestSubscriptionsOverHTTP(t *testing.T) {
	for _, protocol := range []mcpserver.Protocol{mcpserver.Compatible, mcpserver.Latest} {
		t.Run(string(protocol), func(t *testing.T) {
			r := newRig(t)
			url := r.serve(t, protocol, mcpserver.HTTPConfig{})
			updates := make(chan string, 100)
			dial := func(name string) *mcp.ClientSession {
				c := mcp.NewClient(&mcp.Implementation{Name: name, Version: "1"}, &mcp.ClientOptions{
					ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
						updates <- name + " " + r.Params.URI
					},
				})
				s, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url}, nil)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = s.Close() })
				return s
			}
			notified := func(want ...string) { // in any order: each client may have a stream of its own
				t.Helper()
				for len(want) > 0 {
					select {
					case got := <-updates:
						i := slices.Index(want, got)
						if i < 0 {
							t.Fatalf("got %s, want %v", got, want)
						}
						want = slices.Delete(want, i, i+1)
					case <-time.After(patience):
						t.Fatalf("no word of %v", want)
					}
				}
			}
			one, two := dial("one"), dial("two")
			tool(t, one, "observe", nil)
			tool(t, two, "observe", nil)
			for _, uri := range []string{"tocsin://alerts", "tocsin://ci/latest"} {
				if err := one.Subscribe(t.Context(), &mcp.SubscribeParams{URI: uri}); err != nil {
					t.Fatal(err)
				}
			}
			if protocol == mcpserver.Latest { // it does not wait until the server has it
				heard := func() bool {
					r.Publish(t, r.Alert(alert.Error))
					select {
					case <-updates:
						return true
					case <-time.After(50 * time.Millisecond):
						return false
					}
				}
				if !testrig.Poll(heard) {
					t.Fatal("timed out: the client never receives an update")
				}
				for quiet := false; !quiet; { // updates under way still come
					select {
					case <-updates:
					case <-time.After(2 * quietFor):
						quiet = true
					}
				}
			}
			newest := r.Alert(alert.Error)
			r.Publish(t, newest)
			notified("one tocsin://alerts", "one tocsin://ci/latest")
			result, err := one.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "tocsin://alerts"})
			if err != nil || !strings.Contains(result.Contents[0].Text, `"`+newest.ID+`"`) {
				t.Errorf("the resource = %+v, %v, want the alert %s in it", result, err, newest.ID)
			}
			if err := one.Unsubscribe(t.Context(), &mcp.UnsubscribeParams{URI: "tocsin://alerts"}); err != nil {
				t.Fatal(err)
			}
			if !testrig.Poll(func() bool { // two may not have got yet what one has
				prompt, err := two.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "triage"})
				return err == nil && strings.Contains(prompt.Messages[0].Content.(*mcp.TextContent).Text, "# Triage")
			}) {
				t.Error("timed out: the second client has no pending alert")
			}
			if !testrig.Poll(func() bool { // an update may still be under way
				r.Publish(t, r.Alert(alert.Error))
				notified("one tocsin://ci/latest")
				select {
				case got := <-updates:
					return got == "one tocsin://ci/latest"
				case <-time.After(quietFor):
					return true
				}
			}) {
				t.Error("got an update after the client unsubscribed, want none")
			}
		})
	}
}

// TestUpdateWaitsForAStream: a change while a client over HTTP has no stream open is sent
// once it has.
func TestUpdateWaitsForAStream(t *testing.T) {
	r := newRig(t)
	url := r.serve(t, mcpserver.Compatible, mcpserver.HTTPConfig{})
	session := ""
	request := func(method, body string) io.ReadCloser {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{
			"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Session-Id": session,
		} {
			if value != "" {
				req.Header.Set(name, value)
			}
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode >= http.StatusMultipleChoices {
			t.Fatalf("got %v, want a status below 300", resp.Status)
		}
		if session == "" {
			session = resp.Header.Get("Mcp-Session-Id")
		}
		return resp.Body
	}
	ask := func(body string) string {
		t.Helper()
		answer := request(http.MethodPost, body)
		defer func() { _ = answer.Close() }()
		text, err := io.ReadAll(answer)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	defer http.DefaultClient.CloseIdleConnections()
	ask(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`)
	ask(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	ask(`{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"tocsin://alerts"}}`)
	ask(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"observe","arguments":{}}}`)
	r.Publish(t, r.Alert(alert.Error))
	if !testrig.Poll(func() bool {
		return strings.Contains(ask(`{"jsonrpc":"2.0","id":4,"method":"resources/read","params":{"uri":"tocsin://alerts"}}`), `\"pending\":1}`)
	}) {
		t.Fatal("timed out: the alert is not pending")
	}
	stream := request(http.MethodGet, "")
	defer func() { _ = stream.Close() }()
	updated(t, stream)
}

// updated reads an answer's stream, line by line, until an update of a resource.
func updated(t *testing.T, stream io.Reader) {
	t.Helper()
	scan := bufio.NewScanner(stream)
	for scan.Scan() {
		if strings.Contains(scan.Text(), "resources/updated") {
			return
		}
	}
	t.Errorf("the stream ended (%v), want an update before", scan.Err())
}
