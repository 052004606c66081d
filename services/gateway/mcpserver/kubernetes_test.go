package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/services/gateway/internal/testrig"
	"github.com/tocsin-bus/tocsin/services/gateway/kubernetes"
	"github.com/tocsin-bus/tocsin/services/gateway/mcpserver"
	"github.com/tocsin-bus/tocsin/services/gateway/namespaces"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/kube"
	"github.com/tocsin-bus/tocsin/shared/query"
)

// watcher is on the bus in place of a kubewatch: it says that it watches clusters, and what
// they say.
type watcher struct {
	rig  *rig
	conn *bus.Session
	n    int
}

func (r *rig) watcher(t *testing.T, clusters ...string) *watcher {
	t.Helper()
	k := &watcher{rig: r, conn: r.Join(t, bus.RoleKubewatch)}
	for _, name := range clusters {
		k.lead(t, name, kube.Watch{})
	}
	return k
}

func (k *watcher) bucket(t *testing.T) jetstream.KeyValue {
	t.Helper()
	kv, err := k.conn.JS.KeyValue(t.Context(), bus.BucketKubewatch)
	if err != nil {
		t.Fatal(err)
	}
	return kv
}

// lead renews the place of the active kubewatch.
func (k *watcher) lead(t *testing.T, cluster string, w kube.Watch) {
	t.Helper()
	data, err := json.Marshal(kube.Leader{Cluster: cluster, ClusterUID: "uid-" + cluster, ID: "k1", Watch: w})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.bucket(t).Put(t.Context(), bus.Token(cluster), data); err != nil {
		t.Fatal(err)
	}
}

// stay renews the places until the end of the test.
func (k *watcher) stay(t *testing.T, clusters ...string) {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	kv := k.bucket(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(bus.KubewatchTTL / 4)
		defer tick.Stop()
		for {
			for _, name := range clusters {
				data, _ := json.Marshal(kube.Leader{Cluster: name, ID: "k1"})
				_, _ = kv.Put(ctx, bus.Token(name), data) // the bus may be away
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	t.Cleanup(func() { stop(); <-done })
}

// gone gives a place up.
func (k *watcher) gone(t *testing.T, cluster string) {
	t.Helper()
	if err := k.bucket(t).Delete(t.Context(), bus.Token(cluster)); err != nil {
		t.Fatal(err)
	}
}

func (k *watcher) say(t *testing.T, id string, m *kube.Message) {
	t.Helper()
	data, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	msg := nats.NewMsg(bus.KubernetesSubject(m))
	msg.Data = data
	if id != "" {
		msg.Header.Set(nats.MsgIdHdr, id)
	}
	if _, err := k.conn.JS.PublishMsg(ctx, msg); err != nil {
		t.Fatal(err)
	}
}

// event is like no other: its message counts.
func (k *watcher) event(cluster, namespace string) *kube.Message {
	k.n++
	return &kube.Message{Cluster: cluster, ClusterUID: "uid-" + cluster, Event: &kube.Event{
		Namespace: namespace, Timestamp: time.Date(2025, 1, 15, 12, 34, 56, 0, time.UTC), Type: kube.TypeWarning, Reason: "BackOff",
		Message: fmt.Sprintf("event %d", k.n), Labels: map[string]string{"app": "web"},
		InvolvedObject: kube.Object{APIVersion: "v1", Kind: "Pod", Name: "web-1", Namespace: namespace},
		Name:           "web-1.1", UID: fmt.Sprint(k.n), ResourceVersion: fmt.Sprint(k.n),
	}}
}

func (k *watcher) fault(cluster, namespace string) *kube.Message {
	m := k.event(cluster, namespace)
	m.Fault = &kube.Fault{ID: fmt.Sprintf("f%d", k.n), Kind: kube.CrashLoop, State: kube.StateFiring, LogsFollow: true}
	return m
}

// happens publishes an event and returns its message.
func (k *watcher) happens(t *testing.T, cluster, namespace string) string {
	t.Helper()
	m := k.event(cluster, namespace)
	k.say(t, cluster+"/"+m.Event.UID+"/"+m.Event.ResourceVersion, m)
	return m.Event.Message
}

// pushed is a notification of a subscription.
type pushed struct {
	Level, Logger string
	Data          struct {
		SubscriptionID, Cluster, FaultID, Error string
		Event                                   struct{ Message, Namespace string }
		LogsFollow, Degraded                    bool
		Logs                                    []struct {
			Container, Sample string
			HasPanic          bool
		}
	}
}

func readPushed(t *testing.T, params json.RawMessage) pushed {
	t.Helper()
	var p pushed
	if err := json.Unmarshal(params, &p); err != nil {
		t.Fatalf("%v: %s", err, params)
	}
	return p
}

// push is the next message, which has to be of Kubernetes.
func (c *client) push(t *testing.T) pushed {
	t.Helper()
	m := c.next(t)
	if m.Method != "notifications/message" || !strings.Contains(m.raw, `"logger":"kubernetes/`) {
		t.Fatal(m.raw)
	}
	return readPushed(t, m.Params)
}

// hears waits for an event of that message.
func (c *client) event(t *testing.T, id, message string) {
	t.Helper()
	if p := c.push(t); p.Data.SubscriptionID != id || p.Data.Event.Message != message {
		t.Fatalf("%+v, not %s of %s", p, message, id)
	}
}

// answer is the answer to a call, whatever is pushed before.
func (c *client) answer(t *testing.T, tool, args string) (r result, before []pushed) {
	t.Helper()
	id := c.send(t, "tools/call", `{"name":"`+tool+`","arguments":`+args+`}`)
	for {
		m := c.next(t)
		if m.ID == id {
			return m.tool(t), before
		}
		before = append(before, readPushed(t, m.Params))
	}
}

type subscriptionReply struct {
	SubscriptionID, Cluster, Mode, Note string
	Filters                             map[string]any
	Degraded                            bool
}

func (c *client) follow(t *testing.T, args string) subscriptionReply {
	t.Helper()
	r := c.call(t, "events_subscribe", args)
	var reply subscriptionReply
	if err := json.Unmarshal([]byte(r.blocks[0]), &reply); r.isError || err != nil || !strings.HasPrefix(reply.SubscriptionID, "sub-") {
		t.Fatalf("%v", r.blocks)
	}
	return reply
}

// fails is the error that a call answers with.
func (c *client) fails(t *testing.T, tool, args string) string {
	t.Helper()
	r := c.call(t, tool, args)
	if !r.isError {
		t.Fatalf("%s %s is not refused: %v", tool, args, r.blocks)
	}
	return r.blocks[0]
}

func (c *client) tools(t *testing.T) []string {
	t.Helper()
	var list struct{ Tools []struct{ Name string } }
	m := c.ask(t, "tools/list", `{}`)
	if err := json.Unmarshal(m.Result, &list); err != nil {
		t.Fatal(m.raw)
	}
	if len(m.raw) > 8<<10 {
		t.Errorf("tools/list has %d bytes", len(m.raw))
	}
	names := []string{}
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	return names
}

func TestKubernetesTools(t *testing.T) {
	r := newRig(t)
	c := r.open(t, "")
	if names := c.tools(t); slices.Contains(names, "events_subscribe") {
		t.Fatalf("without a kubewatch: %v", names)
	}
	if why := c.fails(t, "events_subscribe", `{"type":"Warning"}`); !strings.Contains(why, "no Kubernetes cluster is watched: start tocsin kubewatch") {
		t.Error(why)
	}
	k := r.watcher(t, "dev")
	if m := c.next(t); m.Method != "notifications/tools/list_changed" {
		t.Fatal(m.raw)
	}
	names := c.tools(t)
	for _, want := range []string{"events_subscribe", "events_unsubscribe", "events_list_subscriptions", "observe"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not among %v", want, names)
		}
	}
	// One that begins now has them in its first list.
	if names := r.open(t, "other").tools(t); !slices.Contains(names, "events_subscribe") {
		t.Errorf("the first list is %v", names)
	}
	k.gone(t, "dev")
	if !testrig.Poll(func() bool {
		return strings.Contains(c.call(t, "events_list_subscriptions", `{}`).blocks[0], "no Kubernetes cluster is watched")
	}) {
		t.Error("that the kubewatch is gone is not said")
	}
	if names := c.tools(t); !slices.Contains(names, "events_subscribe") {
		t.Errorf("after the kubewatch has gone: %v", names)
	}
}

func TestSubscribe(t *testing.T) {
	r := newRig(t)
	k := r.watcher(t, "dev")
	c := r.open(t, "")
	k.happens(t, "dev", "shop") // of the past

	events := c.follow(t, `{"namespaces":["shop","shop","bank"],"labelSelector":"app = web","mode":"","type":""}`)
	if got, _ := json.Marshal(events.Filters); events.Mode != "events" || events.Cluster != "dev" || events.Degraded || events.Note != "" ||
		string(got) != `{"labelSelector":"app=web","namespaces":["bank","shop"]}` {
		t.Errorf("%+v", events)
	}
	faults := c.follow(t, `{"cluster":"dev","namespaces":["shop"],"mode":"faults"}`)

	first := k.happens(t, "dev", "shop")
	c.event(t, events.SubscriptionID, first)
	k.happens(t, "dev", "secret")
	k.happens(t, "prod", "shop")
	twice := k.event("dev", "shop")
	k.say(t, "", twice)
	k.say(t, "", twice)
	c.event(t, events.SubscriptionID, twice.Event.Message)

	f := k.fault("dev", "shop")
	f.Event.Message = "token ghp_0123456789abcdefghijABCDEFGHIJ012345 \x1b[31m\nnext"
	k.say(t, f.Fault.ID+"firing", f)
	p := c.push(t)
	if p.Level != "warning" || p.Logger != "kubernetes/faults" || p.Data.SubscriptionID != faults.SubscriptionID || p.Data.FaultID != f.Fault.ID || !p.Data.LogsFollow || p.Data.Logs != nil {
		t.Errorf("%+v", p)
	}
	if strings.Contains(p.Data.Event.Message, "ghp_") || strings.ContainsAny(p.Data.Event.Message, "\x1b\n") {
		t.Errorf("%q", p.Data.Event.Message)
	}
	f.Logs = []kube.Log{{Container: "web", HasPanic: true, Sample: "panic: x\n\tmain.go:1\n"}}
	k.say(t, f.Fault.ID+"/logs", f)
	if p := c.push(t); p.Data.FaultID != f.Fault.ID || p.Data.LogsFollow || len(p.Data.Logs) != 1 || !p.Data.Logs[0].HasPanic || p.Data.Logs[0].Sample != "panic: x\n\tmain.go:1\n" {
		t.Errorf("%+v", p)
	}
	f.Fault.State = kube.StateOver
	k.say(t, f.Fault.ID+"over", f)
	k.say(t, "", &kube.Message{Cluster: "dev", Watch: &kube.Watch{}}) // as good as ever
	last := k.happens(t, "dev", "shop")
	c.event(t, events.SubscriptionID, last)

	var list struct {
		Subscriptions []struct {
			SubscriptionID, Mode string
			Delivered, Dropped   int
			Degraded             bool
		}
	}
	if !testrig.Poll(func() bool {
		if err := json.Unmarshal([]byte(c.call(t, "events_list_subscriptions", `{}`).blocks[0]), &list); err != nil {
			t.Fatal(err)
		}
		return len(list.Subscriptions) == 2 && list.Subscriptions[0].Delivered == 3 && list.Subscriptions[1].Delivered == 2
	}) {
		t.Errorf("%+v", list)
	}
	if s := list.Subscriptions[0]; s.SubscriptionID != events.SubscriptionID || s.Mode != "events" || s.Dropped != 0 || s.Degraded {
		t.Errorf("%+v", s)
	}
	if text := c.call(t, "configure", `{"action":"health"}`).blocks[0]; !strings.Contains(text, `"kubernetes":{"clusters":["dev"],"subscriptions":2,"degraded":0}`) {
		t.Error(text)
	}
	all := r.present(t, func(all []query.Health) bool { return len(all) == 1 })
	if all[0].Gateway.Subscriptions != 2 {
		t.Errorf("%+v", all[0].Gateway)
	}
	if r := c.call(t, "events_unsubscribe", `{"subscriptionId":"`+events.SubscriptionID+`"}`); r.isError || r.blocks[0] != `{"cancelled":true}` {
		t.Errorf("%v", r)
	}
	if why := c.fails(t, "events_unsubscribe", `{"subscriptionId":"`+events.SubscriptionID+`"}`); !strings.Contains(why, "not found") {
		t.Error(why)
	}
}

func TestSubscribeRefuses(t *testing.T) {
	r := newRig(t)
	r.watcher(t, "dev", "prod/eu")
	c := r.open(t, "")
	for args, want := range map[string]string{
		`{"type":"Warning"}`:                                "cluster must be one that is watched: dev, prod/eu",
		`{"cluster":"stage","type":"Warning"}`:              "cluster must be one that is watched: dev, prod/eu",
		`{"cluster":"prod_eu","type":"Warning"}`:            "cluster must be one that is watched: dev, prod/eu",
		`{"cluster":"dev"}`:                                 "namespaces must name at least one",
		`{"cluster":"dev","mode":"all"}`:                    "mode must be one of events, faults",
		`{"cluster":"dev","type":"Bad"}`:                    "type must be one of Normal, Warning",
		`{"cluster":"dev","namespaces":"shop"}`:             "namespaces must be a list",
		`{"cluster":"dev","namespaces":["A/B"]}`:            "namespaces must be a list",
		`{"cluster":"dev","labelSelector":"app in web"}`:    "labelSelector must be a label selector",
		`{"cluster":"dev","kind":"Pod"}`:                    "kind is no argument: allowed are cluster, mode, namespaces",
		`{"cluster":"dev","mode":"faults","type":"Normal"}`: "type must be Warning",
	} {
		if why := c.fails(t, "events_subscribe", args); !strings.Contains(why, want) {
			t.Errorf("%s: %s", args, why)
		}
	}
	if why := c.fails(t, "events_unsubscribe", `{}`); !strings.Contains(why, "subscriptionId must be") {
		t.Error(why)
	}
	if text := c.call(t, "events_list_subscriptions", `{}`).blocks[0]; text != `{"subscriptions":[],"clusters":["dev","prod/eu"]}` {
		t.Error(text)
	}
	if why := c.fails(t, "events_list_subscriptions", `{"cluster":"dev"}`); why != "cluster is no argument: allowed are none" {
		t.Error(why)
	}
}

// TestSubscriptionHealth: a client hears once that nothing can come, and once that it
// does again.
func TestSubscriptionHealth(t *testing.T) {
	r := newRig(t)
	k := r.watcher(t)
	k.lead(t, "dev", kube.Watch{Degraded: true, Error: "connection refused \x1b[0m"})
	c := r.open(t, "")
	s := c.follow(t, `{"namespaces":["shop"]}`)
	if !s.Degraded || !strings.Contains(s.Note, "connection refused ␛[0m") {
		t.Errorf("%+v", s)
	}
	watch := func(degraded bool) {
		t.Helper()
		w := &kube.Watch{Degraded: degraded}
		if degraded {
			w.Error = "5 tries failed"
		}
		k.say(t, "", &kube.Message{Cluster: "dev", Watch: w})
	}
	hears := func(level string, degraded bool, why string) {
		t.Helper()
		if p := c.push(t); p.Logger != "kubernetes/subscription_error" || p.Level != level || p.Data.Degraded != degraded || p.Data.Error != why || p.Data.SubscriptionID != s.SubscriptionID || p.Data.Cluster != "dev" {
			t.Errorf("%+v", p)
		}
	}
	watch(true) // as it was
	watch(false)
	hears("info", false, "")
	watch(true)
	watch(true)
	hears("error", true, "5 tries failed")
	watch(false)
	hears("info", false, "")
	// Nobody watches it any more.
	k.gone(t, "dev")
	hears("error", true, "no kubewatch watches this cluster any more")
	again := c.follow(t, `{"cluster":"dev","namespaces":["bank"]}`)
	if !again.Degraded || !strings.Contains(again.Note, "no kubewatch") {
		t.Errorf("%+v", again)
	}
	c.call(t, "events_unsubscribe", `{"subscriptionId":"`+again.SubscriptionID+`"}`)
	k.stay(t, "dev")
	hears("info", false, "")
}

// TestSubscriptionHealthThatTheStreamDoesNotTell: what a kubewatch says of itself holds
// where the stream's word on it is missing, and is told once, as fit as all else.
func TestSubscriptionHealthThatTheStreamDoesNotTell(t *testing.T) {
	r := newRig(t)
	k := r.watcher(t)
	const name = "d\x1b[31mev"
	var watch atomic.Pointer[kube.Watch]
	watch.Store(&kube.Watch{})
	k.lead(t, name, *watch.Load())
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	kv, done := k.bucket(t), make(chan struct{})
	go func() { // as it does all the time
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
		t.Errorf("%+v", p)
	}
	again := c.follow(t, `{"namespaces":["bank"]}`)
	if !again.Degraded || !strings.Contains(again.Note, "[REDACTED:url_credentials]") {
		t.Errorf("%+v", again)
	}
	for tool, args := range map[string]string{"events_list_subscriptions": `{}`, "configure": `{"action":"health"}`, "events_subscribe": `{"cluster":"x","type":"Normal"}`} {
		text := c.call(t, tool, args).blocks[0]
		if strings.Contains(text, "hunter2") || strings.Contains(text, "u001b") || !strings.Contains(text, "d␛[31mev") || len(text) > 4000 {
			t.Errorf("%s: %s", tool, text)
		}
	}
	watch.Store(&kube.Watch{})
	told := map[string]bool{}
	for range 2 {
		if p := c.push(t); p.Data.Degraded || told[p.Data.SubscriptionID] {
			t.Errorf("%+v", p)
		} else {
			told[p.Data.SubscriptionID] = true
		}
	}
}

// TestSubscriptionLevels: a client's own level counts, and is told of.
func TestSubscriptionLevels(t *testing.T) {
	r := newRig(t)
	k := r.watcher(t, "dev")
	c := r.open(t, "")
	c.ask(t, "logging/setLevel", `{"level":"warning"}`)
	events := c.follow(t, `{"namespaces":["shop"]}`)
	if !strings.Contains(events.Note, "logging/setLevel to info") {
		t.Errorf("%+v", events)
	}
	faults := c.follow(t, `{"namespaces":["shop"],"mode":"faults"}`)
	if faults.Note != "" {
		t.Errorf("%+v", faults)
	}
	k.happens(t, "dev", "shop")
	k.say(t, "", k.fault("dev", "shop"))
	if p := c.push(t); p.Data.SubscriptionID != faults.SubscriptionID {
		t.Errorf("%+v", p)
	}
	if !testrig.Poll(func() bool {
		return strings.Contains(c.call(t, "events_list_subscriptions", `{}`).blocks[0], `"delivered":0,"withheld":1`)
	}) {
		t.Error("what is withheld is not counted")
	}
	c.ask(t, "logging/setLevel", `{"level":"error"}`)
	if s := c.follow(t, `{"namespaces":["shop"],"mode":"faults"}`); !strings.Contains(s.Note, "logging/setLevel to warning") {
		t.Errorf("%+v", s)
	}
	// A client that begins anew has neither level nor subscriptions.
	c.initialize(t, "2025-11-25")
	if s := c.follow(t, `{"namespaces":["shop"]}`); s.Note != "" {
		t.Errorf("%+v", s)
	}
	last := k.happens(t, "dev", "shop")
	if p := c.push(t); p.Data.Event.Message != last {
		t.Errorf("%+v", p)
	}
}

// TestSubscriptionOfAProtocolWithoutPushes: it is told that nothing comes, and nothing
// does.
func TestSubscriptionOfAProtocolWithoutPushes(t *testing.T) {
	r := newRig(t)
	r.protocol = mcpserver.Latest
	k := r.watcher(t, "dev")
	c := r.dial(t, "")
	call := func(tool, args string) string {
		t.Helper()
		return c.ask(t, "tools/call", `{"name":"`+tool+`","arguments":`+args+`,`+meta+`}`).tool(t).blocks[0]
	}
	if text := call("events_subscribe", `{"namespaces":["shop"]}`); !strings.Contains(text, "2026-07-28 forbids unsolicited messages") {
		t.Error(text)
	}
	k.happens(t, "dev", "shop")
	if !testrig.Poll(func() bool { return strings.Contains(call("events_list_subscriptions", `{}`), `"withheld":1`) }) {
		t.Error(call("events_list_subscriptions", `{}`))
	}
}

// TestUnsubscribeUnderLoad: at 1,000 events a second nothing comes after the answer.
func TestUnsubscribeUnderLoad(t *testing.T) {
	r := newRig(t)
	k := r.watcher(t, "dev")
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
				t.Fatalf("%+v", p)
			}
		}
		answer, before := c.answer(t, "events_unsubscribe", `{"subscriptionId":"`+s+`"}`)
		if answer.isError {
			t.Fatal(answer.blocks)
		}
		for _, p := range before {
			if p.Data.SubscriptionID != s {
				t.Fatalf("%+v", p)
			}
		}
		at := published.Load()
		if !testrig.Poll(func() bool { return published.Load() > at+30 }) {
			t.Fatal("nothing more is published")
		}
		if m := c.ask(t, "ping", `{}`); m.Error != nil { // no notification before
			t.Fatal(m.raw)
		}
	}
	if published.Load() == 0 {
		t.Error("nothing was published")
	}
}

// followUnder subscribes while others come.
func (c *client) followUnder(t *testing.T, args string) string {
	t.Helper()
	r, before := c.answer(t, "events_subscribe", args)
	if len(before) > 0 {
		t.Fatalf("before the answer: %+v", before)
	}
	var reply subscriptionReply
	if err := json.Unmarshal([]byte(r.blocks[0]), &reply); err != nil {
		t.Fatal(r.blocks)
	}
	return reply.SubscriptionID
}

// TestSubscriptionOfAClientThatDoesNotRead: it waits on the bus, what else the client
// asks is answered once it reads again, and nothing is lost.
func TestSubscriptionOfAClientThatDoesNotRead(t *testing.T) {
	r := newRig(t)
	k := r.watcher(t, "dev")
	c := r.open(t, "")
	s := c.follow(t, `{"namespaces":["shop"]}`)
	// The client has room for 1,000 lines.
	const all = 1500
	k.burst(t, "dev", "shop", all)
	if !testrig.Poll(func() bool { return len(c.lines) == cap(c.lines) }) {
		t.Fatal("the client has room yet")
	}
	for i := 1; i <= all; i++ {
		c.event(t, s.SubscriptionID, fmt.Sprintf("event %d", i))
	}
	if text := c.call(t, "events_list_subscriptions", `{}`).blocks[0]; !strings.Contains(text, `"dropped":0`) {
		t.Error(text)
	}
}

// TestUnsubscribeOfAClientThatDoesNotRead: where it reads nothing more, and ends, what
// it asked last is no failure of the gateway.
func TestUnsubscribeOfAClientThatDoesNotRead(t *testing.T) {
	r := newRig(t)
	k := r.watcher(t, "dev")
	c := r.open(t, "")
	s := c.follow(t, `{"namespaces":["shop"]}`)
	k.burst(t, "dev", "shop", 1500)
	if !testrig.Poll(func() bool { return len(c.lines) == cap(c.lines) }) {
		t.Fatal("the client has room yet")
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
	for range c.lines { // who writes ends
	}
}

// TestSubscriptionThatLostSome: what the bus forgot before the client read is told, and
// counted.
func TestSubscriptionThatLostSome(t *testing.T) {
	r := newRig(t)
	k := r.watcher(t, "dev")
	c := r.open(t, "")
	s := c.follow(t, `{"namespaces":["shop"]}`)
	// Those that the client has room for, that wait in the gateway, and some more.
	const all = 1500
	k.burst(t, "dev", "shop", all)
	if !testrig.Poll(func() bool { return len(c.lines) == cap(c.lines) }) {
		t.Fatal("the client has room yet")
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
	told, next := pushed{}, 1
	for next <= all {
		p := c.push(t)
		switch want := fmt.Sprintf("event %d", next); {
		case p.Data.Error != "":
			if told.Data.Error != "" || p.Level != "error" || p.Logger != "kubernetes/subscription_error" || p.Data.Degraded || !strings.Contains(p.Data.Error, fmt.Sprintf("up to %d messages", all-5-next+1)) {
				t.Fatalf("after event %d: %+v", next-1, p)
			}
			told, next = p, all-4
		case p.Data.Event.Message != want || p.Data.SubscriptionID != s.SubscriptionID:
			t.Fatalf("%+v, not %s", p, want)
		default:
			next++
		}
	}
	if told.Data.Error == "" {
		t.Error("that some are lost is not told")
	}
	if text := c.call(t, "events_list_subscriptions", `{}`).blocks[0]; strings.Contains(text, `"dropped":0`) {
		t.Error(text)
	}
}

// burst publishes many events at once.
func (k *watcher) burst(t *testing.T, cluster, namespace string, n int) {
	t.Helper()
	for range n {
		m := k.event(cluster, namespace)
		data, err := json.Marshal(m)
		if err == nil {
			_, err = k.conn.JS.PublishMsgAsync(&nats.Msg{Subject: bus.KubernetesSubject(m), Data: data})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	<-k.conn.JS.PublishAsyncComplete()
}

// TestSubscriptionsOnStdioAreBounded: by ten, if nothing else is said.
func TestSubscriptionsOnStdioAreBounded(t *testing.T) {
	r := newRig(t)
	k := r.watcher(t, "dev")
	c := r.open(t, "")
	var last string
	for range 10 {
		last = c.follow(t, `{"namespaces":["shop"]}`).SubscriptionID
	}
	if why := c.fails(t, "events_subscribe", `{"namespaces":["shop"]}`); !strings.Contains(why, "10 subscriptions") || !strings.Contains(why, "--max-subscriptions-per-session") {
		t.Error(why)
	}
	c.call(t, "events_unsubscribe", `{"subscriptionId":"`+last+`"}`)
	c.follow(t, `{"namespaces":["bank"]}`)
	// Who begins anew gets nothing of those before, and has all the room again.
	c.initialize(t, "2025-06-18")
	k.happens(t, "dev", "shop")
	for range 10 {
		c.follow(t, `{"namespaces":["bank"]}`)
	}
}

// TestKubernetesFlags: what is set wrongly is said by name.
func TestKubernetesFlags(t *testing.T) {
	for _, tt := range []struct {
		flags kubernetes.Flags
		want  string
	}{
		{kubernetes.Flags{MaxPerSession: 10, MaxGlobal: 100, Namespaces: []string{"shop", "_cluster"}}, ""},
		{kubernetes.Flags{MaxPerSession: 0, MaxGlobal: 100}, "--max-subscriptions-per-session (TOCSIN_MAX_SUBSCRIPTIONS_PER_SESSION) must be between 1 and 10000"},
		{kubernetes.Flags{MaxPerSession: 1, MaxGlobal: 10_001}, "--max-subscriptions-global (TOCSIN_MAX_SUBSCRIPTIONS_GLOBAL) must be between 1 and 10000"},
		{kubernetes.Flags{MaxPerSession: 1, MaxGlobal: 1, Namespaces: []string{"Shop"}}, "--kubernetes-namespaces (TOCSIN_KUBERNETES_NAMESPACES) must be names of namespaces"},
	} {
		err := tt.flags.Validate()
		if got := fmt.Sprint(err); tt.want == "" && err != nil || !strings.HasPrefix(got, tt.want) && tt.want != "" {
			t.Errorf("%+v: %v", tt.flags, err)
		}
	}
}

// TestSubscriptionsLeaveNothing: neither one that was ended nor those of a client that
// is gone have a consumer on the bus.
func TestSubscriptionsLeaveNothing(t *testing.T) {
	r := newRig(t)
	k := r.watcher(t, "dev")
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
	k.happens(t, "dev", "shop")
	c.push(t)
	consumers(1)
	if err := c.hangUp(t); err != nil {
		t.Error(err)
	}
	consumers(0)
}

// TestSubscriptionOfAClientThatDoesNotReadItsStream: over HTTP its calls are answered
// all the same, and its end holds up nobody.
func TestSubscriptionOfAClientThatDoesNotReadItsStream(t *testing.T) {
	r := newRig(t)
	k := r.watcher(t, "dev")
	c := r.begin(t, r.serve(t, mcpserver.Compatible, mcpserver.HTTPConfig{}), "deaf")
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
		t.Fatal("all of it is written")
	}
	begun := time.Now()
	if text := c.tool(t, "events_unsubscribe", `{"subscriptionId":"`+id+`"}`); !strings.Contains(text, "cancelled") {
		t.Error(text)
	}
	// A write that is under way is waited for, but not for as long as one may take.
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("answered after %s", took)
	}
	if text := c.tool(t, "events_list_subscriptions", `{}`); !strings.Contains(text, `"subscriptions":[]`) {
		t.Error(text)
	}
}

// TestSubscriptionsSurviveTheBus: what comes while the bus is away to the gateway, or
// is another process, is not missed.
func TestSubscriptionsSurviveTheBus(t *testing.T) {
	r := newRig(t)
	k := r.watcher(t, "dev")
	c := r.open(t, "")
	s := c.follow(t, `{"namespaces":["shop"]}`)
	c.event(t, s.SubscriptionID, k.happens(t, "dev", "shop"))
	r.Down()
	r.Up(t) // at another address
	n := k.n
	k = r.watcher(t, "dev")
	k.n = n
	var want []string
	for range 5 {
		want = append(want, k.happens(t, "dev", "shop"))
	}
	for _, message := range want {
		c.event(t, s.SubscriptionID, message)
	}
}

// TestSubscriptionLimits: over HTTP all sessions share the limit, and each has its own.
// A session that ends gives its places back at once.
func TestSubscriptionLimits(t *testing.T) {
	r := newRig(t)
	r.watcher(t, "dev")
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
			t.Fatal(text)
		}
		ids[s] = append(ids[s], reply.SubscriptionID)
		return ""
	}
	for _, s := range []*mcp.ClientSession{a, a, b} {
		if why := subscribe(s); why != "" {
			t.Fatal(why)
		}
	}
	if why := subscribe(a); !strings.Contains(why, "this session has 2 subscriptions") || !strings.Contains(why, "--max-subscriptions-per-session") {
		t.Error(why)
	}
	if why := subscribe(b); !strings.Contains(why, "have 3 subscriptions") || !strings.Contains(why, "--max-subscriptions-global") {
		t.Error(why)
	}
	// Another's can't be ended, nor seen.
	if text, failed := called(t, b, "events_unsubscribe", map[string]any{"subscriptionId": ids[a][0]}); !failed || !strings.Contains(text, "not found") {
		t.Error(text)
	}
	if text, _ := called(t, b, "events_list_subscriptions", nil); strings.Contains(text, ids[a][0]) || !strings.Contains(text, ids[b][0]) {
		t.Error(text)
	}
	if text, failed := called(t, b, "events_unsubscribe", map[string]any{"subscriptionId": ids[b][0]}); failed {
		t.Error(text)
	}
	if why := subscribe(b); why != "" {
		t.Error(why)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if !testrig.Poll(func() bool { return subscribe(b) == "" }) {
		t.Error("the places of a session that has ended are not free")
	}
	if why := subscribe(b); !strings.Contains(why, "--max-subscriptions-per-session") {
		t.Error(why)
	}
	c, _ := join(t, url)
	if why := subscribe(c); why != "" {
		t.Error(why)
	}
	if why := subscribe(c); !strings.Contains(why, "--max-subscriptions-global") {
		t.Error(why)
	}
}

// called is a call of a tool that may fail.
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

// TestSubscribeOverHTTP: what is said goes to the client's stream, waits for one where
// there is none, and nothing of it comes after it was ended.
func TestSubscribeOverHTTP(t *testing.T) {
	r := newRig(t)
	k := r.watcher(t, "dev")
	url := r.serve(t, mcpserver.Compatible, mcpserver.HTTPConfig{})
	h := r.begin(t, url, "hearer")
	id := h.follow(t, `{"namespaces":["shop"]}`)
	other := h.follow(t, `{"namespaces":["shop"],"reason":"Back"}`)
	// Nobody listens yet.
	var want []string
	for range 3 {
		want = append(want, k.happens(t, "dev", "shop"))
	}
	if text := h.tool(t, "events_unsubscribe", `{"subscriptionId":"`+other+`"}`); !strings.Contains(text, "cancelled") {
		t.Fatal(text)
	}
	lines := h.listen(t)
	for _, message := range want {
		if p := lines.push(t); p.Data.SubscriptionID != id || p.Data.Event.Message != message {
			t.Fatalf("%+v", p)
		}
	}
	if text := h.tool(t, "events_unsubscribe", `{"subscriptionId":"`+id+`"}`); !strings.Contains(text, "cancelled") {
		t.Fatal(text)
	}
	last := h.follow(t, `{"namespaces":["bank"]}`)
	k.happens(t, "dev", "shop")
	message := k.happens(t, "dev", "bank")
	if p := lines.push(t); p.Data.SubscriptionID != last || p.Data.Event.Message != message {
		t.Fatalf("%+v", p)
	}
}

// TestKubernetesToolsOverHTTP: that there are more tools now is also told to a client
// that begins to listen later, until it has asked for them.
func TestKubernetesToolsOverHTTP(t *testing.T) {
	r := newRig(t)
	k := r.watcher(t)
	h := r.begin(t, r.serve(t, mcpserver.Compatible, mcpserver.HTTPConfig{}), "later")
	list := `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`
	if text := h.say(t, http.MethodPost, list); strings.Contains(text, "events_subscribe") || !strings.Contains(text, "observe") {
		t.Fatal(text)
	}
	k.lead(t, "dev", kube.Watch{})
	for range 2 {
		ctx, stop := context.WithCancel(t.Context())
		var stream *http.Response
		if !testrig.Poll(func() bool { // there is one at a time
			stream = h.do(ctx, t, http.MethodGet, "") //nolint:bodyclose // once it is read
			if stream.StatusCode != http.StatusOK {
				_ = stream.Body.Close()
			}
			return stream.StatusCode == http.StatusOK
		}) {
			t.Fatal("no stream")
		}
		scan := bufio.NewScanner(stream.Body)
		end := time.AfterFunc(patience, stop)
		told := false
		for !told && scan.Scan() {
			told = strings.Contains(scan.Text(), "notifications/tools/list_changed")
		}
		if !told {
			t.Error("that there are more tools is not told")
		}
		end.Stop()
		stop()
		_ = stream.Body.Close()
	}
	if text := h.say(t, http.MethodPost, list); !strings.Contains(text, "events_subscribe") {
		t.Error(text)
	}
}

// TestKubernetesNamespaces: a gateway that is limited shows nothing else.
func TestKubernetesNamespaces(t *testing.T) {
	r := newRig(t)
	k := r.watcher(t, "dev")
	var err error
	if r.kubernetes.Namespaces, err = namespaces.New([]string{"shop"}); err != nil {
		t.Fatal(err)
	}
	c := r.open(t, "")
	if why := c.fails(t, "events_subscribe", `{"namespaces":["bank"]}`); !strings.Contains(why, "namespaces must be among those that this gateway shows: shop") {
		t.Error(why)
	}
	s := c.follow(t, `{}`)
	if got := fmt.Sprint(s.Filters["namespaces"]); got != "[shop]" {
		t.Error(got)
	}
	k.happens(t, "dev", "bank")
	k.happens(t, "dev", "")
	c.event(t, s.SubscriptionID, k.happens(t, "dev", "shop"))
}

// tool calls a tool, and returns the text of its answer.
func (c *raw) tool(t *testing.T, name, args string) string {
	t.Helper()
	body := c.say(t, http.MethodPost, `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"`+name+`","arguments":`+args+`}}`)
	_, line, _ := strings.Cut(body, "data: ")
	var m message
	if err := json.Unmarshal([]byte(strings.TrimSpace(line)), &m); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return m.tool(t).blocks[0]
}

func (c *raw) follow(t *testing.T, args string) string {
	t.Helper()
	var reply subscriptionReply
	if text := c.tool(t, "events_subscribe", args); json.Unmarshal([]byte(text), &reply) != nil || reply.SubscriptionID == "" {
		t.Fatal(text)
	}
	return reply.SubscriptionID
}

// listen opens the client's stream until the end of the test. What comes on it goes
// to a client that only hears.
func (c *raw) listen(t *testing.T) *client {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	resp := c.do(ctx, t, http.MethodGet, "") //nolint:bodyclose // at the end of the test
	heard := &client{lines: make(chan string, 1000)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for scan := bufio.NewScanner(resp.Body); scan.Scan(); {
			if line, ok := strings.CutPrefix(scan.Text(), "data: {"); ok {
				heard.lines <- "{" + line
			}
		}
	}()
	t.Cleanup(func() { stop(); <-done; _ = resp.Body.Close() })
	return heard
}
