package mcpserver_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/mcpserver"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// meta is what each request announces of its client since 2026-07-28.
const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`

// listen opens a stream of resource updates, and waits until it is open.
func (c *client) listen(t *testing.T, uris string) (id int) {
	t.Helper()
	id = c.send(t, "subscriptions/listen", `{"notifications":{"resourceSubscriptions":`+uris+`},`+meta+`}`)
	if m := c.next(t); m.Method != "notifications/subscriptions/acknowledged" || !strings.Contains(m.raw, `subscriptionId":`+fmt.Sprint(id)) {
		t.Fatalf("got %v, want the acknowledgement of the listen", m.raw)
	}
	return id
}

func (c *client) cancel(t *testing.T, id int) {
	t.Helper()
	c.write(t, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d,%s}}`, id, meta))
}

// TestListen: since 2026-07-28 a client subscribes by subscriptions/listen.
func TestListen(t *testing.T) {
	r := newRig(t)
	r.protocol = mcpserver.Latest
	c := r.dial(t, "")
	if m := c.ask(t, "resources/read", `{"uri":"tocsin://alerts",`+meta+`}`); m.Error != nil {
		t.Fatalf("got %v, want a result", m.raw)
	}
	if m := c.ask(t, "resources/subscribe", `{"uri":"tocsin://alerts",`+meta+`}`); m.Error == nil || m.Error.Code != -32601 {
		t.Errorf("got %v, want an error with code -32601", m.raw)
	}
	for _, uris := range []string{`["tocsin://nosuch"]`, `["tocsin://alerts","tocsin://alerts/nosuch"]`} {
		if m := c.ask(t, "subscriptions/listen", `{"notifications":{"resourceSubscriptions":`+uris+`},`+meta+`}`); m.Error == nil {
			t.Errorf("got %v, want an error", m.raw)
		}
	}
	id := c.listen(t, `["tocsin://alerts","tocsin://alerts"]`)
	if m := c.ask(t, "subscriptions/listen", `{"notifications":{"resourceSubscriptions":["tocsin://alerts"]},`+meta+`}`); m.Error == nil || !strings.Contains(m.Error.Message, "already") {
		t.Errorf("got %v, want an error with %q", m.raw, "already")
	}
	r.Publish(t, r.Alert(alert.Error))
	if m := c.notified(t, "tocsin://alerts"); !strings.Contains(m.raw, `subscriptionId":`+fmt.Sprint(id)) {
		t.Errorf("got %v, want %q in it", m.raw, `subscriptionId":`+fmt.Sprint(id))
	}
	// Ended, and started again at once.
	for range 20 {
		c.cancel(t, id)
		c.ids++
		next := c.ids
		c.write(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["tocsin://alerts"]},%s}}`, next, meta))
		for {
			m := c.next(t)
			if m.ID == next {
				t.Fatalf("got %v, want no answer to the listen yet", m.raw)
			}
			if m.Method == "notifications/subscriptions/acknowledged" {
				break
			}
		}
		id = next
	}
	r.Publish(t, r.Alert(alert.Error))
	if m := c.notified(t, "tocsin://alerts"); !strings.Contains(m.raw, `subscriptionId":`+fmt.Sprint(id)) {
		t.Errorf("got %v, want %q in it", m.raw, `subscriptionId":`+fmt.Sprint(id))
	}
	c.cancel(t, id)
	r.Publish(t, r.Alert(alert.Error))
	for deadline := time.After(quietFor); ; {
		select {
		case line := <-c.lines:
			if strings.Contains(line, "resources/updated") {
				t.Fatalf("got %v, want no %q in it", line, "resources/updated")
			}
			continue
		case <-deadline:
		}
		break
	}
}

// TestListensAreBounded: other calls still find room.
func TestListensAreBounded(t *testing.T) {
	r := newRig(t)
	r.protocol = mcpserver.Latest
	for range 33 {
		r.Publish(t, r.Alert(alert.Error))
	}
	c := r.dial(t, "")
	for i := 1; i <= 32; i++ {
		c.listen(t, fmt.Sprintf(`["tocsin://alerts/alert%02d"]`, i))
	}
	if m := c.ask(t, "subscriptions/listen", `{"notifications":{"resourceSubscriptions":["tocsin://alerts/alert33"]},`+meta+`}`); m.Error == nil || !strings.Contains(m.Error.Message, "at most 32") {
		t.Errorf("got %v, want an error with %q", m.raw, "at most 32")
	}
	if m := c.ask(t, "tools/call", `{"name":"observe","arguments":{},`+meta+`}`); m.Error != nil {
		t.Errorf("got %v, want a result", m.raw)
	}
}

// TestEndOfAListen: an open one ends with stdin and a result, and delays nothing.
func TestEndOfAListen(t *testing.T) {
	r := newRig(t)
	r.protocol = mcpserver.Latest
	c := r.dial(t, "")
	id := c.listen(t, `["tocsin://alerts","tocsin://ci/latest"]`)
	start := time.Now()
	if err := c.in.Close(); err != nil {
		t.Fatal(err)
	}
	if m := c.next(t); m.ID != id || m.Error != nil {
		t.Errorf("got %v, want the result of the listen", m.raw)
	}
	if err := <-c.done; err != nil || time.Since(start) > 300*time.Millisecond {
		t.Errorf("the gateway ended after %s with %v, want within 300 ms without an error", time.Since(start), err)
	}
	c.in = nil
}

// TestListenOverHTTPEnds: a listen ends with its request, which frees its subscriptions;
// and with the gateway, which sends a result.
func TestListenOverHTTPEnds(t *testing.T) {
	r := newRig(t)
	var body io.ReadCloser
	t.Cleanup(func() { // the gateway has ended before
		if body == nil {
			return
		}
		rest, err := io.ReadAll(body)
		if err != nil || !strings.Contains(string(rest), `"result"`) {
			t.Errorf("the rest of the stream = %s, %v, want a result", rest, err)
		}
		_ = body.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	url := r.serve(t, mcpserver.Latest, mcpserver.HTTPConfig{})
	for range 31 {
		r.Publish(t, r.Alert(alert.Error))
	}
	open := func(ctx context.Context, i int) io.ReadCloser {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["tocsin://alerts"]},%s}}`, i, meta)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{
			"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen",
		} {
			req.Header.Set(name, value)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		head := make([]byte, 64)
		if n, err := io.ReadFull(resp.Body, head); resp.StatusCode != http.StatusOK || err != nil || !strings.Contains(string(head), "event: message") {
			t.Fatalf("listen = %d, %v, %s, want 200 and an event", resp.StatusCode, err, head[:n])
		}
		return resp.Body
	}
	// More one after the other than may be open at once.
	for i := range 120 {
		ctx, hangUp := context.WithCancel(t.Context())
		body := open(ctx, i)
		hangUp()
		_ = body.Close()
	}
	body = open(context.WithoutCancel(t.Context()), 1000)
	r.Publish(t, r.Alert(alert.Error))
	updated(t, body)
}
