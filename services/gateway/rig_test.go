package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tocsin-bus/tocsin/services/gateway"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of these tests.
const patience = 20 * time.Second

// rig is a bus that can be taken away, without a detector: the tests publish
// the alerts themselves.
type rig struct {
	dir    statedir.Dir
	lock   *statedir.Lock
	server *bus.Server
	conn   *bus.Conn
	n      int
	// protocol is that of the gateways that are dialled.
	protocol gateway.Protocol
}

func newRig(t *testing.T) *rig {
	t.Helper()
	dir, err := statedir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{dir: dir}
	r.up(t)
	t.Cleanup(r.down)
	return r
}

// up starts the bus, at another address than before.
func (r *rig) up(t *testing.T) {
	t.Helper()
	var err error
	if r.lock, err = r.dir.Lock(); err != nil {
		t.Fatal(err)
	}
	r.server, err = bus.StartServer(t.Context(), bus.ServerConfig{Dir: r.dir, Addr: "127.0.0.1:0", Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	r.conn, err = bus.Connect(t.Context(), bus.ConnConfig{Name: t.Name(), Role: bus.RoleDetector, Server: r.server, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.lock.Announce(statedir.Runtime{PID: 1, NATSURL: r.server.URL()}); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) down() {
	if r.server == nil {
		return
	}
	r.conn.Close()
	r.server.Close()
	_ = r.lock.Release() // a directory that is about to be removed
	r.server = nil
}

// publish writes an alert as a detector does.
func (r *rig) publish(t *testing.T, a alert.Alert) {
	t.Helper()
	data, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	r.publishRaw(t, bus.AlertSubject(a), data)
}

func (r *rig) publishRaw(t *testing.T, subject string, data []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := r.conn.JS.Publish(ctx, subject, data); err != nil {
		t.Fatal(err)
	}
}

// alert makes an alert that is like no other.
func (r *rig) alert(severity alert.Severity) alert.Alert {
	r.n++
	id := fmt.Sprintf("alert%02d", r.n)
	return alert.Alert{
		ID: id, Severity: severity, Category: alert.CI, Title: "CI result " + id, Detail: "1 failed", App: "web",
		Timestamp: time.Date(2026, 1, 28, 14, 30, r.n, 0, time.UTC), Source: alert.SourceCI, DedupKey: "ci:" + id, CorrelationID: id,
	}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// client is an MCP client that sees every byte.
type client struct {
	in    *io.PipeWriter
	lines chan string
	done  chan error
	stop  context.CancelFunc
	ids   int
}

// message is whatever the gateway writes.
type message struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	raw string
}

// dial runs a gateway and ends it with the test.
func (r *rig) dial(t *testing.T, name string) *client {
	t.Helper()
	stdin, in := io.Pipe()
	out, stdout := io.Pipe()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	c := &client{in: in, lines: make(chan string, 1000), done: make(chan error, 1), stop: stop}
	go func() {
		err := gateway.Run(ctx, gateway.Config{
			Bus: bus.ConnConfig{Dir: r.dir}, Client: name, Dir: "/work", Protocol: r.protocol, Stdin: stdin, Stdout: stdout, Version: "1.2.3", Logger: quiet(),
		})
		stop()
		_ = stdout.Close()
		c.done <- err
	}()
	go func() {
		defer close(c.lines)
		scan := bufio.NewScanner(out)
		scan.Buffer(nil, 4<<20)
		for scan.Scan() {
			c.lines <- scan.Text()
		}
	}()
	t.Cleanup(func() {
		if c.in == nil {
			return
		}
		if err := c.hangUp(t); err != nil {
			t.Error(err)
		}
	})
	return c
}

// open dials and initializes.
func (r *rig) open(t *testing.T, name string) *client {
	t.Helper()
	c := r.dial(t, name)
	c.initialize(t, "2025-11-25")
	return c
}

func (c *client) initialize(t *testing.T, version string) message {
	t.Helper()
	m := c.ask(t, "initialize", `{"protocolVersion":"`+version+`","capabilities":{},"clientInfo":{"name":"test","version":"1"}}`)
	c.write(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return m
}

// hangUp closes stdin and waits for the end.
func (c *client) hangUp(t *testing.T) error {
	t.Helper()
	if err := c.in.Close(); err != nil {
		t.Error(err)
	}
	c.in = nil
	for {
		select {
		case <-c.lines: // read what it still has to say
		case err := <-c.done:
			return err
		case <-time.After(patience):
			return errors.New("the gateway does not end")
		}
	}
}

func (c *client) write(t *testing.T, line string) {
	t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		t.Fatal(err)
	}
}

// send sends a request without waiting for its answer.
func (c *client) send(t *testing.T, method, params string) (id int) {
	t.Helper()
	c.ids++
	c.write(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, c.ids, method, params))
	return c.ids
}

// next is the next message.
func (c *client) next(t *testing.T) message {
	t.Helper()
	select {
	case line, ok := <-c.lines:
		if !ok {
			t.Fatal("the gateway has ended")
		}
		m := message{raw: line}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		return m
	case <-time.After(patience):
		t.Fatal("no message")
		return message{}
	}
}

// ask sends a request and returns its answer. No notification may come before.
func (c *client) ask(t *testing.T, method, params string) message {
	t.Helper()
	id := c.send(t, method, params)
	m := c.next(t)
	if m.ID != id {
		t.Fatalf("not the answer to %s: %s", method, m.raw)
	}
	return m
}

// result is a tool's answer.
type result struct {
	blocks  []string
	isError bool
}

func (m message) tool(t *testing.T) result {
	t.Helper()
	var r struct {
		Content           []struct{ Type, Text string } `json:"content"`
		IsError           bool                          `json:"isError"`
		StructuredContent json.RawMessage               `json:"structuredContent"`
	}
	if err := json.Unmarshal(m.Result, &r); err != nil || r.StructuredContent != nil {
		t.Fatalf("%v: %s", err, m.raw)
	}
	out := result{isError: r.IsError}
	for _, b := range r.Content {
		if b.Type != "text" {
			t.Fatalf("a block of type %s", b.Type)
		}
		out.blocks = append(out.blocks, b.Text)
	}
	return out
}

func (c *client) call(t *testing.T, tool, args string) result {
	t.Helper()
	return c.ask(t, "tools/call", `{"name":"`+tool+`","arguments":`+args+`}`).tool(t)
}

// health is what configure says about the inbox.
func (c *client) health(t *testing.T) (received, pending int) {
	t.Helper()
	var h struct {
		Inbox struct{ Received, Pending int } `json:"inbox"`
	}
	text := c.call(t, "configure", `{"action":"health"}`).blocks[0]
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return h.Inbox.Received, h.Inbox.Pending
}

// pending waits until the inbox holds n alerts.
func (c *client) pending(t *testing.T, n int) {
	t.Helper()
	var got int
	if !poll(func() bool { _, got = c.health(t); return got == n }) {
		t.Fatalf("%d alerts are pending, not %d", got, n)
	}
}

// told observes and returns the titles of the alerts block.
func (c *client) told(t *testing.T) string {
	t.Helper()
	r := c.call(t, "observe", `{}`)
	if len(r.blocks) < 2 {
		return ""
	}
	return titles(t, r.blocks[1])
}

func titles(t *testing.T, block string) string {
	t.Helper()
	lines := strings.Split(block, "\n")
	var alerts []alert.Alert
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &alerts); err != nil {
		t.Fatalf("%v: %s", err, block)
	}
	var all []string
	for _, a := range alerts {
		all = append(all, strings.TrimPrefix(a.Title, "CI result "))
	}
	return strings.Join(all, " ")
}

// poll asks until ok says yes, for at most patience.
func poll(ok func() bool) bool {
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			return false
		case <-tick.C:
		}
	}
	return true
}
