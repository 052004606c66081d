package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tocsin-bus/tocsin/services/gateway/internal/testrig"
	"github.com/tocsin-bus/tocsin/services/gateway/kubernetes"
	"github.com/tocsin-bus/tocsin/services/gateway/mcpserver"
	"github.com/tocsin-bus/tocsin/shared/bus"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of these tests.
const patience = testrig.Patience

// rig is a bus with gateways on it.
type rig struct {
	*testrig.Bus
	// protocol is that of the gateways that dial starts.
	protocol mcpserver.Protocol
	// kubernetes is the configuration of those and of the ones on HTTP.
	kubernetes kubernetes.Config
}

func newRig(t *testing.T) *rig {
	t.Helper()
	return &rig{Bus: testrig.New(t)}
}

// client is an MCP client that sees every byte.
type client struct {
	in    *io.PipeWriter
	lines chan string
	done  chan error
	stop  context.CancelFunc
	ids   int
}

// message is one that the gateway writes.
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
		err := mcpserver.ServeStdio(ctx, mcpserver.Config{
			Bus: bus.Config{Dir: r.Dir}, Client: name, Dir: "/work", Protocol: r.protocol, Kubernetes: r.kubernetes, Stdin: stdin, Stdout: stdout, Version: "1.2.3", Logger: testrig.Quiet(),
		})
		stop()
		_ = stdout.Close()
		c.done <- err
	}()
	go func() {
		defer close(c.lines)
		scan(out, c.lines)
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

// scan hands over the lines of a reader until it ends.
func scan(r io.Reader, lines chan<- string) {
	scan := bufio.NewScanner(r)
	scan.Buffer(nil, 4<<20)
	for scan.Scan() {
		lines <- scan.Text()
	}
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
		case <-c.lines: // read its last messages
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
			t.Fatal("the gateway ended, want a message")
		}
		m := message{raw: line}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("decode the message %s: %v", line, err)
		}
		return m
	case <-time.After(patience):
		t.Fatalf("got no message within %s", patience)
		return message{}
	}
}

// ask sends a request and returns its answer. No notification may come before.
func (c *client) ask(t *testing.T, method, params string) message {
	t.Helper()
	id := c.send(t, method, params)
	m := c.next(t)
	if m.ID != id {
		t.Fatalf("got %s, want the answer %d to %s", m.raw, id, method)
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
		t.Fatalf("the result of %s (%v) has structured content or can't be decoded", m.raw, err)
	}
	out := result{isError: r.IsError}
	for _, b := range r.Content {
		if b.Type != "text" {
			t.Fatalf("a block has the type %s, want text", b.Type)
		}
		out.blocks = append(out.blocks, b.Text)
	}
	return out
}

func (c *client) call(t *testing.T, tool, args string) result {
	t.Helper()
	return c.ask(t, "tools/call", `{"name":"`+tool+`","arguments":`+args+`}`).tool(t)
}

// health returns how many alerts the inbox has received and holds.
func (c *client) health(t *testing.T) (received, pending int) {
	t.Helper()
	var h struct {
		Inbox struct{ Received, Pending int } `json:"inbox"`
	}
	text := c.call(t, "configure", `{"action":"health"}`).blocks[0]
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		t.Fatalf("decode the health %s: %v", text, err)
	}
	return h.Inbox.Received, h.Inbox.Pending
}

// pending waits until the inbox holds n alerts.
func (c *client) pending(t *testing.T, n int) {
	t.Helper()
	var got int
	if !testrig.Poll(func() bool { _, got = c.health(t); return got == n }) {
		t.Fatalf("%d alerts are pending, want %d", got, n)
	}
}

// delivered observes and returns the titles of the alerts block.
func (c *client) delivered(t *testing.T) string {
	t.Helper()
	r := c.call(t, "observe", `{}`)
	if len(r.blocks) < 2 {
		return ""
	}
	return testrig.Titles(t, r.blocks[1])
}
