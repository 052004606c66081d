package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/kube"
)

// kubewatch stands in for a kubewatch: it publishes which clusters it watches, and their
// messages.
type kubewatch struct {
	rig  *rig
	conn *bus.Session
	n    int
}

func (r *rig) startKubewatch(t *testing.T, clusters ...string) *kubewatch {
	t.Helper()
	k := &kubewatch{rig: r, conn: r.Join(t, bus.RoleKubewatch)}
	for _, name := range clusters {
		k.renew(t, name, kube.Watch{})
	}
	return k
}

func (k *kubewatch) bucket(t *testing.T) jetstream.KeyValue {
	t.Helper()
	kv, err := k.conn.JS.KeyValue(t.Context(), bus.BucketKubewatch)
	if err != nil {
		t.Fatal(err)
	}
	return kv
}

// renew renews the record of the active kubewatch.
func (k *kubewatch) renew(t *testing.T, cluster string, w kube.Watch) {
	t.Helper()
	data, err := json.Marshal(kube.Leader{Cluster: cluster, ClusterUID: "uid-" + cluster, ID: "k1", Watch: w})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.bucket(t).Put(t.Context(), bus.Token(cluster), data); err != nil {
		t.Fatal(err)
	}
}

// keepRenewing renews the records until the end of the test.
func (k *kubewatch) keepRenewing(t *testing.T, clusters ...string) {
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
				_, _ = kv.Put(ctx, bus.Token(name), data) // the bus may be unreachable
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

// release deletes a record, as a kubewatch does at its end.
func (k *kubewatch) release(t *testing.T, cluster string) {
	t.Helper()
	if err := k.bucket(t).Delete(t.Context(), bus.Token(cluster)); err != nil {
		t.Fatal(err)
	}
}

func (k *kubewatch) publish(t *testing.T, id string, m *kube.Message) {
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

// event returns an event with a message of its own.
func (k *kubewatch) event(cluster, namespace string) *kube.Message {
	k.n++
	return &kube.Message{Cluster: cluster, ClusterUID: "uid-" + cluster, Event: &kube.Event{
		Namespace: namespace, Timestamp: time.Date(2025, 1, 15, 12, 34, 56, 0, time.UTC), Type: kube.TypeWarning, Reason: "BackOff",
		Message: fmt.Sprintf("event %d", k.n), Labels: map[string]string{"app": "web"},
		InvolvedObject: kube.Object{APIVersion: "v1", Kind: "Pod", Name: "web-1", Namespace: namespace},
		Name:           "web-1.1", UID: fmt.Sprint(k.n), ResourceVersion: fmt.Sprint(k.n),
	}}
}

func (k *kubewatch) fault(cluster, namespace string) *kube.Message {
	m := k.event(cluster, namespace)
	m.Fault = &kube.Fault{ID: fmt.Sprintf("f%d", k.n), Kind: kube.CrashLoop, State: kube.StateFiring, LogsFollow: true}
	return m
}

// publishEvent publishes an event and returns its message.
func (k *kubewatch) publishEvent(t *testing.T, cluster, namespace string) string {
	t.Helper()
	m := k.event(cluster, namespace)
	k.publish(t, cluster+"/"+m.Event.UID+"/"+m.Event.ResourceVersion, m)
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
		t.Fatalf("decode the notification %s: %v", params, err)
	}
	return p
}

// push returns the next message, which has to be of Kubernetes.
func (c *client) push(t *testing.T) pushed {
	t.Helper()
	m := c.next(t)
	if m.Method != "notifications/message" || !strings.Contains(m.raw, `"logger":"kubernetes/`) {
		t.Fatalf("got %v, want a notification of Kubernetes", m.raw)
	}
	return readPushed(t, m.Params)
}

// event checks that the next message is that event of that subscription.
func (c *client) event(t *testing.T, id, message string) {
	t.Helper()
	if p := c.push(t); p.Data.SubscriptionID != id || p.Data.Event.Message != message {
		t.Fatalf("got %+v, want %s for subscription %s", p, message, id)
	}
}

// answer returns the answer to a call, and what is pushed before.
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
		t.Fatalf("got %v, want it no error and with %q", r.blocks, "sub-")
	}
	return reply
}

// fails returns the error that a call answers with.
func (c *client) fails(t *testing.T, tool, args string) string {
	t.Helper()
	r := c.call(t, tool, args)
	if !r.isError {
		t.Fatalf("%s %s = %v, want an error", tool, args, r.blocks)
	}
	return r.blocks[0]
}

func (c *client) tools(t *testing.T) []string {
	t.Helper()
	var list struct{ Tools []struct{ Name string } }
	m := c.ask(t, "tools/list", `{}`)
	if err := json.Unmarshal(m.Result, &list); err != nil {
		t.Fatalf("got %v, want a list of tools", m.raw)
	}
	if len(m.raw) > 8<<10 {
		t.Errorf("tools/list has %d bytes, want at most %d", len(m.raw), 8<<10)
	}
	names := []string{}
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	return names
}

// burst publishes many events at once.
func (k *kubewatch) burst(t *testing.T, cluster, namespace string, n int) {
	t.Helper()
	for range n {
		m := k.event(cluster, namespace)
		data, err := json.Marshal(m)
		if err == nil {
			_, err = k.conn.JS.PublishMsgAsync(&nats.Msg{Subject: bus.KubernetesSubject(m), Data: data}, jetstream.WithStallWait(patience)) // a busy machine acknowledges slowly
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	<-k.conn.JS.PublishAsyncComplete()
}

// tool calls a tool, and returns the text of its answer.
func (c *raw) tool(t *testing.T, name, args string) string {
	t.Helper()
	body := c.say(t, http.MethodPost, `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"`+name+`","arguments":`+args+`}}`)
	_, line, _ := strings.Cut(body, "data: ")
	var m message
	if err := json.Unmarshal([]byte(strings.TrimSpace(line)), &m); err != nil {
		t.Fatalf("decode the answer %s: %v", body, err)
	}
	return m.tool(t).blocks[0]
}

func (c *raw) follow(t *testing.T, args string) string {
	t.Helper()
	var reply subscriptionReply
	if text := c.tool(t, "events_subscribe", args); json.Unmarshal([]byte(text), &reply) != nil || reply.SubscriptionID == "" {
		t.Fatalf("got %v, want a subscription", text)
	}
	return reply.SubscriptionID
}

// listen opens the client's stream until the end of the test. It returns a client that
// only receives.
func (c *raw) listen(t *testing.T) *client {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	resp := c.do(ctx, t, http.MethodGet, "") //nolint:bodyclose // at the end of the test
	receiver := &client{lines: make(chan string, 1000)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for scan := bufio.NewScanner(resp.Body); scan.Scan(); {
			if line, ok := strings.CutPrefix(scan.Text(), "data: {"); ok {
				receiver.lines <- "{" + line
			}
		}
	}()
	t.Cleanup(func() { stop(); <-done; _ = resp.Body.Close() })
	return receiver
}
