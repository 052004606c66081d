package agents

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// host is an MCP client that speaks JSON-RPC and knows MCP's Events extension, which
// the SDK does not.
type host struct {
	mcp.Connection
	// meta identifies the client in each request of a protocol without initialize.
	meta string
	ids  int
}

// connect starts a gateway and, if the version of the protocol has it, sends
// initialize.
func connect(t *testing.T, b *harness.Bus, version string) *host {
	t.Helper()
	cmd := exec.Command(e2etest.Binary(t), "gateway", "--autostart=false", "--client", "host", "--protocol", "latest")
	cmd.Env, cmd.Dir = harness.Env(b.StateDir), b.StateDir
	log := &harness.Log{}
	cmd.Stderr = log
	c, err := (&mcp.CommandTransport{Command: cmd}).Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h := &host{Connection: c}
	t.Cleanup(func() {
		_ = h.Close() // the second time if the test closed it
		e2etest.CheckLog(t, log)
	})
	if version == "2026-07-28" {
		h.meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"h","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/events":{}}}},`
		h.declared(t, h.ask(t, "server/discover", ``))
		return h
	}
	h.declared(t, h.ask(t, "initialize", fmt.Sprintf(`"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"h","version":"1"}`, version)))
	h.notify(t, "notifications/initialized", ``)
	return h
}

func (h *host) declared(t *testing.T, result json.RawMessage) {
	t.Helper()
	if !strings.Contains(string(result), `"extensions":{"io.modelcontextprotocol/events":{}}`) {
		t.Fatalf("result = %s, want the events extension declared", result)
	}
}

func (h *host) write(t *testing.T, r *jsonrpc.Request, members string) {
	t.Helper()
	r.Params = json.RawMessage("{" + strings.TrimSuffix(h.meta+members, ",") + "}")
	if err := h.Write(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

func (h *host) notify(t *testing.T, method, members string) {
	t.Helper()
	h.write(t, &jsonrpc.Request{Method: method}, members)
}

func (h *host) send(t *testing.T, method, members string) (id int) {
	t.Helper()
	h.ids++
	jid, err := jsonrpc.MakeID(float64(h.ids))
	if err != nil {
		t.Fatal(err)
	}
	h.write(t, &jsonrpc.Request{ID: jid, Method: method}, members)
	return h.ids
}

// next waits for the next message of the gateway.
func (h *host) next(t *testing.T, within time.Duration) jsonrpc.Message {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	m, err := h.Read(ctx)
	if err != nil {
		t.Fatalf("no message: %v", err)
	}
	return m
}

// ask returns the result of a request. No other message may arrive before it.
func (h *host) ask(t *testing.T, method, members string) json.RawMessage {
	t.Helper()
	id := h.send(t, method, members)
	m := h.next(t, 20*time.Second)
	r, ok := m.(*jsonrpc.Response)
	if !ok || fmt.Sprint(r.ID.Raw()) != fmt.Sprint(id) || r.Error != nil {
		t.Fatalf("%s: got %+v, want Raw %v and Error nil", method, m, fmt.Sprint(id))
	}
	return r.Result
}

type occurrence struct {
	EventID, Cursor string
	Data            alert.Alert
	Meta            map[string]json.RawMessage `json:"_meta"`
}

// note waits for the next notification, which has to be of this method and stream.
func (h *host) note(t *testing.T, stream int, method string, within time.Duration) occurrence {
	t.Helper()
	m := h.next(t, within)
	r, ok := m.(*jsonrpc.Request)
	if !ok || r.Method != "notifications/events/"+method {
		t.Fatalf("got %+v, want notifications/events/%s", m, method)
	}
	var o occurrence
	if err := json.Unmarshal(r.Params, &o); err != nil || string(o.Meta["io.modelcontextprotocol/subscriptionId"]) != fmt.Sprint(stream) {
		t.Fatalf("%v: got %s, want Meta[\"io.modelcontextprotocol/subscriptionId\"] %v", err, r.Params, fmt.Sprint(stream))
	}
	return o
}

const alertRaised = `"name":"alert.raised","arguments":{"severity_min":"error"},`

// poll polls until n alerts have arrived, and returns their commits and the cursor.
func (h *host) poll(t *testing.T, cursor string, n int) (commits, next string) {
	t.Helper()
	var all []string
	enough := func() bool {
		var p struct {
			Events []occurrence
			Cursor string
		}
		if err := json.Unmarshal(h.ask(t, "events/poll", alertRaised+`"cursor":`+cursor), &p); err != nil {
			t.Fatal(err)
		}
		for _, o := range p.Events {
			all = append(all, commitOf(o))
		}
		cursor = `"` + p.Cursor + `"`
		return len(all) >= n
	}
	if !harness.Poll(t.Context(), 20*time.Second, enough) {
		t.Fatalf("timed out: got %d alerts, want %d", len(all), n)
	}
	return strings.Join(all, " "), cursor
}

func commitOf(o occurrence) string {
	commit, _ := o.Data.Context["commit"].(string)
	return commit
}

// TestMCPEvents runs the Events extension in a version of the protocol with initialize
// and in one without: by poll over a restart of the gateway, and by push with a
// heartbeat and a cancellation. None of it takes an alert from the inbox.
func TestMCPEvents(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel() // each waits for a heartbeat
			sys := &e2etest.System{Bus: e2etest.Up(t)}
			fail := func(commit string) {
				sys.PostCI(t, map[string]any{"status": "failure", "commit": commit, "ref": "main", "name": "build"})
			}
			h := connect(t, sys.Bus, version)
			if list := string(h.ask(t, "events/list", ``)); !strings.Contains(list, `"delivery":["poll","push"]`) {
				t.Errorf("got %s, want \"\\\"delivery\\\":[\\\"poll\\\",\\\"push\\\"]\" in it", list)
			}
			_, from := h.poll(t, "null", 0)
			fail("c1")
			got, from := h.poll(t, from, 1)
			if got != "c1" {
				t.Errorf("polled %q, want \"c1\"", got)
			}

			if err := h.Close(); err != nil {
				t.Error(err)
			}
			fail("c2")
			h = connect(t, sys.Bus, version)
			if got, from = h.poll(t, from, 1); got != "c2" {
				t.Errorf("poll after the gateway's restart = %q, want c2", got)
			}
			if got, _ := h.poll(t, from, 0); got != "" {
				t.Errorf("the next poll = %q, want nothing", got)
			}

			id := h.send(t, "events/stream", alertRaised+`"cursor":`+from)
			h.note(t, id, "active", 20*time.Second)
			fail("c3")
			o := h.note(t, id, "event", 20*time.Second)
			if commitOf(o) != "c3" || o.EventID != o.Data.ID {
				t.Errorf("pushed %+v, want commitOf(o) \"c3\" and EventID %v", o, o.Data.ID)
			}
			if beat := h.note(t, id, "heartbeat", 40*time.Second); beat.Cursor != o.Cursor {
				t.Errorf("the heartbeat's cursor = %q, want %q", beat.Cursor, o.Cursor)
			}
			h.notify(t, "notifications/cancelled", fmt.Sprintf(`"requestId":%d,`, id))
			if r, ok := h.next(t, 20*time.Second).(*jsonrpc.Response); !ok || fmt.Sprint(r.ID.Raw()) != fmt.Sprint(id) {
				t.Errorf("got %+v after the cancellation, want the end of stream %d", r, id)
			}
			fail("c4")
			if got, _ := h.poll(t, `"`+o.Cursor+`"`, 1); got != "c4" {
				t.Errorf("poll from the stream's cursor = %q, want c4", got)
			}
			h.checkObserved(t, "c4", "c3", "c2", "c1")
		})
	}
}

// checkObserved checks that observe returns the failures of these commits.
func (h *host) checkObserved(t *testing.T, commits ...string) {
	t.Helper()
	var r mcp.CallToolResult
	if err := json.Unmarshal(h.ask(t, "tools/call", `"name":"observe","arguments":{},`), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Content) != 2 {
		t.Fatalf("%d blocks, want 2 entries in Content", len(r.Content))
	}
	block, ok := r.Content[1].(*mcp.TextContent)
	if !ok {
		t.Fatalf("the second block has the type %T, want text", r.Content[1])
	}
	for _, c := range commits {
		if !strings.Contains(block.Text, `"`+c+`"`) {
			t.Errorf("the alerts block = %s, want the commit %s in it", block.Text, c)
		}
	}
}
