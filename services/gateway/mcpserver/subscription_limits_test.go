package mcpserver_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tocsin-bus/tocsin/services/gateway/internal/testrig"
	"github.com/tocsin-bus/tocsin/services/gateway/kubernetes"
	"github.com/tocsin-bus/tocsin/services/gateway/mcpserver"
)

// TestSubscriptionsOnStdioAreBounded: by ten, unless the setting is another.
func TestSubscriptionsOnStdioAreBounded(t *testing.T) {
	r := newRig(t)
	k := r.startKubewatch(t, "dev")
	c := r.open(t, "")
	var last string
	for range 10 {
		last = c.follow(t, `{"namespaces":["shop"]}`).SubscriptionID
	}
	if why := c.fails(t, "events_subscribe", `{"namespaces":["shop"]}`); !strings.Contains(why, "10 subscriptions") || !strings.Contains(why, "--max-subscriptions-per-session") {
		t.Errorf("got %v, want it with %q and with %q", why, "10 subscriptions", "--max-subscriptions-per-session")
	}
	c.call(t, "events_unsubscribe", `{"subscriptionId":"`+last+`"}`)
	c.follow(t, `{"namespaces":["bank"]}`)
	// After another initialize none of those before are left, and there is room for ten.
	c.initialize(t, "2025-06-18")
	k.publishEvent(t, "dev", "shop")
	for range 10 {
		c.follow(t, `{"namespaces":["bank"]}`)
	}
}

// TestSubscriptionLimits: over HTTP all sessions share one limit, and each has its own. The
// subscriptions of a session that ends free their places at once.
func TestSubscriptionLimits(t *testing.T) {
	r := newRig(t)
	r.startKubewatch(t, "dev")
	r.kubernetes.Limits = kubernetes.Limits{PerSession: 2, Global: 3}
	url := r.serve(t, mcpserver.Compatible, mcpserver.HTTPConfig{})
	a, _ := join(t, url)
	b, _ := join(t, url)
	ids := map[*mcp.ClientSession][]string{}
	subscribe := func(s *mcp.ClientSession) (why string) {
		t.Helper()
		text, failed := called(t, s, "events_subscribe", map[string]any{"namespaces": []string{"shop"}})
		if failed {
			return text
		}
		var reply subscriptionReply
		if err := json.Unmarshal([]byte(text), &reply); err != nil {
			t.Fatalf("got %v, want a subscription", text)
		}
		ids[s] = append(ids[s], reply.SubscriptionID)
		return ""
	}
	for _, s := range []*mcp.ClientSession{a, a, b} {
		if why := subscribe(s); why != "" {
			t.Fatalf("got %v, want nothing", why)
		}
	}
	if why := subscribe(a); !strings.Contains(why, "this session has 2 subscriptions") || !strings.Contains(why, "--max-subscriptions-per-session") {
		t.Errorf("got %v, want it with %q and with %q", why, "this session has 2 subscriptions", "--max-subscriptions-per-session")
	}
	if why := subscribe(b); !strings.Contains(why, "have 3 subscriptions") || !strings.Contains(why, "--max-subscriptions-global") {
		t.Errorf("got %v, want it with %q and with %q", why, "have 3 subscriptions", "--max-subscriptions-global")
	}
	// Those of another client can't be ended or seen.
	if text, failed := called(t, b, "events_unsubscribe", map[string]any{"subscriptionId": ids[a][0]}); !failed || !strings.Contains(text, "not found") {
		t.Errorf("got %v, want that it is not found", text)
	}
	if text, _ := called(t, b, "events_list_subscriptions", nil); strings.Contains(text, ids[a][0]) || !strings.Contains(text, ids[b][0]) {
		t.Errorf("got %v, want it without %q and with %q", text, ids[a][0], ids[b][0])
	}
	if text, failed := called(t, b, "events_unsubscribe", map[string]any{"subscriptionId": ids[b][0]}); failed {
		t.Errorf("got %v, want no error", text)
	}
	if why := subscribe(b); why != "" {
		t.Errorf("got %v, want nothing", why)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if !testrig.Poll(func() bool { return subscribe(b) == "" }) {
		t.Error("timed out: another session is still refused after the end of one")
	}
	if why := subscribe(b); !strings.Contains(why, "--max-subscriptions-per-session") {
		t.Errorf("got %v, want %q in it", why, "--max-subscriptions-per-session")
	}
	c, _ := join(t, url)
	if why := subscribe(c); why != "" {
		t.Errorf("got %v, want nothing", why)
	}
	if why := subscribe(c); !strings.Contains(why, "--max-subscriptions-global") {
		t.Errorf("got %v, want %q in it", why, "--max-subscriptions-global")
	}
}

// called calls a tool, and reports whether that failed.
func called(t *testing.T, s *mcp.ClientSession, name string, arguments map[string]any) (text string, failed bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	result, err := s.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		t.Fatal(err)
	}
	return result.Content[0].(*mcp.TextContent).Text, result.IsError
}
