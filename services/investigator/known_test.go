package investigator

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/services/investigator/recent"
	"github.com/tocsin-bus/tocsin/services/investigator/session"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/kube"
	"github.com/tocsin-bus/tocsin/shared/redact"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// crash is a fault of a pod with the log of its container.
func crash() kube.Message {
	return kube.Message{
		Cluster: "prod",
		Event: &kube.Event{
			Namespace: "shop", Type: kube.TypeWarning, Reason: "Crash", Message: "container web ended with exit code 2", Labels: map[string]string{"app": "shop"},
			InvolvedObject: kube.Object{Kind: "Pod", Name: "web-7d9f-x1", Namespace: "shop", Container: "web"},
		},
		Fault: &kube.Fault{ID: "f1", Kind: kube.Crash, State: kube.StateFiring, Severity: alert.Error, Workload: "Deployment/web/7d9f", Restarts: 3, ExitCode: 2, Reason: "Error"},
		Logs:  []kube.Log{{Container: "web", Previous: true, Sample: "starting\npanic: no orders"}},
	}
}

func failedRun() ci.Result {
	return ci.Result{Source: ci.SourceCustom, Status: ci.StatusFailure, Name: "test", Ref: "main", Commit: "abc", Summary: "1 failed", Failures: []ci.Failure{{Name: "TestOrder", Message: "got 500"}}}
}

// shopAlerts are a failed request, the error that it causes, and another alert, oldest first.
func shopAlerts() []alert.Alert {
	at := func(a alert.Alert, second int) alert.Alert {
		a.App, a.Severity, a.Timestamp = "shop", alert.Error, noon.Add(time.Duration(second)*time.Second)
		return a
	}
	return []alert.Alert{
		at(alert.Alert{ID: "other", Category: alert.Kubernetes, Title: "crash of shop/deployment web (web)", DedupKey: "k", Context: map[string]any{"workload": "Deployment/web", alert.ClusterKey: "prod", alert.NamespaceKey: "shop", alert.DeployKey: "v2"}}, -600),
		at(alert.Alert{ID: "cause", Category: alert.NetworkErrors, Title: "POST /api/orders fails", DedupKey: "n", Context: map[string]any{alert.EndpointKey: "POST /api/orders"}}, -5),
		at(alert.Alert{ID: "symptom", Category: alert.Errors, Title: "TypeError: no order", Detail: "after /api/orders", DedupKey: "e"}, -3),
	}
}

// TestKnownFacts: the facts about an alert, as a model reads them.
func TestKnownFacts(t *testing.T) {
	var alerts recent.Alerts
	for _, a := range shopAlerts() {
		alerts.Add(a, 1)
	}
	var clusters recent.Clusters
	clusters.Add(crash(), noon.Add(-time.Minute), 1)
	var results recent.Results
	results.Add(failedRun(), noon.Add(-2*time.Minute))
	a := shopAlerts()[2]
	got := knownFacts(&alerts, &clusters, &results, &a, noon)
	want := []session.Known{
		{ID: "known-group", Title: "The alert's incident group: likely cause and symptoms", Text: `likely cause: 2026-11-20T11:59:55.000Z error network_errors, app shop, id cause: POST /api/orders fails
why: REASON
symptom (this alert): 2026-11-20T11:59:57.000Z error errors, app shop, id symptom: TypeError: no order | after /api/orders
`},
		{ID: "known-alerts", Title: "Other open alerts of the app, the most severe first", Text: `2026-11-20T11:59:55.000Z error network_errors, app shop, id cause: POST /api/orders fails
2026-11-20T11:50:00.000Z error kubernetes, app shop, id other: crash of shop/deployment web (web)
`},
		{ID: "known-kubernetes", Title: "Kubernetes faults and warnings of the workload in the last hour, newest first", Text: `2026-11-20T11:59:00.000Z cluster prod, namespace shop, Pod/web-7d9f-x1, fault crash, workload Deployment/web/7d9f, container web, 3 restarts, exit code 2, reason Error: Crash: container web ended with exit code 2
`},
		{ID: "known-logs", Title: "Logs of containers that failed, captured at the fault, newest first", Text: `2026-11-20T11:59:00.000Z shop/web-7d9f-x1, container web (before the restart):
starting
panic: no orders
`},
		{ID: "known-ci", Title: "CI results of the last hour, newest first", Text: `2026-11-20T11:58:00.000Z failure: test of custom, ref main, commit abc: 1 failed
  failed: TestOrder: got 500
`},
		{ID: "known-releases", Title: "Releases first seen in the last hour, newest first", Text: `release v2 of app shop was first seen shortly before 2026-11-20T11:50:00.000Z, as alert other says: crash of shop/deployment web (web)
`},
	}
	for i := range got { // the reason is package alert's
		if before, after, found := strings.Cut(got[i].Text, "\nwhy: "); found {
			_, rest, _ := strings.Cut(after, "\n")
			got[i].Text = before + "\nwhy: REASON\n" + rest
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
}

// TestKnownFactsOfNothing: an empty bus is a fact too, and what can't be known is left out.
func TestKnownFactsOfNothing(t *testing.T) {
	tests := []struct {
		name  string
		alert *alert.Alert
		want  map[string]string
	}{
		{"no alert", nil, map[string]string{
			knownCI: "no CI result arrived in the last hour", knownReleases: "no alert of the last hour names a release that was just deployed",
		}},
		{"alert", &alert.Alert{ID: "a", App: "shop", Timestamp: noon}, map[string]string{
			knownGroup:  "no other alert began within 10 s of this one and names the same endpoint, page or deploy",
			knownAlerts: "no other alert of app shop is open",
			knownCI:     "no CI result arrived in the last hour", knownReleases: "no alert of the last hour names a release that was just deployed",
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := map[string]string{}
			for _, k := range knownFacts(&recent.Alerts{}, &recent.Clusters{}, &recent.Results{}, test.alert, noon) {
				got[k.ID] = k.Text
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("facts (-want +got):\n%s", diff)
			}
		})
	}
}

// TestKnownFactsAreBounded: a storm of long texts stays readable.
func TestKnownFactsAreBounded(t *testing.T) {
	long := strings.Repeat("long text ", 2000)
	var alerts recent.Alerts
	for i := range 200 {
		a := shopAlerts()[2]
		a.ID, a.DedupKey, a.Detail = fmt.Sprint("id", i), "", long
		alerts.Add(a, 1)
	}
	var clusters recent.Clusters
	for range 100 {
		m := crash()
		m.Fault.ID, m.Event.Message = "", long
		m.Logs[0].Sample = long
		clusters.Add(m, noon, 1)
	}
	var results recent.Results
	r := failedRun()
	for range 100 {
		r.Failures = append(r.Failures, ci.Failure{Name: long, Message: long})
	}
	results.Add(r, noon)
	a := shopAlerts()[2]
	total := 0
	for _, k := range knownFacts(&alerts, &clusters, &results, &a, noon) {
		total += len(k.Text)
	}
	if limit := 80 << 10; total > limit {
		t.Errorf("the facts have %d bytes, want at most %d", total, limit)
	}
}

// published publishes messages as the role that may.
func published(t *testing.T, b *bustest.Bus, role bus.Role, subject string, value any, id string) {
	t.Helper()
	p, err := bus.NewPublisher(b.Connect(role), 1)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	m := &nats.Msg{Subject: subject, Data: data, Header: nats.Header{}}
	if id != "" {
		m.Header.Set(nats.MsgIdHdr, id)
	}
	if _, err := p.Publish(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

func publishAlert(t *testing.T, b *bustest.Bus, a alert.Alert) {
	t.Helper()
	published(t, b, bus.RoleDetector, bus.AlertSubject(a), a, a.ID)
}

// followed returns a window that follows the bus until the end of the test.
func followed(t *testing.T, b *bustest.Bus) *busWindow {
	t.Helper()
	w := newBusWindow(redact.New(), bustest.Quiet())
	s := b.Connect(bus.RoleInvestigator)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = w.Run(ctx, s)
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return w
}

// TestGather: what was acknowledged before is gathered from the bus, masked, and nothing is missing.
func TestGather(t *testing.T) {
	b := bustest.Start(t)
	now := time.Now()
	for _, a := range shopAlerts() {
		a.Timestamp = a.Timestamp.Add(now.Sub(noon))
		if a.ID == "cause" {
			a.Title = "login with password=hunter2hunter2 fails"
		}
		publishAlert(t, b, a)
	}
	m, r := crash(), failedRun()
	published(t, b, bus.RoleKubewatch, bus.KubernetesSubject(&m), m, "")
	w := followed(t, b)
	normal := kube.Message{Cluster: "prod", Event: &kube.Event{Type: kube.TypeNormal, Reason: "Pulled", InvolvedObject: m.Event.InvolvedObject}}
	published(t, b, bus.RoleKubewatch, bus.KubernetesSubject(&normal), normal, "")
	published(t, b, bus.RoleIngest, bus.CIResultSubject(r.Source, r.Commit, r.Name, r.Status), r, "")
	a := shopAlerts()[2]
	a.Timestamp = a.Timestamp.Add(now.Sub(noon))
	g := gatherer{window: w, mask: func(_ session.Plan, s string) string { return strings.ReplaceAll(s, "TestOrder", "[MASKED_TEST]") }, now: time.Now}
	var got session.Gathered
	bustest.Eventually(t, "the window has caught up", func() bool { // a busy machine may need more than 30 ms
		got = g.Gather(t.Context(), session.Submitted{Alert: &a})
		return len(got.Missing) == 0
	})
	texts := map[string]string{}
	for _, k := range got.Known {
		texts[k.ID] = k.Text
	}
	for id, want := range map[string]string{
		knownGroup: "id cause", knownAlerts: "id other", knownKubernetes: "exit code 2", knownLogs: "panic: no orders", knownCI: "[MASKED_TEST]: got 500", knownReleases: "release v2",
	} {
		if !strings.Contains(texts[id], want) {
			t.Errorf("fact %s = %q, want it to contain %q", id, texts[id], want)
		}
	}
	if all := strings.Join([]string{texts[knownGroup], texts[knownAlerts], texts[knownKubernetes]}, ""); strings.Contains(all, "hunter2") || strings.Contains(all, "Pulled") {
		t.Errorf("the facts have a secret or a normal event: %s", all)
	}
	s := b.Connect(bus.RoleInvestigator)
	for _, stream := range []string{bus.StreamAlerts, bus.StreamKubernetes, bus.StreamCI} {
		state, err := s.State(t.Context(), stream)
		if err != nil {
			t.Fatal(err)
		}
		if done, _ := w.streams[stream].has(state); !done {
			t.Errorf("the window has not handled all of %s, want it caught up", stream)
		}
	}
}

// TestGatherNamesWhatIsMissing: without a bus, or with one that does not deliver in time, the
// facts name it.
func TestGatherNamesWhatIsMissing(t *testing.T) {
	g := gatherer{window: newBusWindow(redact.New(), bustest.Quiet()), mask: func(_ session.Plan, s string) string { return s }, now: time.Now}
	want := []string{
		"the newest alerts: the bus could not be read", "the newest messages of Kubernetes clusters: the bus could not be read", "the newest CI results: the bus could not be read",
	}
	if diff := cmp.Diff(want, g.Gather(t.Context(), session.Submitted{}).Missing); diff != "" {
		t.Errorf("missing without a bus (-want +got):\n%s", diff)
	}
	g.window.session = bustest.Start(t).Connect(bus.RoleInvestigator) // and nothing follows the streams
	begin := time.Now()
	got := g.Gather(t.Context(), session.Submitted{}).Missing
	if len(got) != 3 || !strings.HasSuffix(got[0], "the bus did not send them in time") {
		t.Errorf("missing = %q after %v, want 3 that the bus did not send in time", got, time.Since(begin))
	}
}

// TestWindowSurvivesARecreatedStream: after a stream was recreated the window has its content alone.
func TestWindowSurvivesARecreatedStream(t *testing.T) {
	b := bustest.Start(t)
	a := shopAlerts()
	publishAlert(t, b, a[0])
	w := followed(t, b)
	has := func(id string) (found bool) {
		w.view(func(l *recent.Alerts, _ *recent.Clusters, _ *recent.Results) { _, found = l.ByID(id) })
		return found
	}
	bustest.Eventually(t, "the first alert is read", func() bool { return has(a[0].ID) })
	p := b.Connect(bus.RoleProvisioner)
	if err := p.JS.DeleteStream(t.Context(), bus.StreamAlerts); err != nil {
		t.Fatal(err)
	}
	if err := bus.Provision(t.Context(), p, bus.Layout{}, bustest.Quiet()); err != nil {
		t.Fatal(err)
	}
	publishAlert(t, b, a[1])
	bustest.Eventually(t, "the alert of the new stream is read", func() bool { return has(a[1].ID) })
	if has(a[0].ID) {
		t.Error("the window has an alert of the stream that is gone, want it forgotten")
	}
}
