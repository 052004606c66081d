package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/services/gateway/internal/testrig"
	"github.com/tocsin-bus/tocsin/services/gateway/mcpserver"
	"github.com/tocsin-bus/tocsin/shared/bus"
)

// TestUnsubscribeUnderLoad: at 1,000 events a second nothing comes after the answer.
func TestUnsubscribeUnderLoad(t *testing.T) {
	r := newRig(t)
	k := r.startKubewatch(t, "dev")
	c := r.open(t, "")
	var published atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			for range 10 {
				m := k.event("dev", "shop")
				data, _ := json.Marshal(m)
				if _, err := k.conn.JS.PublishMsgAsync(&nats.Msg{Subject: bus.KubernetesSubject(m), Data: data}); err != nil {
					t.Error(err)
					return
				}
				published.Add(1)
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
		<-k.conn.JS.PublishAsyncComplete()
	}()
	defer func() { stop(); <-done }()
	for range 10 {
		s := c.followUnder(t, `{"namespaces":["shop"]}`)
		for range 20 {
			if p := c.push(t); p.Data.SubscriptionID != s {
				t.Fatalf("got %+v, want %v", p, s)
			}
		}
		answer, before := c.answer(t, "events_unsubscribe", `{"subscriptionId":"`+s+`"}`)
		if answer.isError {
			t.Fatalf("got %v, want no error", answer.blocks)
		}
		for _, p := range before {
			if p.Data.SubscriptionID != s {
				t.Fatalf("got %+v, want %v", p, s)
			}
		}
		at := published.Load()
		if !testrig.Poll(func() bool { return published.Load() > at+30 }) {
			t.Fatalf("timed out: %d messages are published, want over %d", published.Load(), at+30)
		}
		if m := c.ask(t, "ping", `{}`); m.Error != nil { // no notification before
			t.Fatalf("got %v, want a result", m.raw)
		}
	}
	if published.Load() == 0 {
		t.Error("no message was published, want some")
	}
}

// followUnder subscribes while others come.
func (c *client) followUnder(t *testing.T, args string) string {
	t.Helper()
	r, before := c.answer(t, "events_subscribe", args)
	if len(before) > 0 {
		t.Fatalf("got %+v before the answer, want nothing", before)
	}
	var reply subscriptionReply
	if err := json.Unmarshal([]byte(r.blocks[0]), &reply); err != nil {
		t.Fatalf("got %v, want a subscription", r.blocks)
	}
	return reply.SubscriptionID
}

// TestSubscriptionOfAClientThatDoesNotRead: messages wait on the bus, calls are answered
// once the client reads again, and nothing is lost.
func TestSubscriptionOfAClientThatDoesNotRead(t *testing.T) {
	r := newRig(t)
	k := r.startKubewatch(t, "dev")
	c := r.open(t, "")
	s := c.follow(t, `{"namespaces":["shop"]}`)
	// The client has room for 1,000 lines.
	const all = 1500
	k.burst(t, "dev", "shop", all)
	if !testrig.Poll(func() bool { return len(c.lines) == cap(c.lines) }) {
		t.Fatalf("timed out: the client has %d of %d lines, want it full", len(c.lines), cap(c.lines))
	}
	for i := 1; i <= all; i++ {
		c.event(t, s.SubscriptionID, fmt.Sprintf("event %d", i))
	}
	if text := c.call(t, "events_list_subscriptions", `{}`).blocks[0]; !strings.Contains(text, `"dropped":0`) {
		t.Errorf("got %v, want %q in it", text, `"dropped":0`)
	}
}

// TestUnsubscribeOfAClientThatDoesNotRead: when the client reads nothing more and ends, its
// last call is no failure of the gateway.
func TestUnsubscribeOfAClientThatDoesNotRead(t *testing.T) {
	r := newRig(t)
	k := r.startKubewatch(t, "dev")
	c := r.open(t, "")
	s := c.follow(t, `{"namespaces":["shop"]}`)
	k.burst(t, "dev", "shop", 1500)
	if !testrig.Poll(func() bool { return len(c.lines) == cap(c.lines) }) {
		t.Fatalf("timed out: the client has %d of %d lines, want it full", len(c.lines), cap(c.lines))
	}
	c.send(t, "tools/call", `{"name":"events_unsubscribe","arguments":{"subscriptionId":"`+s.SubscriptionID+`"}}`)
	if err := c.in.Close(); err != nil {
		t.Fatal(err)
	}
	c.in = nil
	select {
	case err := <-c.done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("the gateway does not end")
	}
	for range c.lines { // until the writer has ended
	}
}

// TestSubscriptionThatLostSome: messages that the bus deleted before the client read them
// are reported and counted.
func TestSubscriptionThatLostSome(t *testing.T) {
	r := newRig(t)
	k := r.startKubewatch(t, "dev")
	c := r.open(t, "")
	s := c.follow(t, `{"namespaces":["shop"]}`)
	// As many as the client has room for and as wait in the gateway, and some more.
	const all = 1500
	k.burst(t, "dev", "shop", all)
	if !testrig.Poll(func() bool { return len(c.lines) == cap(c.lines) }) {
		t.Fatalf("timed out: the client has %d of %d lines, want it full", len(c.lines), cap(c.lines))
	}
	r.Down()
	r.Up(t)
	provisioner := r.Join(t, bus.RoleProvisioner)
	stream, err := provisioner.JS.Stream(t.Context(), bus.StreamKubernetes)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context(), jetstream.WithPurgeSequence(all-4)); err != nil {
		t.Fatal(err)
	}
	dropped, next := pushed{}, 1
	for next <= all {
		p := c.push(t)
		switch want := fmt.Sprintf("event %d", next); {
		case p.Data.Error != "":
			if dropped.Data.Error != "" || p.Level != "error" || p.Logger != "kubernetes/subscription_error" || p.Data.Degraded || !strings.Contains(p.Data.Error, fmt.Sprintf("up to %d messages", all-5-next+1)) {
				t.Fatalf("after event %d: got %+v, want one error that counts the deleted messages", next-1, p)
			}
			dropped, next = p, all-4
		case p.Data.Event.Message != want || p.Data.SubscriptionID != s.SubscriptionID:
			t.Fatalf("%+v, not %s", p, want)
		default:
			next++
		}
	}
	if dropped.Data.Error == "" {
		t.Error("got no notification of the deleted messages, want one")
	}
	if text := c.call(t, "events_list_subscriptions", `{}`).blocks[0]; strings.Contains(text, `"dropped":0`) {
		t.Errorf("got %v, want no %q in it", text, `"dropped":0`)
	}
}

// TestSubscriptionsLeaveNothing: neither a subscription that was ended nor those of a
// client that has gone leave a consumer on the bus.
func TestSubscriptionsLeaveNothing(t *testing.T) {
	r := newRig(t)
	k := r.startKubewatch(t, "dev")
	c := r.open(t, "")
	provisioner := r.Join(t, bus.RoleProvisioner)
	consumers := func(want int) {
		t.Helper()
		var got int
		if !testrig.Poll(func() bool {
			stream, err := provisioner.JS.Stream(t.Context(), bus.StreamKubernetes)
			if err != nil {
				t.Fatal(err)
			}
			got = stream.CachedInfo().State.Consumers
			return got == want
		}) {
			t.Errorf("%d consumers, not %d", got, want)
		}
	}
	ended := c.follow(t, `{"namespaces":["shop"]}`).SubscriptionID
	for range 4 {
		c.follow(t, `{"namespaces":["shop"],"mode":"faults"}`)
	}
	consumers(5)
	c.call(t, "events_unsubscribe", `{"subscriptionId":"`+ended+`"}`)
	consumers(4)
	c.initialize(t, "2025-11-25")
	consumers(0)
	c.follow(t, `{"namespaces":["shop"]}`)
	k.publishEvent(t, "dev", "shop")
	c.push(t)
	consumers(1)
	if err := c.hangUp(t); err != nil {
		t.Error(err)
	}
	consumers(0)
}

// TestSubscriptionOfAClientThatDoesNotReadItsStream: over HTTP its calls are answered all
// the same, and its end delays nothing.
func TestSubscriptionOfAClientThatDoesNotReadItsStream(t *testing.T) {
	r := newRig(t)
	k := r.startKubewatch(t, "dev")
	c := r.begin(t, r.serve(t, mcpserver.Compatible, mcpserver.HTTPConfig{}), "slow")
	id := c.follow(t, `{"namespaces":["shop"]}`)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	defer stop()
	stream := c.do(ctx, t, http.MethodGet, "")
	defer func() { _ = stream.Body.Close() }()
	k.burst(t, "dev", "shop", 30_000) // more than fits between the two
	before, same := "", 0
	if !testrig.Poll(func() bool {
		now := c.tool(t, "events_list_subscriptions", `{}`)
		if same++; now != before || strings.Contains(now, `"delivered":0`) {
			before, same = now, 0
		}
		return same == 20
	}) {
		t.Fatalf("timed out: the subscription still delivers, want a blocked write: %s", before)
	}
	start := time.Now()
	if text := c.tool(t, "events_unsubscribe", `{"subscriptionId":"`+id+`"}`); !strings.Contains(text, "cancelled") {
		t.Errorf("got %v, want %q in it", text, "cancelled")
	}
	// It waits for a write that is under way, but not for as long as one may take.
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("the call was answered after %s, want within 5 s", took)
	}
	if text := c.tool(t, "events_list_subscriptions", `{}`); !strings.Contains(text, `"subscriptions":[]`) {
		t.Errorf("got %v, want %q in it", text, `"subscriptions":[]`)
	}
}

// TestSubscriptionsSurviveTheBus: messages from while the gateway can't reach the bus are
// not missed, also when the bus is another process then.
func TestSubscriptionsSurviveTheBus(t *testing.T) {
	r := newRig(t)
	k := r.startKubewatch(t, "dev")
	c := r.open(t, "")
	s := c.follow(t, `{"namespaces":["shop"]}`)
	c.event(t, s.SubscriptionID, k.publishEvent(t, "dev", "shop"))
	r.Down()
	r.Up(t) // at another address
	n := k.n
	k = r.startKubewatch(t, "dev")
	k.n = n
	var want []string
	for range 5 {
		want = append(want, k.publishEvent(t, "dev", "shop"))
	}
	for _, message := range want {
		c.event(t, s.SubscriptionID, message)
	}
}
