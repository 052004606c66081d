package mcpevents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// timeout bounds every wait of these tests.
const timeout = 20 * time.Second

// client is a JSON-RPC client of a server with the extension.
type client struct {
	mcp.Connection
	m        *fakeSource
	notes    chan string
	stopping chan struct{}
	ids      int
}

func dial(t *testing.T) *client {
	t.Helper()
	c := &client{m: newFakeSource(), notes: make(chan string, 1000), stopping: make(chan struct{})}
	caps := &mcp.ServerCapabilities{}
	Declare(caps)
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ServerOptions{Capabilities: caps})
	err := Register(s, Config{Source: c.m, Stopping: c.stopping, Writer: func(context.Context) func([]byte) error {
		return func(l []byte) error { c.notes <- string(l); return nil }
	}})
	if err != nil {
		t.Fatal(err)
	}
	near, far := mcp.NewInMemoryTransports()
	session, err := s.Connect(t.Context(), stamping{far}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.Connection, err = near.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		_ = session.Wait()
	})
	c.ask(t, "initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}`)
	c.notify(t, "notifications/initialized", `{}`)
	return c
}

// stamping is a transport that sets subscription ids, as a gateway's does.
type stamping struct{ mcp.Transport }

func (s stamping) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := s.Transport.Connect(ctx)
	return stamped{c}, err
}

type stamped struct{ mcp.Connection }

func (s stamped) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := s.Connection.Read(ctx)
	if r, ok := m.(*jsonrpc.Request); ok {
		SetSubscriptionID(r)
	}
	return m, err
}

func (c *client) notify(t *testing.T, method, params string) {
	t.Helper()
	if err := c.Write(t.Context(), &jsonrpc.Request{Method: method, Params: json.RawMessage(params)}); err != nil {
		t.Fatal(err)
	}
}

func (c *client) send(t *testing.T, method, params string) (id string) {
	t.Helper()
	c.ids++
	id = fmt.Sprint("s", c.ids)
	jid, err := jsonrpc.MakeID(id)
	if err == nil {
		err = c.Write(t.Context(), &jsonrpc.Request{ID: jid, Method: method, Params: json.RawMessage(params)})
	}
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// answer returns the next response.
func (c *client) answer(t *testing.T) *jsonrpc.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	m, err := c.Read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	r, ok := m.(*jsonrpc.Response)
	if !ok {
		t.Fatalf("message = %+v, want a response", m)
	}
	return r
}

func (c *client) ask(t *testing.T, method, params string) *jsonrpc.Response {
	t.Helper()
	c.send(t, method, params)
	return c.answer(t)
}

// note returns the next notification, which must have the method.
func (c *client) note(t *testing.T, method string) string {
	t.Helper()
	select {
	case l := <-c.notes:
		if !strings.HasPrefix(l, `{"jsonrpc":"2.0","method":"`+method+`"`) {
			t.Fatalf("notification = %s, want %s", l, method)
		}
		return l
	case <-time.After(timeout):
		t.Fatalf("no notification within %s, want %s", timeout, method)
		return ""
	}
}

func TestRefusals(t *testing.T) {
	c := dial(t)
	for _, r := range []struct {
		method, params, text, data string
		code                       int64
	}{
		{methodList, `{"cursor":"next"}`, "cursor must be", ``, -32602},
		{methodPoll, `{"name":"alert.lowered"}`, "events/list has the names", `{"kind":"event"}`, -32023},
		{methodStream, `{"name":"alert.lowered"}`, "events/list has the names", `{"kind":"event"}`, -32023},
		{methodPoll, `{"name":"alert.raised","cursor":5}`, "", ``, -32602},
		{methodPoll, `{"name":"alert.raised","maxEvents":0}`, "maxEvents must be at least 1", ``, -32602},
		{methodPoll, `{"name":"alert.raised","maxAgeMs":-1}`, "maxAgeMs must be between 0 and", ``, -32602},
		{methodPoll, `{"name":"alert.raised","arguments":{"severity_min":"high"}}`, "arguments.severity_min must be one of", ``, -32602},
		{methodStream, `{"name":"alert.raised","arguments":{"colour":"red"}}`, "unknown argument colour", ``, -32602},
		{methodSubscribe, `{"name":"alert.raised","delivery":{"mode":"webhook","url":"https://x.example"}}`, "not delivered by webhook", `{"feature":"deliveryMode","value":"webhook"}`, -32026},
		{methodSubscribe, `{"name":"alert.lowered"}`, "events/list has the names", `{"kind":"event"}`, -32023},
		{methodUnsubscribe, `{"name":"alert.raised"}`, "no such subscription", `{"kind":"subscription"}`, -32023},
	} {
		var e *jsonrpc.Error
		if err := c.ask(t, r.method, r.params).Error; !errors.As(err, &e) || e.Code != r.code || !strings.Contains(e.Message, r.text) || string(e.Data) != r.data {
			t.Errorf("%s %s: error = %+v, want code %d, data %s and %q in it", r.method, r.params, err, r.code, r.data, r.text)
		}
	}
	if r := c.ask(t, methodPoll, ``); r.Error == nil {
		t.Errorf("a poll without parameters: result = %s, want an error", r.Result)
	}
}

func TestListAndPoll(t *testing.T) {
	c := dial(t)
	for _, params := range []string{``, `{}`, `{"cursor":null}`} {
		if r := c.ask(t, methodList, params); r.Error != nil || !strings.Contains(string(r.Result), `"name":"alert.raised"`) {
			t.Errorf("events/list %s: %+v, want the event alert.raised", params, r)
		}
	}
	var got pollResult
	poll := func(params string) {
		t.Helper()
		r := c.ask(t, methodPoll, params)
		got = pollResult{}
		if err := json.Unmarshal(r.Result, &got); r.Error != nil || err != nil {
			t.Fatal(r.Error, err)
		}
	}
	c.m.add(testAlert("before"))
	poll(`{"name":"alert.raised","arguments":{},"cursor":null}`)
	if len(got.Events) != 0 || got.ResultType != "complete" || got.NextPollMs != 5000 {
		t.Errorf("first poll = %+v, want complete, without events, and a pause of 5000 ms", got)
	}
	c.m.add(testAlert("A"))
	poll(`{"name":"alert.raised","cursor":"` + got.Cursor + `"}`)
	if ids(got.Events) != "A" || got.HasMore || got.Truncated {
		t.Errorf("second poll = %+v, want the event A, no more, not truncated", got)
	}
}

func TestStream(t *testing.T) {
	c := dial(t)
	c.m.add(testAlert("before"))
	id := c.send(t, methodStream, `{"name":"alert.raised","cursor":null,"_meta":{"io.modelcontextprotocol/subscriptionId":"forged"}}`)
	routed := `"_meta":{"io.modelcontextprotocol/subscriptionId":"` + id + `"}`
	if l := c.note(t, notificationActive); !strings.Contains(l, routed) || !strings.Contains(l, `"truncated":false`) {
		t.Errorf("active = %s, want %s, not truncated", l, routed)
	}
	c.m.add(testAlert("A"))
	if l := c.note(t, notificationEvent); !strings.Contains(l, routed) || !strings.Contains(l, `"eventId":"A"`) {
		t.Errorf("event = %s, want A with %s", l, routed)
	}
	c.notify(t, "notifications/cancelled", `{"requestId":"`+id+`"}`)
	if r := c.answer(t); r.ID.Raw() != id {
		t.Errorf("response to %v, want one to %s", r.ID.Raw(), id)
	}
	c.m.add(testAlert("B"))
	if r := c.ask(t, "ping", `{}`); r.Error != nil || len(c.notes) > 0 {
		t.Errorf("ping after the stream ended: error %v and %d notifications, want none", r.Error, len(c.notes))
	}
}

func TestStreamsAreCounted(t *testing.T) {
	c := dial(t)
	var streams []string
	for range MaxStreams {
		streams = append(streams, c.send(t, methodStream, `{"name":"alert.raised"}`))
		c.note(t, notificationActive)
	}
	var e *jsonrpc.Error
	if err := c.ask(t, methodStream, `{"name":"alert.raised"}`).Error; !errors.As(err, &e) || e.Code != -32025 || string(e.Data) != `{"limit":"subscriptions","max":8}` {
		t.Errorf("one stream too many: error = %+v, want code -32025 with the limit", err)
	}
	c.notify(t, "notifications/cancelled", `{"requestId":"`+streams[3]+`"}`)
	c.answer(t)
	c.send(t, methodStream, `{"name":"alert.raised"}`)
	c.note(t, notificationActive)
	close(c.stopping)
	for range MaxStreams {
		r := c.answer(t)
		want := fmt.Sprintf(`{"_meta":{"io.modelcontextprotocol/subscriptionId":%q},"resultType":"complete"}`, r.ID.Raw())
		if r.Error != nil || string(r.Result) != want {
			t.Errorf("end of a stream: error %v, result %s, want %s", r.Error, r.Result, want)
		}
	}
}

func TestSetSubscriptionID(t *testing.T) {
	for in, want := range map[string]string{
		``:                               `{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}`,
		`{"a":[1, 2],"_meta":{"b":"<"}}`: `{"_meta":{"b":"\u003c","io.modelcontextprotocol/subscriptionId":1},"a":[1,2]}`,
		`{"_meta":5}`:                    `{"_meta":5}`,
		`{"_meta":null}`:                 `{"_meta":null}`,
		`null`:                           `null`,
		`[1]`:                            `[1]`,
	} {
		id, err := jsonrpc.MakeID(float64(1))
		if err != nil {
			t.Fatal(err)
		}
		r := &jsonrpc.Request{ID: id, Method: methodStream, Params: json.RawMessage(in)}
		if SetSubscriptionID(r); string(r.Params) != want {
			t.Errorf("parameters %s of events/stream become %s, want %s", in, r.Params, want)
		}
		r = &jsonrpc.Request{ID: id, Method: methodPoll, Params: json.RawMessage(in)}
		if SetSubscriptionID(r); string(r.Params) != in {
			t.Errorf("parameters %s of events/poll become %s, want no change", in, r.Params)
		}
	}
}

func FuzzSetSubscriptionIDInBody(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"events/stream","params":{"_meta":{"a":1}}}`,
		`{"jsonrpc":"2.0","id":"x","method":"events/stream"}`, `{"jsonrpc":"2.0","method":"events/stream"}`,
		`[{"jsonrpc":"2.0","id":1,"method":"events/stream"}]`, `"events/stream"`, ``,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		before, err := jsonrpc.DecodeMessage(body)
		out := SetSubscriptionIDInBody(body)
		r, ok := before.(*jsonrpc.Request)
		if err != nil || !ok || r.Method != methodStream {
			if string(out) != string(body) {
				t.Errorf("body %s becomes %s, want no change", body, out)
			}
			return
		}
		after, err := jsonrpc.DecodeMessage(out)
		if err != nil {
			t.Fatalf("body %s becomes %s, which can't be decoded: %v", body, out, err)
		}
		if s, ok := after.(*jsonrpc.Request); !ok || s.ID != r.ID || s.Method != r.Method {
			t.Errorf("body %s becomes %s, want the same id and method", body, out)
		}
	})
}
