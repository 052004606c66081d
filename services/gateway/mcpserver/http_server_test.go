package mcpserver_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tocsin-bus/tocsin/services/gateway/internal/testrig"
	"github.com/tocsin-bus/tocsin/services/gateway/mcpserver"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
)

// serve runs a gateway on HTTP and ends it with the test.
func (r *rig) serve(t *testing.T, protocol mcpserver.Protocol, httpCfg mcpserver.HTTPConfig) (url string) {
	t.Helper()
	httpCfg.Addr = "127.0.0.1:0"
	ready := make(chan string, 1)
	httpCfg.Ready = func(url string) { ready <- url }
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() {
		done <- mcpserver.ServeHTTP(ctx, mcpserver.Config{
			Bus: bus.Config{Dir: r.Dir}, Protocol: protocol, Kubernetes: r.kubernetes, Version: "1.2.3", Logger: testrig.Quiet(),
		}, httpCfg)
	}()
	t.Cleanup(func() {
		stop()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Error("the gateway does not end")
		}
	})
	select {
	case url := <-ready:
		return url
	case err := <-done:
		t.Fatal(err)
	case <-time.After(patience):
		t.Fatal("the gateway does not start")
	}
	return ""
}

// join connects a client of the SDK over HTTP. messages receives what the server sends
// unsolicited.
func join(t *testing.T, url string) (s *mcp.ClientSession, messages chan *mcp.LoggingMessageParams) {
	t.Helper()
	messages = make(chan *mcp.LoggingMessageParams, 100)
	c := mcp.NewClient(&mcp.Implementation{Name: "twin", Version: "1"}, &mcp.ClientOptions{
		LoggingMessageHandler: func(_ context.Context, r *mcp.LoggingMessageRequest) { messages <- r.Params },
	})
	s, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, messages
}

func tool(t *testing.T, s *mcp.ClientSession, name string, arguments map[string]any) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	result, err := s.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, c := range result.Content {
		blocks = append(blocks, c.(*mcp.TextContent).Text)
	}
	if result.IsError {
		t.Fatalf("%s = %v, want no error", name, blocks)
	}
	return blocks
}

func TestClientsOverHTTPHaveAnInboxEach(t *testing.T) {
	r := newRig(t)
	url := r.serve(t, mcpserver.Compatible, mcpserver.HTTPConfig{})
	a, toA := join(t, url)
	b, toB := join(t, url)
	tool(t, a, "observe", nil)
	tool(t, b, "observe", nil)
	tool(t, a, "configure_streaming", map[string]any{"action": "enable"})

	first := r.Alert(alert.Error)
	r.Publish(t, first)
	for _, s := range []*mcp.ClientSession{a, b} {
		blocks := tool(t, s, "observe", map[string]any{"wait_seconds": 10})
		if len(blocks) != 2 || !strings.Contains(blocks[1], first.ID) {
			t.Errorf("got %v, want it of length %v and with %q", blocks, 2, first.ID)
		}
		if blocks := tool(t, s, "observe", nil); len(blocks) != 1 {
			t.Errorf("delivered twice: got %v, want one block", blocks)
		}
	}
	select {
	case m := <-toA:
		data, _ := json.Marshal(m.Data)
		if !strings.Contains(string(data), first.DedupKey) {
			t.Errorf("got %s, want %q in it", data, first.DedupKey)
		}
	case <-time.After(patience):
		t.Error("timed out: the client that enabled notifications got none")
	}
	if len(toB) != 0 {
		t.Errorf("the other client got %d notifications, want none", len(toB))
	}
}

// TestAClientOverHTTPComesBack: one with a name gets what was raised meanwhile.
func TestAClientOverHTTPComesBack(t *testing.T) {
	for _, protocol := range []mcpserver.Protocol{mcpserver.Compatible, mcpserver.Latest} {
		t.Run(string(protocol), func(t *testing.T) {
			r := newRig(t)
			url := r.serve(t, protocol, mcpserver.HTTPConfig{}) + "?client=anna"
			s, _ := join(t, url)
			tool(t, s, "observe", nil)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			r.Publish(t, r.Alert(alert.Error))
			s, _ = join(t, url)
			if got := s.InitializeResult().ProtocolVersion; (got == "2026-07-28") != (protocol == mcpserver.Latest) {
				t.Errorf("protocol version = %s with --protocol %s, want 2026-07-28 with latest only", got, protocol)
			}
			if blocks := tool(t, s, "observe", map[string]any{"wait_seconds": 5}); len(blocks) != 2 {
				t.Errorf("got %v, want 2 blocks", blocks)
			}
		})
	}
}

func TestClientsAllowedOverHTTP(t *testing.T) {
	r := newRig(t)
	url := r.serve(t, mcpserver.Compatible, mcpserver.HTTPConfig{Token: "s3cret", AllowedOrigins: []string{"https://app.example"}})
	const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	for _, tt := range []struct {
		name   string
		method string
		header []string
		host   string
		body   string
		want   int
	}{
		{name: "a program", want: 200},
		{name: "without the token", header: []string{"Authorization", ""}, want: 401},
		{name: "another token", header: []string{"Authorization", "Bearer x"}, want: 401},
		{name: "its own page", header: []string{"Origin", strings.TrimSuffix(url, "/mcp")}, want: 200},
		{name: "a configured page", header: []string{"Origin", "https://app.example"}, want: 200},
		{name: "a configured page asks first", method: "OPTIONS", header: []string{"Origin", "https://app.example", "Authorization", ""}, want: 204},
		{name: "another page of this machine", header: []string{"Origin", "http://localhost:3000"}, want: 403},
		{name: "a foreign page", header: []string{"Origin", "https://evil.example"}, want: 403},
		{name: "no origin", header: []string{"Origin", "null"}, want: 403},
		{name: "a rebound name", host: "evil.example", want: 403},
		{name: "no session", method: "GET", header: []string{"Mcp-Session-Id", "made-up"}, want: 404},
		{name: "too much", body: strings.Repeat(" ", 4<<20) + initialize, want: 413},
		{name: "no initialize", body: `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, want: 400},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body, method := initialize, "POST"
			if tt.body != "" {
				body = tt.body
			}
			if tt.method != "" {
				method = tt.method
			}
			req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Accept", "application/json, text/event-stream")
			req.Header.Set("Authorization", "Bearer s3cret")
			for i := 0; i < len(tt.header); i += 2 {
				req.Header.Set(tt.header[i], tt.header[i+1])
			}
			if tt.host != "" {
				req.Host = tt.host
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.Body.Close() }()
			text, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != tt.want {
				t.Errorf("%d %s, want %d", resp.StatusCode, text, tt.want)
			}
		})
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestManyClientsOverHTTP: a client for which there is no room is refused, and accepted
// once another has gone.
func TestManyClientsOverHTTP(t *testing.T) {
	r := newRig(t)
	url := r.serve(t, mcpserver.Compatible, mcpserver.HTTPConfig{})
	var all []*mcp.ClientSession
	for range 64 {
		s, _ := join(t, url)
		all = append(all, s)
	}
	c := mcp.NewClient(&mcp.Implementation{Name: "late", Version: "1"}, nil)
	_, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url, MaxRetries: -1}, nil)
	if err == nil {
		t.Fatal("one client more than 64 was accepted, want it refused")
	}
	if err := all[0].Close(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); ; {
		s, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url, MaxRetries: -1}, nil)
		if err == nil {
			_ = s.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}
