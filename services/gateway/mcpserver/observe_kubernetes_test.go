package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/services/gateway/delivery"
	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/services/gateway/internal/testrig"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/kube"
	"github.com/tocsin-bus/tocsin/shared/namespaces"
)

// cluster publishes as the kubewatch of a cluster does.
type cluster struct {
	conn *bus.Session
	kv   jetstream.KeyValue
	n    int
}

func (r *rig) kubewatch(t *testing.T) *cluster {
	t.Helper()
	w := &cluster{conn: r.Join(t, bus.RoleKubewatch)}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var err error
	if w.kv, err = w.conn.JS.KeyValue(ctx, bus.BucketKubewatch); err != nil {
		t.Fatal(err)
	}
	return w
}

// announce publishes that a cluster is watched, and the state of its watch.
func (w *cluster) announce(t *testing.T, name string, watch kube.Watch) {
	t.Helper()
	data, err := json.Marshal(kube.Leader{Cluster: name, ID: "k", Watch: watch})
	if err == nil {
		_, err = w.kv.Put(t.Context(), name, data)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// publish publishes a message of the cluster dev.
func (w *cluster) publish(t *testing.T, m kube.Message) {
	t.Helper()
	w.n++
	m.Cluster = "dev"
	data, err := json.Marshal(m)
	if err == nil {
		_, err = w.conn.JS.Publish(t.Context(), bus.KubernetesSubject(&m), data, jetstream.WithMsgID(fmt.Sprint(w.n)))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// podEvent returns an event of a pod, whose text has a secret.
func podEvent(reason, kind, namespace, app string) kube.Message {
	return kube.Message{Event: &kube.Event{
		Namespace: namespace, Type: kind, Reason: reason, Message: "with ghp_0123456789abcdefghijABCDEFGHIJ012345", Timestamp: time.Date(2026, 1, 28, 14, 30, 0, 0, time.UTC),
		Labels: map[string]string{"app": app}, InvolvedObject: kube.Object{Kind: "Pod", Name: app + "-1", Namespace: namespace},
	}}
}

// kubernetesAnswer is observe's answer about Kubernetes.
type kubernetesAnswer struct {
	Error      string
	Incomplete string
	Kubernetes []struct {
		kube.Message
		Received time.Time
	}
}

func (c *client) observeKubernetes(t *testing.T, more string) (l kubernetesAnswer, reasons string) {
	t.Helper()
	text := c.call(t, "observe", `{"what":"kubernetes"`+more+`}`).blocks[0]
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		t.Fatalf("decode the answer %s: %v", text, err)
	}
	if strings.Contains(text, "ghp_") {
		t.Errorf("got %s, want no secret in it", text)
	}
	if l.Error == "" && !strings.Contains(text, `"kubernetes":[`) {
		t.Errorf("observe = %s, want a list or an error", text)
	}
	var all []string
	for _, m := range l.Kubernetes {
		if time.Since(m.Received).Abs() > time.Hour {
			t.Errorf("received = %s, want now", m.Received)
		}
		reason := m.Event.Reason
		if len(m.Logs) > 0 {
			reason += " with logs"
		}
		all = append(all, reason)
	}
	return l, strings.Join(all, ", ")
}

func (c *client) status(t *testing.T) string {
	t.Helper()
	return c.call(t, "observe", `{}`).blocks[0]
}

func TestObserveKubernetes(t *testing.T) {
	r := newRig(t)
	c := r.open(t, "observer")
	if l, _ := c.observeKubernetes(t, ""); !strings.Contains(l.Error, "start tocsin kubewatch") {
		t.Errorf("observe without a kubewatch = %+v, want the hint to start one", l)
	}
	if text := c.status(t); strings.Contains(text, "kubernetes") {
		t.Errorf("status without a kubewatch = %s, want nothing about Kubernetes", text)
	}
	w := r.kubewatch(t)
	w.announce(t, "dev", kube.Watch{})
	if l, reasons := c.observeKubernetes(t, ""); l.Error != "" || l.Incomplete != "" || reasons != "" {
		t.Errorf("observe before the first message = %+v, want an empty list without an error", l)
	}

	crashed := podEvent("BackOff", kube.TypeWarning, "shop", "web")
	crashed.Fault = &kube.Fault{ID: "f1", Kind: kube.CrashLoop, State: kube.StateFiring, Severity: alert.Error, LogsFollow: true}
	w.publish(t, podEvent("Pulled", kube.TypeNormal, "shop", "web"))
	w.publish(t, crashed)
	w.publish(t, podEvent("FailedMount", kube.TypeWarning, "bank", "db"))
	crashed.Logs = []kube.Log{{Container: "app", Previous: true, HasPanic: true, Sample: "line\npanic: boom\n"}}
	w.publish(t, crashed)
	l, reasons := c.observeKubernetes(t, "")
	if l.Incomplete != "" || reasons != "BackOff with logs, FailedMount, Pulled" {
		t.Fatalf("observe = %s, %+v, want BackOff with logs, FailedMount, Pulled", reasons, l)
	}
	if m := l.Kubernetes[0]; m.Cluster != "dev" || m.Fault.ID != "f1" || m.Logs[0].Sample != "line\npanic: boom\n" || m.Event.Message != "with [REDACTED:github]" || m.Event.Labels["app"] != "web" {
		t.Errorf("got %+v, want fault f1 of dev with its masked texts", m)
	}
	for more, want := range map[string]string{
		`,"limit":1`: "BackOff with logs", `,"severity_min":"error"`: "BackOff with logs", `,"severity_min":"warning"`: "BackOff with logs, FailedMount",
		`,"app":"db"`: "FailedMount", `,"app":"dev"`: "", `,"url":"x"`: "",
	} {
		if _, got := c.observeKubernetes(t, more); got != want {
			t.Errorf("%s: %s, want %s", more, got, want)
		}
	}

	w.announce(t, "dev", kube.Watch{Degraded: true, Error: "forbidden\x1b", Since: time.Date(2026, 1, 28, 14, 30, 0, 0, time.UTC)})
	w.announce(t, "prod", kube.Watch{})
	if l, _ := c.observeKubernetes(t, ""); l.Incomplete != "cluster dev can't be watched now: forbidden␛" {
		t.Errorf("got %s, want %v", l.Incomplete, "cluster dev can't be watched now: forbidden␛")
	}
	const states = `"kubernetes":[{"cluster":"dev","degraded":true,"error":"forbidden␛","since":"2026-01-28T14:30:00Z"},{"cluster":"prod","degraded":false}]`
	if text := c.status(t); !strings.Contains(text, states) {
		t.Errorf("got %s, want %q in it", text, states)
	}
	for _, name := range []string{"dev", "prod"} { // they release their records
		if err := w.kv.Delete(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	if l, reasons := c.observeKubernetes(t, ""); l.Incomplete != "no cluster is watched now: start tocsin kubewatch" || reasons == "" {
		t.Errorf("got %+v, want a note that no cluster is watched", l)
	}
}

// TestObserveManyOfKubernetes: a match may be far back in the stream.
func TestObserveManyOfKubernetes(t *testing.T) {
	r := newRig(t)
	w := r.kubewatch(t)
	w.announce(t, "dev", kube.Watch{})
	w.publish(t, podEvent("First", kube.TypeNormal, "shop", "rare"))
	for i := range 1200 {
		w.publish(t, podEvent(fmt.Sprintf("R%d", i), kube.TypeNormal, "shop", "web"))
	}
	w.publish(t, podEvent("Last", kube.TypeNormal, "shop", "rare"))
	c := r.open(t, "far")
	if _, got := c.observeKubernetes(t, `,"app":"rare"`); got != "Last, First" {
		t.Errorf("got %v, want %v", got, "Last, First")
	}
	if _, got := c.observeKubernetes(t, `,"app":"web","limit":2`); got != "R1199, R1198" {
		t.Errorf("got %v, want %v", got, "R1199, R1198")
	}
}

// kubernetesAlert returns an alert about a fault in a namespace.
func (r *rig) kubernetesAlert(namespace string) alert.Alert {
	a := r.Alert(alert.Error)
	a.Category, a.Source = alert.Kubernetes, alert.SourceKubernetes
	a.DedupKey = "kubernetes:dev:" + namespace + ":Pod/" + a.ID + ":crash"
	a.Context = map[string]any{alert.ClusterKey: "dev", alert.NamespaceKey: namespace, alert.FaultKey: kube.Crash}
	return a
}

// TestNamespacesOfAlerts checks that everything that delivers or shows alerts treats those of
// other namespaces as if they did not exist.
func TestNamespacesOfAlerts(t *testing.T) {
	r := newRig(t)
	var err error
	if r.kubernetes.Namespaces, err = namespaces.New([]string{"shop"}); err != nil {
		t.Fatal(err)
	}
	c := r.open(t, "shop's")
	p, _ := c.pollEvents(t, "null")
	shop, bank := r.kubernetesAlert("shop"), r.kubernetesAlert("bank") // alert01 and alert02
	r.Publish(t, bank)
	r.Publish(t, shop)
	worse := r.kubernetesAlert("bank")
	worse.Revises, worse.DedupKey = bank.ID, bank.DedupKey
	r.Publish(t, worse)
	over := r.kubernetesAlert("bank")
	over.Severity, over.Resolves, over.DedupKey = alert.Info, bank.ID, bank.DedupKey
	r.Publish(t, over)
	c.pending(t, 1)

	if got := c.call(t, "observe", `{"what":"alerts"}`).blocks; len(got) != 2 || testrig.Titles(t, got[1]) != "alert01" || strings.Contains(got[0], "bank") || !strings.Contains(got[0], "alert01") {
		t.Errorf("got %v, want alert01 alone", got)
	}
	if text := c.read(t, "tocsin://alerts"); strings.Contains(text, "bank") || !strings.Contains(text, "alert01") {
		t.Errorf("got %v, want it without %q and with %q", text, "bank", "alert01")
	}
	if m := c.ask(t, "resources/read", `{"uri":"tocsin://alerts/alert02"}`); m.Error == nil || m.Error.Code != -32602 {
		t.Errorf("got %v, want an error with code -32602", m.raw)
	}
	if _, ids := c.pollEvents(t, quoted(p.Cursor)); ids != "alert01" {
		t.Errorf("poll = %s, want alert01", ids)
	}
	if got := c.call(t, "configure", `{"action":"ack","alert_id":"alert02"}`); !got.isError || !strings.Contains(got.blocks[0], "alert_id must be the id of an alert") {
		t.Errorf("got %v, want it an error and with %q", got, "alert_id must be the id of an alert")
	}
	// A client without a limit acknowledges one.
	acked := r.kubernetesAlert("bank")
	r.Publish(t, acked)
	all := (&rig{Bus: r.Bus}).open(t, "all")
	all.pending(t, 3)
	if got := all.call(t, "configure", `{"action":"ack","alert_id":"`+acked.ID+`"}`); got.isError {
		t.Fatalf("ack = %v, want no error", got)
	}
	for _, tt := range []struct {
		c    *client
		acks int
	}{{all, 1}, {c, 0}} {
		if got := tt.c.call(t, "configure", `{"action":"silence_list"}`).blocks[0]; strings.Count(got, acked.ID) != 2*tt.acks {
			t.Errorf("got %v, want %v", got, 2*tt.acks)
		}
	}

	// Notifications: the first is of the alert that may be shown.
	c.call(t, "configure_streaming", `{"action":"enable","events":["kubernetes"],"throttle_seconds":1}`)
	r.Publish(t, r.kubernetesAlert("bank"))
	next := r.kubernetesAlert("shop")
	r.Publish(t, next)
	if m := c.next(t); m.Method != "notifications/message" || !strings.Contains(m.raw, next.ID) || strings.Contains(m.raw, "bank") {
		t.Errorf("got %v, want a notification of %s", m.raw, next.ID)
	}
	c.pending(t, 1)
	if err := c.hangUp(t); err != nil {
		t.Error(err)
	}

	// The other readers of the inbox.
	cfg, err := r.HookConfig("shop's", testrig.Call("PostToolUse"))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Namespaces = r.kubernetes.Namespaces
	if line := string(testrig.Answer(t, cfg)); !strings.Contains(line, next.ID) || strings.Contains(line, "bank") {
		t.Errorf("the hook = %s, want %s and nothing about bank", line, next.ID)
	}
	r.Publish(t, r.kubernetesAlert("bank"))
	last := r.kubernetesAlert("shop")
	r.Publish(t, last)
	block, err := delivery.WaitForAlert(t.Context(), delivery.WaitConfig{
		Bus: bus.Config{Dir: r.Dir}, Inbox: inbox.NamedKey("shop's"), Namespaces: r.kubernetes.Namespaces, Timeout: patience, Logger: testrig.Quiet(),
	})
	if err != nil || testrig.Titles(t, block) != last.ID {
		t.Errorf("wait = %q, %v, want %s", block, err, last.ID)
	}

	// And Kubernetes messages.
	w := r.kubewatch(t)
	w.publish(t, podEvent("Ours", kube.TypeNormal, "shop", "web"))
	w.publish(t, podEvent("Theirs", kube.TypeNormal, "bank", "db"))
	if _, got := r.open(t, "shop's").observeKubernetes(t, ""); got != "Ours" {
		t.Errorf("got %v, want %v", got, "Ours")
	}
}
