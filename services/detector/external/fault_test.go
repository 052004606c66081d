package external_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	externalrule "github.com/tocsin-bus/tocsin/services/detector/external"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/external"
	"github.com/tocsin-bus/tocsin/shared/kube"
)

func crashing(state string) *external.Alert {
	return &external.Alert{
		Source: alert.SourceKubernetes, Key: "9f3c2ab1", Episode: "1", State: state, Severity: alert.Error, App: "web", Name: "BackOff", Place: "shop/web-1",
		Summary: "back-off 10s restarting failed container", Detail: "exit code 2 (Error), 3 restarts; panic: nil map",
		Labels: map[string]string{"app": "web", "app.kubernetes.io/version": "9f3c2ab"},
		Fault:  &external.Fault{Cluster: "dev", Namespace: "shop", Kind: "Pod", Name: "web-1", Container: "app", Fault: kube.CrashLoop, ID: "f1", Panic: true},
	}
}

// TestFault checks the JSON of alerts about a fault, without the fields that package fold
// fills in.
func TestFault(t *testing.T) {
	const context = `"context":{"cluster":"dev","namespace":"shop","kind":"Pod","name":"web-1","container":"app","fault":"crash_loop","fault_id":"f1",` +
		`"panic":true,"release":"9f3c2ab","labels":{"app":"web","app.kubernetes.io/version":"9f3c2ab"}},` +
		`"dedup_key":"kubernetes:dev:shop:Pod/web-1/app:crash_loop","correlation_id":""}`
	for state, want := range map[string]string{
		"firing": `{"id":"","severity":"error","category":"kubernetes","title":"Crash loop: shop/web-1 (app)",` +
			`"detail":"back-off 10s restarting failed container; exit code 2 (Error), 3 restarts; panic: nil map",` +
			`"timestamp":"0001-01-01T00:00:00.000Z","source":"kubernetes_monitor","app":"","url":"",` + context,
		"resolved": `{"id":"","severity":"info","category":"kubernetes","title":"Crash loop is over: shop/web-1 (app)",` +
			`"detail":"over: it runs for 10 minutes; restarts: 3",` +
			`"timestamp":"0001-01-01T00:00:00.000Z","source":"kubernetes_monitor","app":"","url":"",` + context,
	} {
		e := crashing(state)
		if state == external.StateResolved {
			e.Summary, e.Detail = "over: it runs for 10 minutes", "restarts: 3"
		}
		got, err := json.Marshal(externalrule.New().Prepare(e).Alert)
		if err != nil {
			t.Fatal(err)
		}
		if sorted(t, string(got)) != sorted(t, want) {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// TestFaultTimeline checks that the logs of a fault revise its alert, also once the fault has
// ended, and that another crash of the pod is a new alert.
func TestFaultTimeline(t *testing.T) {
	alerts := externalrule.New()
	for i, s := range []struct{ episode, state, revises, resolves, why string }{
		{"1", "firing", "", "", "the first time"},
		{"1", "firing", "a", "", "its logs"},
		{"1", "resolved", "", "a", "its end"},
		{"1", "resolved", "c", "a", "its end, reported again after a restart"},
		{"2", "firing", "", "", "the next crash"},
		{"3", "firing", "", "", "the one after that, without an end between"},
		{"3", "resolved", "", "f", "its end"},
	} {
		e := crashing(s.state)
		e.Episode = s.episode
		a := publish(alerts, e, string(rune('a'+i)))
		if got, want := [...]string{a.Revises, a.Resolves}, [...]string{s.revises, s.resolves}; got != want {
			t.Errorf("%d, %s: revises, resolves = %q, want %q", i, s.why, got, want)
		}
		alerts = restored(t, alerts)
	}
}

func TestFaultTitles(t *testing.T) {
	for _, tt := range []struct {
		fault                string
		change               func(f *external.Fault)
		severity             alert.Severity
		title, end, dedupKey string
	}{
		{kube.Crash, nil, alert.Warning, "Crash: shop/web-1", "Crash is over: shop/web-1", "kubernetes:dev:shop:Pod/web-1:crash"},
		{kube.OutOfMemory, nil, alert.Error, "Out of memory: shop/web-1", "No longer out of memory: shop/web-1", "kubernetes:dev:shop:Pod/web-1:out_of_memory"},
		{kube.ImagePull, nil, alert.Warning, "Image can't be pulled: shop/web-1", "Image pull failure is over: shop/web-1", "kubernetes:dev:shop:Pod/web-1:image_pull"},
		{kube.Warning, nil, alert.Warning, "Warning BackOff: shop/web-1", "Warning is over: shop/web-1", "kubernetes:dev:shop:Pod/web-1:warning/BackOff"},
		{
			kube.NodeNotReady, func(f *external.Fault) { f.Namespace, f.Kind, f.Name = "", "Node", "n1" }, alert.Error,
			"Node not ready: n1", "Node ready again: n1", "kubernetes:dev::Node/n1:node_not_ready",
		},
		{
			kube.DeploymentStalled, func(f *external.Fault) { f.Kind, f.Name = "Deployment", "web" }, alert.Warning,
			"Deployment stalled: shop/web", "Stalled deployment is over: shop/web", "kubernetes:dev:shop:Deployment/web:deployment_stalled",
		},
		{
			kube.JobFailed, func(f *external.Fault) { f.Kind, f.Name = "Job", "backup" }, alert.Warning,
			"Job failed: shop/backup", "Job failure is over: shop/backup", "kubernetes:dev:shop:Job/backup:job_failed",
		},
		{
			kube.WatchDegraded, func(f *external.Fault) { f.Namespace, f.Kind, f.Name = "", kube.KindCluster, "dev" }, alert.Warning,
			"Cluster can't be watched: dev", "Cluster is watched again: dev", "kubernetes:dev::Cluster/dev:watch_degraded",
		},
		{"disk_full", nil, alert.Warning, "Fault: shop/web-1", "Fault is over: shop/web-1", "kubernetes:dev:shop:Pod/web-1:disk_full"},
	} {
		e := crashing(external.StateFiring)
		e.Severity, e.Fault.Fault, e.Fault.Container = tt.severity, tt.fault, ""
		if tt.change != nil {
			tt.change(e.Fault)
		}
		a := externalrule.New().Prepare(e).Alert
		e.State = external.StateResolved
		end := externalrule.New().Prepare(e).Alert
		if got, want := strings.HasPrefix(end.Detail, "was: "), tt.fault == kube.WatchDegraded; got != want {
			t.Errorf("%s: detail of the end = %q, want it to begin with \"was: \": %v", tt.fault, end.Detail, want)
		}
		if got, want := [...]string{a.Title, string(a.Severity), a.DedupKey}, [...]string{tt.title, string(tt.severity), tt.dedupKey}; got != want {
			t.Errorf("%s: title, severity, dedup key = %q, want %q", tt.fault, got, want)
		}
		if got, want := [...]string{end.Title, string(end.Severity), end.DedupKey}, [...]string{tt.end, string(alert.Info), tt.dedupKey}; got != want {
			t.Errorf("%s: title, severity, dedup key of the end = %q, want %q", tt.fault, got, want)
		}
	}
	for _, fault := range kube.Faults() {
		e := crashing(external.StateFiring)
		e.Fault.Fault = fault
		if a := externalrule.New().Prepare(e).Alert; a.Title == "Fault: shop/web-1 (app)" {
			t.Errorf("%s: title = %q, want one of its own", fault, a.Title)
		}
	}
}

// TestFaultOfWorkload checks that the alerts about two pods of a workload are about the
// workload.
func TestFaultOfWorkload(t *testing.T) {
	for _, pod := range []string{"web-1", "web-2"} {
		e := crashing(external.StateFiring)
		e.Fault.Name, e.Fault.Workload = pod, "Deployment/web/7d9f"
		a := externalrule.New().Prepare(e).Alert
		got := []any{a.Title, a.DedupKey, a.Context["workload"], a.Context["workload_version"], a.Context["kind"], a.Context["name"]}
		want := []any{"Crash loop: shop/deployment web (app)", "kubernetes:dev:shop:Deployment/web/7d9f/app:crash_loop", "Deployment/web", "7d9f", "Pod", pod}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("title, dedup key and context (-want +got):\n%s", diff)
		}
	}
}

// TestFaultKeys checks that different faults have different dedup keys, which readers can split.
func TestFaultKeys(t *testing.T) {
	seen := map[string]string{}
	for _, tt := range []struct{ name, container, fault, reason string }{
		{"web-1", "app", kube.CrashLoop, ""}, {"web-1", "proxy", kube.CrashLoop, ""}, {"web-1", "app", kube.Crash, ""},
		{"web-1", "app", kube.Warning, "Unhealthy"}, {"web-1", "", kube.Warning, "FailedMount"}, {"web-1", "", kube.Warning, "a:bank:Pod/x:b"},
		{"x:bank:Pod/y", "", kube.Warning, "Unhealthy"},
	} {
		e := crashing(external.StateFiring)
		e.Name, e.Fault.Name, e.Fault.Container, e.Fault.Fault = tt.reason, tt.name, tt.container, tt.fault
		fault := strings.Join([]string{tt.name, tt.container, tt.fault, tt.reason}, " ")
		key := externalrule.New().Prepare(e).Alert.DedupKey
		if other, ok := seen[key]; ok {
			t.Errorf("%s: dedup key = %s as of %s, want another one", fault, key, other)
		}
		seen[key] = fault
		if parts := strings.Split(key, ":"); len(parts) != 5 || parts[2] != "shop" {
			t.Errorf("%s: dedup key = %s, want 5 parts and the namespace in the third", fault, key)
		}
	}
}
