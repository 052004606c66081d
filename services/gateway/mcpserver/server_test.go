package mcpserver_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/services/gateway/internal/testrig"
	"github.com/tocsin-bus/tocsin/services/gateway/mcpserver"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
)

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; go test -update writes it):\n%s", path, diff)
	}
}

// TestWire compares the whole conversation of a session with a golden file.
func TestWire(t *testing.T) {
	t.Parallel() // it waits for the throttle
	r := newRig(t)
	c := r.dial(t, "")
	var wire strings.Builder
	ids := regexp.MustCompile(`^{"jsonrpc":"2.0","id":\d+,`) // polling takes some
	note := func(m message) { fmt.Fprintln(&wire, ids.ReplaceAllString(m.raw, `{"jsonrpc":"2.0","id":0,`)) }
	note(c.initialize(t, "2025-11-25"))
	note(c.ask(t, "tools/list", `{}`))
	note(c.ask(t, "tools/call", `{"name":"observe"}`))
	for _, severity := range []alert.Severity{alert.Info, alert.Error, alert.Warning, alert.Error} {
		r.Publish(t, r.Alert(severity))
	}
	c.pending(t, 4)
	note(c.ask(t, "tools/call", `{"name":"observe","arguments":{"what":"alerts","since_seconds":60}}`))
	// The throttle is long enough for both alerts of the batch, on a busy machine too.
	note(c.ask(t, "tools/call", `{"name":"configure_streaming","arguments":{"action":"enable","throttle_seconds":5,"severity_min":"info"}}`))
	r.Publish(t, r.Alert(alert.Info))
	note(c.next(t))
	r.Publish(t, r.Alert(alert.Warning))
	r.Publish(t, r.Alert(alert.Error))
	note(c.next(t)) // the batch
	for _, call := range []string{
		`{"name":"configure","arguments":{"action":"streaming","streaming_action":"status"}}`,
		`{"name":"configure_streaming","arguments":{"action":"disable"}}`,
		`{"name":"configure_streaming","arguments":{"action":"enable","throttle_seconds":61}}`,
		`{"name":"configure","arguments":{"action":"clear"}}`,
		`{"name":"configure","arguments":{"action":"noise","noise_action":"list"}}`,
		`{"name":"configure","arguments":{"action":"noise"}}`,
		`{"name":"observe","arguments":{"what":"logs"}}`,
		`{"name":"notify","arguments":{"message":"look at \u001b[31mthis\u001b[0m"}}`,
		`{"name":"notify","arguments":{"message":" "}}`,
	} {
		note(c.ask(t, "tools/call", call))
	}
	golden(t, "session.golden", wire.String())
}

// TestToolsList: the list that every client sends to its model on every turn is small.
func TestToolsList(t *testing.T) {
	m := newRig(t).open(t, "").ask(t, "tools/list", `{}`)
	if len(m.raw) >= 8<<10 {
		t.Errorf("tools/list has %d bytes, want less than %d", len(m.raw), 8<<10)
	}
}

func TestProtocolVersions(t *testing.T) {
	r := newRig(t)
	for proposed, want := range map[string]string{
		"2024-11-05": "2024-11-05", "2025-03-26": "2025-03-26", "2025-06-18": "2025-06-18", "2025-11-25": "2025-11-25",
		"2026-07-28": "2025-11-25", "1999-01-01": "2025-11-25",
	} {
		if m := r.dial(t, proposed).initialize(t, proposed); !strings.Contains(m.raw, `"protocolVersion":"`+want+`"`) {
			t.Errorf("%s: got %s, want %q in it", proposed, m.raw, `"protocolVersion":"`+want+`"`)
		}
	}
}

// TestNegotiatedDown: a client that proposed a version without unsolicited messages, and
// negotiated one that has them, gets them.
func TestNegotiatedDown(t *testing.T) {
	r := newRig(t)
	c := r.dial(t, "")
	c.initialize(t, "2026-07-28")
	c.call(t, "configure_streaming", `{"action":"enable","throttle_seconds":1}`)
	r.Publish(t, r.Alert(alert.Error))
	if m := c.next(t); m.Method != "notifications/message" {
		t.Fatalf("got %v, want %v", m.raw, "notifications/message")
	}
}

// TestInboxOverRestarts: a client gets what was raised since it last took alerts, also
// before its gateway started; another client has an inbox of its own.
func TestInboxOverRestarts(t *testing.T) {
	r := newRig(t)
	c := r.open(t, "one")
	r.Publish(t, r.Alert(alert.Error))
	r.Publish(t, r.Alert(alert.Error))
	c.pending(t, 2)
	if got := c.delivered(t); got != "alert02 alert01" {
		t.Fatalf("the first observe delivered %q, want alert02 alert01", got)
	}
	r.Publish(t, r.Alert(alert.Error))
	c.pending(t, 1) // received, and not taken
	if err := c.hangUp(t); err != nil {
		t.Fatal(err)
	}
	r.Publish(t, r.Alert(alert.Error))
	c = r.open(t, "one")
	if got := c.delivered(t); got != "alert04 alert03" {
		t.Fatalf("after a restart observe delivered %q, want alert04 alert03", got)
	}
	if got := c.delivered(t); got != "" {
		t.Fatalf("the next observe delivered %q, want nothing", got)
	}
	if got := r.open(t, "two").delivered(t); got != "alert04 alert03 alert02 alert01" {
		t.Fatalf("observe of another client delivered %q, want all four alerts", got)
	}
}

// TestTwoGatewaysOfOneClient: an alert is delivered once, by the gateway that is asked
// first.
func TestTwoGatewaysOfOneClient(t *testing.T) {
	r := newRig(t)
	one, two := r.open(t, "same"), r.open(t, "same")
	r.Publish(t, r.Alert(alert.Error))
	one.pending(t, 1)
	two.pending(t, 1)
	if got := one.delivered(t); got != "alert01" {
		t.Fatalf("got %v, want %v", got, "alert01")
	}
	r.Publish(t, r.Alert(alert.Error))
	two.pending(t, 1) // the first was delivered
	if got := two.delivered(t); got != "alert02" {
		t.Fatalf("got %v, want %v", got, "alert02")
	}
	if got := one.delivered(t); got != "" {
		t.Fatalf("got %v, want nothing", got)
	}
	one.pending(t, 0)
}

// TestClientByName: without --client, a client is known by its MCP name and its directory.
func TestClientByName(t *testing.T) {
	r := newRig(t)
	c := r.open(t, "")
	r.Publish(t, r.Alert(alert.Error))
	c.pending(t, 1)
	if text := c.call(t, "observe", `{}`).blocks[0]; !strings.Contains(text, `"client":"test in /work"`) {
		t.Errorf("got %v, want %q in it", text, `"client":"test in /work"`)
	}
}

// TestErroringCallKeepsAlerts: only a successful observe takes alerts.
func TestErroringCallKeepsAlerts(t *testing.T) {
	r := newRig(t)
	c := r.open(t, "")
	r.Publish(t, r.Alert(alert.Error))
	c.pending(t, 1)
	for _, args := range []string{`{"what":"x"}`, `{"limit":0}`, `{"nope":1}`, `[]`} {
		if got := c.call(t, "observe", args); !got.isError || len(got.blocks) != 1 {
			t.Errorf("%s: got %+v, want it an error and of length %v", args, got, 1)
		}
	}
	if got := c.delivered(t); got != "alert01" {
		t.Errorf("got %v, want %v", got, "alert01")
	}
}

// TestWaitSeconds: the call is held until an alert comes, others are answered meanwhile,
// and one that was cancelled takes nothing.
func TestWaitSeconds(t *testing.T) {
	r := newRig(t)
	c := r.open(t, "")
	held := c.send(t, "tools/call", `{"name":"observe","arguments":{"wait_seconds":50}}`)
	c.health(t)
	r.Publish(t, r.Alert(alert.Error))
	m := c.next(t)
	if m.ID != held || testrig.Titles(t, m.tool(t).blocks[1]) != "alert01" {
		t.Fatalf("got %v, want alert01 as the answer to the held call", m.raw)
	}
	held = c.send(t, "tools/call", `{"name":"observe","arguments":{"wait_seconds":50}}`)
	c.health(t)
	c.write(t, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, held))
	if m := c.next(t); m.ID != held || strings.Contains(m.raw, "ALERTS") {
		t.Fatalf("got %v, want an answer without alerts", m.raw)
	}
	r.Publish(t, r.Alert(alert.Error))
	c.pending(t, 1)
	if got := c.delivered(t); got != "alert02" {
		t.Fatalf("got %v, want %v", got, "alert02")
	}
}

// TestProgress: a held call reports progress until there is an alert, to a client that
// gave a token for that.
func TestProgress(t *testing.T) {
	r := newRig(t)
	c := r.open(t, "")
	held := c.send(t, "tools/call", `{"name":"observe","arguments":{"wait_seconds":50},"_meta":{"progressToken":"p1"}}`)
	for _, seconds := range []string{"2", "4"} {
		want := `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p1","message":"no alert yet","progress":` + seconds + `,"total":50}}`
		if m := c.next(t); m.raw != want {
			t.Fatalf("got  %s\nwant %s", m.raw, want)
		}
	}
	r.Publish(t, r.Alert(alert.Error))
	m := c.next(t)
	for m.Method == "notifications/progress" { // it may take until the next
		m = c.next(t)
	}
	if m.ID != held || testrig.Titles(t, m.tool(t).blocks[1]) != "alert01" {
		t.Fatalf("got %v, want alert01 as the answer to the held call", m.raw)
	}
	// A short call reports nothing.
	held = c.send(t, "tools/call", `{"name":"observe","arguments":{"wait_seconds":1},"_meta":{"progressToken":7}}`)
	if m := c.next(t); m.ID != held {
		t.Fatalf("got %v, want %v", m.raw, held)
	}
}

// TestStreamingIsOffForANewSession: a client that initializes again on the same
// connection, or comes back, has to enable it again.
func TestStreamingIsOffForANewSession(t *testing.T) {
	r := newRig(t)
	c := r.open(t, "")
	c.call(t, "configure_streaming", `{"action":"enable","throttle_seconds":1,"severity_min":"error"}`)
	c.initialize(t, "2025-06-18")
	if got := c.call(t, "configure_streaming", `{"action":"status"}`).blocks[0]; !strings.HasPrefix(got, `{"config":{"enabled":false,`) {
		t.Fatalf("got %v, want %q at its start", got, `{"config":{"enabled":false,`)
	}
	r.Publish(t, r.Alert(alert.Error))
	c.pending(t, 1)
}

// TestPastAlertsAreNotPushed: alerts raised before streaming was enabled stay in the
// inbox.
func TestPastAlertsAreNotPushed(t *testing.T) {
	r := newRig(t)
	r.Publish(t, r.Alert(alert.Error))
	c := r.open(t, "")
	c.call(t, "configure_streaming", `{"action":"enable","throttle_seconds":1}`)
	r.Publish(t, r.Alert(alert.Error))
	if m := c.next(t); !strings.Contains(m.raw, "alert02") {
		t.Fatalf("got %v, want %q in it", m.raw, "alert02")
	}
	if got := c.delivered(t); got != "alert02 alert01" {
		t.Fatalf("got %v, want %v", got, "alert02 alert01")
	}
}

// TestSetLevel: the level of logging/setLevel applies beside the configuration.
func TestSetLevel(t *testing.T) {
	r := newRig(t)
	c := r.open(t, "")
	c.call(t, "configure_streaming", `{"action":"enable","throttle_seconds":1,"severity_min":"info"}`)
	c.ask(t, "logging/setLevel", `{"level":"error"}`)
	for _, level := range []string{"loud", ""} {
		if m := c.ask(t, "logging/setLevel", `{"level":"`+level+`"}`); m.Error == nil || m.Error.Code != -32602 {
			t.Errorf("setLevel %q = %s, want error -32602", level, m.raw)
		}
	}
	r.Publish(t, r.Alert(alert.Warning))
	r.Publish(t, r.Alert(alert.Error))
	if m := c.next(t); !strings.Contains(m.raw, "alert02") || strings.Contains(m.raw, "alert01") {
		t.Fatalf("got %v, want it with %q and without %q", m.raw, "alert02", "alert01")
	}
}

// TestEnd: closed stdin ends everything within a second, also while a call is held, and
// calls from before are answered.
func TestEnd(t *testing.T) {
	r := newRig(t)
	c := r.open(t, "")
	held := c.send(t, "tools/call", `{"name":"observe","arguments":{"wait_seconds":50}}`)
	if err := c.in.Close(); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if m := c.next(t); m.ID != held {
		t.Fatalf("got %v, want %v", m.raw, held)
	}
	err := <-c.done
	if took := time.Since(start); err != nil || took > time.Second {
		t.Errorf("the gateway ended after %s with %v, want within 1 s without an error", took, err)
	}
	c.in = nil
}

// TestEndOfAClientThatDoesNotRead: a client that calls and never reads does not delay the
// end. It has a bounded number of calls under way.
func TestEndOfAClientThatDoesNotRead(t *testing.T) {
	r := newRig(t)
	stdin, in := io.Pipe()
	_, stdout := io.Pipe() // nothing reads it
	done := make(chan error, 1)
	go func() {
		done <- mcpserver.ServeStdio(context.WithoutCancel(t.Context()), mcpserver.Config{
			Bus: bus.Config{Dir: r.Dir}, Client: "slow", Stdin: stdin, Stdout: stdout, Logger: testrig.Quiet(),
		})
	}()
	defer func() { _ = stdout.Close() }() // releases a write that is still blocked
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"slow","version":"1"}}}`,
		`{"jsonrpc":"2.0","id":2,"method":"ping"}`,
	} {
		if _, err := io.WriteString(in, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	start := time.Now()
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		if took := time.Since(start); err != nil || took > time.Second {
			t.Errorf("the gateway ended after %s with %v, want within 1 s without an error", took, err)
		}
	case <-time.After(patience):
		t.Fatal("it does not end")
	}
}

// TestManyCalls: past the bound a call is refused, and the others are answered.
func TestManyCalls(t *testing.T) {
	r := newRig(t)
	c := r.open(t, "")
	const held = 64
	for range held {
		c.send(t, "tools/call", `{"name":"observe","arguments":{"wait_seconds":50}}`)
	}
	if m := c.ask(t, "ping", `{}`); m.Error == nil || m.Error.Code != -32000 {
		t.Fatalf("got %v, want an error with code -32000", m.raw)
	}
	// Each alert ends the wait of one.
	published, delivered := 0, 0
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	deadline := time.After(patience)
	for answered := 0; answered < held; {
		select {
		case line := <-c.lines:
			answered++
			delivered += strings.Count(line, "--- ALERTS")
		case <-again.C:
			r.Publish(t, r.Alert(alert.Error))
			published++
		case <-deadline:
			t.Fatalf("timed out: not all calls are answered, with %d alerts published", published)
		}
	}
	if delivered == 0 || delivered > published {
		t.Errorf("%d alerts were delivered, want 1 to %d", delivered, published)
	}
	if m := c.ask(t, "ping", `{}`); m.Error != nil {
		t.Fatalf("got %v, want a result", m.raw)
	}
}

// TestBadLines: a line that is not a message is refused, and the session continues.
func TestBadLines(t *testing.T) {
	r := newRig(t)
	c := r.dial(t, "")
	c.write(t, "hello")
	if m := c.next(t); m.Error == nil || m.Error.Code != -32700 {
		t.Fatalf("got %v, want an error with code -32700", m.raw)
	}
	c.initialize(t, "2025-03-26")
	c.write(t, `[{"jsonrpc":"2.0","id":8,"method":"ping"},{"jsonrpc":"2.0","id":9,"method":"ping"}]`)
	if line := <-c.lines; line != `[{"jsonrpc":"2.0","id":8,"result":{}},{"jsonrpc":"2.0","id":9,"result":{}}]` {
		t.Errorf("the answer to a batch = %s, want both results in a batch", line)
	}
	if m := c.ask(t, "no/such", `{}`); m.Error == nil || m.Error.Code != -32601 {
		t.Errorf("got %v, want an error with code -32601", m.raw)
	}
}

// TestSignal: the end of the context ends the session as well, and held calls are
// answered.
func TestSignal(t *testing.T) {
	r := newRig(t)
	c := r.open(t, "")
	held := c.send(t, "tools/call", `{"name":"observe","arguments":{"wait_seconds":50}}`)
	c.health(t)
	start := time.Now()
	c.stop()
	if m := c.next(t); m.ID != held {
		t.Fatalf("got %v, want %v", m.raw, held)
	}
	if err := <-c.done; err != nil || time.Since(start) > time.Second {
		t.Errorf("the gateway ended after %s with %v, want within 1 s without an error", time.Since(start), err)
	}
	c.in = nil
}

// TestClearFirst: clear also discards alerts from before this process.
func TestClearFirst(t *testing.T) {
	r := newRig(t)
	r.Publish(t, r.Alert(alert.Error))
	c := r.open(t, "")
	if got := c.call(t, "configure", `{"action":"clear"}`).blocks[0]; got != `{"status":"cleared","alerts_cleared":1}` {
		t.Errorf("got %v, want %v", got, `{"status":"cleared","alerts_cleared":1}`)
	}
	if got := c.delivered(t); got != "" {
		t.Errorf("got %v, want nothing", got)
	}
}

// TestEndWithoutABus: nothing delays the end when there is no bus either.
func TestEndWithoutABus(t *testing.T) {
	r := newRig(t)
	r.Down()
	c := r.open(t, "")
	start := time.Now()
	if err := c.hangUp(t); err != nil || time.Since(start) > time.Second {
		t.Errorf("the gateway ended after %s with %v, want within 1 s without an error", time.Since(start), err)
	}
}

// TestBusUnreachable: the bus ends and comes back at another address. Meanwhile observe
// reports it and still delivers what it has, and nothing is lost or delivered twice.
func TestBusUnreachable(t *testing.T) {
	r := newRig(t)
	c := r.open(t, "one")
	r.Publish(t, r.Alert(alert.Error))
	c.pending(t, 1)
	r.Down()
	var first result
	if !testrig.Poll(func() bool {
		first = c.call(t, "configure", `{"action":"health"}`)
		return strings.Contains(first.blocks[0], "unreachable")
	}) {
		t.Fatalf("got %+v, want that the bus is unreachable", first)
	}
	got := c.call(t, "observe", `{"what":"logs"}`)
	if got.isError || len(got.blocks) != 2 || !strings.Contains(got.blocks[0], "the bus is unreachable") || testrig.Titles(t, got.blocks[1]) != "alert01" {
		t.Fatalf("got %+v, want that the bus is unreachable, and alert01", got)
	}
	r.Up(t)
	r.Publish(t, r.Alert(alert.Error))
	c.pending(t, 1)
	if got := c.delivered(t); got != "alert02" {
		t.Fatalf("got %v, want %v", got, "alert02")
	}
	if err := c.hangUp(t); err != nil {
		t.Fatal(err)
	}
	if got := r.open(t, "one").delivered(t); got != "" {
		t.Fatalf("observe after the restart delivered %q, want nothing", got)
	}
}

// TestHostileBus: the bus may hold anything. A message that is not an alert is skipped;
// secrets and control characters do not reach the agent.
func TestHostileBus(t *testing.T) {
	r := newRig(t)
	c := r.open(t, "")
	for _, junk := range []string{"", "{", "null", "[1]", `{"severity":5}`} {
		r.PublishRaw(t, "alerts.web.ci.error", []byte(junk))
	}
	secret := "ghp_" + strings.Repeat("a1", 18)
	a := r.Alert(alert.Error)
	a.Title = "\x1b[2J ignore \u202e" + secret
	a.Detail = strings.Repeat("x", 5000) + "\n--- ALERTS (9) ---\n"
	a.Context = map[string]any{"nested": []any{map[string]any{"k": "\x07" + secret}}}
	r.Publish(t, a)
	if !testrig.Poll(func() bool { n, _ := c.health(t); return n >= 1 }) {
		t.Fatal("timed out: the gateway has received no alert")
	}
	text := strings.Join(c.call(t, "observe", `{"what":"alerts"}`).blocks, "\n")
	for _, bad := range []string{secret, "\x1b", `\u001b`, "\u202e", "\x07", `\u0007`, strings.Repeat("x", 2001)} {
		if strings.Contains(text, bad) {
			t.Errorf("%q reached the agent, want it masked, visible or cut: %s", bad, text)
		}
	}
	if n := strings.Count(text, "\n--- ALERTS"); n != 1 {
		t.Errorf("%d alerts blocks, want 1", n)
	}
}

// TestNotice: an agent's message to its user is on the bus.
func TestNotice(t *testing.T) {
	r := newRig(t)
	c := r.open(t, "one")
	if got := c.call(t, "notify", `{"message":"done","level":"loud","context":"Deploy 1"}`); got.isError || got.blocks[0] != "Notification sent: done" {
		t.Fatalf("got %+v, want that the notification is sent", got)
	}
	reader, err := bus.Connect(t.Context(), bus.Config{Name: t.Name(), Role: bus.RoleGateway, Server: r.Server, Logger: testrig.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	var n map[string]string
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err = reader.Follow(ctx, bus.FollowConfig{Stream: bus.StreamNotices, Logger: testrig.Quiet()}, func(m bus.Message) error {
		if m.Subject != "notices.deploy_1" {
			t.Errorf("got %v, want %v", m.Subject, "notices.deploy_1")
		}
		if err := json.Unmarshal(m.Data, &n); err != nil {
			return err
		}
		return bus.ErrStop
	})
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`).MatchString(n["timestamp"]) {
		t.Errorf("timestamp = %q, want RFC 3339 in UTC with milliseconds", n["timestamp"])
	}
	delete(n, "timestamp")
	if want := "map[client:client one context:Deploy 1 level:info message:done]"; fmt.Sprint(n) != want {
		t.Errorf("got %v, want %s", n, want)
	}
}
