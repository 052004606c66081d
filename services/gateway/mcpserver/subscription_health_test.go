package mcpserver_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/kube"
)

// TestSubscriptionHealth: a client is notified once that nothing can come, and once that it
// does again.
func TestSubscriptionHealth(t *testing.T) {
	r := newRig(t)
	k := r.startKubewatch(t)
	k.renew(t, "dev", kube.Watch{Degraded: true, Error: "connection refused \x1b[0m"})
	c := r.open(t, "")
	s := c.follow(t, `{"namespaces":["shop"]}`)
	if !s.Degraded || !strings.Contains(s.Note, "connection refused ␛[0m") {
		t.Errorf("got %+v, want it degraded, with the reason", s)
	}
	watch := func(degraded bool) {
		t.Helper()
		w := &kube.Watch{Degraded: degraded}
		if degraded {
			w.Error = "5 tries failed"
		}
		k.publish(t, "", &kube.Message{Cluster: "dev", Watch: w})
	}
	notified := func(level string, degraded bool, why string) {
		t.Helper()
		if p := c.push(t); p.Logger != "kubernetes/subscription_error" || p.Level != level || p.Data.Degraded != degraded || p.Data.Error != why || p.Data.SubscriptionID != s.SubscriptionID || p.Data.Cluster != "dev" {
			t.Errorf("got %+v, want level %s, degraded %v, error %q", p, level, degraded, why)
		}
	}
	watch(true) // as it was
	watch(false)
	notified("info", false, "")
	watch(true)
	watch(true)
	notified("error", true, "5 tries failed")
	watch(false)
	notified("info", false, "")
	// Nothing watches it any more.
	k.release(t, "dev")
	notified("error", true, "no kubewatch watches this cluster any more")
	again := c.follow(t, `{"cluster":"dev","namespaces":["bank"]}`)
	if !again.Degraded || !strings.Contains(again.Note, "no kubewatch") {
		t.Errorf("got %+v, want it degraded for want of a kubewatch", again)
	}
	c.call(t, "events_unsubscribe", `{"subscriptionId":"`+again.SubscriptionID+`"}`)
	k.keepRenewing(t, "dev")
	notified("info", false, "")
}

// TestSubscriptionHealthThatTheStreamLacks: where the stream has no message about the
// watch, the kubewatch's own record counts. It is reported once, masked and visible.
func TestSubscriptionHealthThatTheStreamLacks(t *testing.T) {
	r := newRig(t)
	k := r.startKubewatch(t)
	const name = "d\x1b[31mev"
	var watch atomic.Pointer[kube.Watch]
	watch.Store(&kube.Watch{})
	k.renew(t, name, *watch.Load())
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	kv, done := k.bucket(t), make(chan struct{})
	go func() { // as a kubewatch does all the time
		defer close(done)
		tick := time.NewTicker(bus.KubewatchTTL / 10)
		defer tick.Stop()
		for ctx.Err() == nil {
			data, _ := json.Marshal(kube.Leader{Cluster: name, ID: "k1", Watch: *watch.Load()})
			_, _ = kv.Put(ctx, "dev", data) // the end ends it
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	}()
	defer func() { stop(); <-done }()
	c := r.open(t, "")
	s := c.follow(t, `{"namespaces":["shop"]}`)
	watch.Store(&kube.Watch{Degraded: true, Error: "Get https://u:hunter2@example.com: \x1b[0m" + strings.Repeat("z", 1000)})
	p := c.push(t)
	if p.Level != "error" || !p.Data.Degraded || p.Data.SubscriptionID != s.SubscriptionID || !strings.HasPrefix(p.Data.Error, "Get https://[REDACTED:url_credentials]@example.com: ␛[0mz") {
		t.Errorf("got %+v, want it degraded, with the masked reason", p)
	}
	again := c.follow(t, `{"namespaces":["bank"]}`)
	if !again.Degraded || !strings.Contains(again.Note, "[REDACTED:url_credentials]") {
		t.Errorf("got %+v, want it degraded, with the masked reason", again)
	}
	for tool, args := range map[string]string{"events_list_subscriptions": `{}`, "configure": `{"action":"health"}`, "events_subscribe": `{"cluster":"x","type":"Normal"}`} {
		text := c.call(t, tool, args).blocks[0]
		if strings.Contains(text, "hunter2") || strings.Contains(text, "u001b") || !strings.Contains(text, "d␛[31mev") || len(text) > 4000 {
			t.Errorf("%s: got %s, want the visible name and no secret", tool, text)
		}
	}
	watch.Store(&kube.Watch{})
	recovered := map[string]bool{}
	for range 2 {
		if p := c.push(t); p.Data.Degraded || recovered[p.Data.SubscriptionID] {
			t.Errorf("got %+v, want each subscription to recover once", p)
		} else {
			recovered[p.Data.SubscriptionID] = true
		}
	}
}
