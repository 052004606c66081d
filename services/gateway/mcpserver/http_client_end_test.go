package mcpserver_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/mcpserver"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// raw is a client over HTTP that sees every byte.
type raw struct{ url, session string }

func (c *raw) do(ctx context.Context, t *testing.T, method, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, c.url, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return nil
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Session-Id": c.session,
	} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return nil
	}
	return resp
}

// say sends a request and returns the whole answer.
func (c *raw) say(t *testing.T, method, body string) string {
	t.Helper()
	resp := c.do(t.Context(), t, method, body)
	if resp == nil {
		return ""
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	_ = resp.Body.Close()
	return string(text)
}

func (r *rig) begin(t *testing.T, url, client string) *raw {
	t.Helper()
	c := &raw{url: url}
	resp := c.do(t.Context(), t, http.MethodPost, fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":%q,"version":"2.1.210"}}}`, client))
	c.session = resp.Header.Get("Mcp-Session-Id")
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	c.say(t, http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return c
}

const observing = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"observe","arguments":{"what":"alerts","wait_seconds":30}}}`

// TestDeleteAnswersHeldCalls: the end of a session loses no answer.
func TestDeleteAnswersHeldCalls(t *testing.T) {
	r := newRig(t)
	c := r.begin(t, r.serve(t, mcpserver.Compatible, mcpserver.HTTPConfig{}), "leaver")
	held := c.do(t.Context(), t, http.MethodPost, strings.Replace(observing, `"params":{`, `"params":{"_meta":{"progressToken":7},`, 1))
	defer func() { _ = held.Body.Close() }()
	scan := bufio.NewScanner(held.Body)
	for scan.Scan() && !strings.Contains(scan.Text(), "notifications/progress") { // until it is held
	}
	c.say(t, http.MethodDelete, "")
	answered := false
	for scan.Scan() {
		answered = answered || strings.Contains(scan.Text(), `"id":1`)
	}
	if !answered {
		t.Error("the held call got no answer, want one")
	}
}

// TestDisableDropsUnreadNotifications: notifications that wait for a reader are dropped
// when streaming is disabled.
func TestDisableDropsUnreadNotifications(t *testing.T) {
	r := newRig(t)
	c := r.begin(t, r.serve(t, mcpserver.Compatible, mcpserver.HTTPConfig{}), "unread")
	configure := func(arguments string) {
		t.Helper()
		if text := c.say(t, http.MethodPost, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"configure_streaming","arguments":`+arguments+`}}`); strings.Contains(text, "isError") {
			t.Fatalf("got %v, want no %q in it", text, "isError")
		}
	}
	configure(`{"action":"enable","throttle_seconds":1}`)
	old := r.Alert(alert.Error)
	r.Publish(t, old)
	if text := c.say(t, http.MethodPost, observing); !strings.Contains(text, old.ID) { // it has come by now
		t.Fatalf("got %v, want %s in it", text, old.ID)
	}
	configure(`{"action":"disable"}`)
	configure(`{"action":"enable","throttle_seconds":1}`)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	stream := c.do(ctx, t, http.MethodGet, "")
	defer func() { _ = stream.Body.Close() }()
	fresh := r.Alert(alert.Error)
	r.Publish(t, fresh)
	for scan := bufio.NewScanner(stream.Body); scan.Scan(); {
		if strings.Contains(scan.Text(), old.DedupKey) {
			t.Errorf("got %s, want no notification of before", scan.Text())
		}
		if strings.Contains(scan.Text(), fresh.DedupKey) {
			return
		}
	}
	t.Error("the stream ended, want it open")
}

// TestClientThatDoesNotReadBlocksNothing: neither the end of its session nor that of the
// gateway.
func TestClientThatDoesNotReadBlocksNothing(t *testing.T) {
	r := newRig(t)
	url := r.serve(t, mcpserver.Compatible, mcpserver.HTTPConfig{})
	c := r.begin(t, url, "slow")
	for range 200 {
		a := r.Alert(alert.Error)
		a.Detail = strings.Repeat("d", 2000)
		r.Publish(t, a)
	}
	c.say(t, http.MethodPost, strings.Replace(observing, "30", "5", 1))
	conn, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/mcp"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	var calls []string
	for i := range 40 {
		calls = append(calls, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"observe","arguments":{"what":"alerts","limit":200}}}`, 10+i))
	}
	body := "[" + strings.Join(calls, ",") + "]"
	_, err = fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMcp-Session-Id: %s\r\nContent-Length: %d\r\n\r\n%s", c.session, len(body), body)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil { // it has started to answer
		t.Fatal(err)
	}
	start := time.Now()
	c.say(t, http.MethodDelete, "")
	if took := time.Since(start); took > 5*time.Second { // a busy machine included
		t.Errorf("the session took %s to end, want at most 5 s", took)
	}
}

// TestSlowRequests: a request must arrive within 10 s, with or without a token.
func TestSlowRequests(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 10 s")
	}
	t.Parallel()
	r := newRig(t)
	addr := strings.TrimSuffix(strings.TrimPrefix(r.serve(t, mcpserver.Compatible, mcpserver.HTTPConfig{Token: "s3cret"}), "http://"), "/mcp")
	var conns []net.Conn
	for _, head := range []string{
		"PUT /mcp HTTP/1.1\r\nHost: localhost\r\n", "DELETE /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer s3cret\r\n",
		"POST /mcp HTTP/1.1\r\nHost: evil.example\r\n", "POST /mcp HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n",
		"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer s3cret\r\n",
	} {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if _, err := io.WriteString(conn, head+"Content-Length: 100\r\n\r\nx"); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	deadline := time.Now().Add(15 * time.Second)
	for i, conn := range conns {
		if err := conn.SetReadDeadline(deadline); err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(conn)
		if err != nil || len(text) == 0 {
			t.Errorf("connection %d: got %q, %v, want an answer", i, text, err)
		}
	}
}
