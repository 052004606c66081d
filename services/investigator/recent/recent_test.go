package recent_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/services/investigator/recent"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/kube"
)

var start = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

func raised(id, key string, second int) alert.Alert {
	return alert.Alert{ID: id, App: "shop", Category: alert.Errors, Severity: alert.Error, Title: id, DedupKey: key, Timestamp: start.Add(time.Duration(second) * time.Second)}
}

func ids(found []recent.Alert) string {
	var names []string
	for _, a := range found {
		names = append(names, a.ID)
	}
	return strings.Join(names, " ")
}

// TestOpenAlerts: of a list of alerts, those are open that are neither resolved nor repeated.
func TestOpenAlerts(t *testing.T) {
	with := func(a alert.Alert, change func(*alert.Alert)) alert.Alert { change(&a); return a }
	tests := []struct {
		name   string
		alerts []alert.Alert
		want   string
	}{
		{"none", nil, ""},
		{"two keys", []alert.Alert{raised("a", "1", 0), raised("b", "2", 1)}, "b a"},
		{"published twice", []alert.Alert{raised("a", "1", 0), raised("a", "1", 0)}, "a"},
		{"repeated", []alert.Alert{raised("a", "1", 0), raised("b", "1", 1)}, "b"},
		{"no key", []alert.Alert{raised("a", "", 0), raised("b", "", 1)}, "b a"},
		{"resolved by id", []alert.Alert{raised("a", "1", 0), with(raised("r", "x", 1), func(a *alert.Alert) { a.Resolves = "a" })}, ""},
		{"resolved by key", []alert.Alert{raised("a", "1", 0), with(raised("r", "1", 1), func(a *alert.Alert) { a.Resolves = "gone" })}, ""},
		{"others resolved too", []alert.Alert{raised("a", "1", 0), raised("b", "2", 1), with(raised("r", "1", 2), func(a *alert.Alert) { a.Resolves, a.AlsoResolves = "a", []string{"b"} })}, ""},
		{"raised again", []alert.Alert{raised("a", "1", 0), with(raised("r", "1", 1), func(a *alert.Alert) { a.Resolves = "a" }), raised("b", "1", 2)}, "b"},
		{"revised", []alert.Alert{raised("a", "1", 0), raised("b", "2", 1), with(raised("a2", "1", 2), func(a *alert.Alert) { a.Revises = "a" })}, "a b"},
		{"revision of an alert that is gone", []alert.Alert{with(raised("a2", "1", 2), func(a *alert.Alert) { a.Revises = "a" })}, "a"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var l recent.Alerts
			for _, a := range test.alerts {
				l.Add(a, 1)
			}
			found, more := l.Find(recent.AlertQuery{Open: true}, 10)
			if got := ids(found); got != test.want || more != 0 {
				t.Errorf("open = %q and %d more, want %q and 0 more", got, more, test.want)
			}
		})
	}
}

func TestFindAlerts(t *testing.T) {
	var l recent.Alerts
	l.Add(raised("a", "1", 0), 1)
	warning := raised("b", "2", 1)
	warning.Severity, warning.App, warning.Category = alert.Warning, "web", alert.Anomaly
	l.Add(warning, 1)
	l.Add(raised("c", "3", 2), 1)
	tests := []struct {
		name  string
		query recent.AlertQuery
		limit int
		want  string
		more  int
	}{
		{"all", recent.AlertQuery{}, 9, "c b a", 0},
		{"limit", recent.AlertQuery{}, 1, "c", 2},
		{"app", recent.AlertQuery{App: "web"}, 9, "b", 0},
		{"category", recent.AlertQuery{Category: alert.Errors}, 9, "c a", 0},
		{"severity", recent.AlertQuery{MinRank: alert.Error.Rank()}, 9, "c a", 0},
		{"since", recent.AlertQuery{Since: start.Add(time.Second)}, 9, "c b", 0},
		{"except", recent.AlertQuery{Except: "c"}, 9, "b a", 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			found, more := l.Find(test.query, test.limit)
			if got := ids(found); got != test.want || more != test.more {
				t.Errorf("Find = %q and %d more, want %q and %d more", got, more, test.want, test.more)
			}
		})
	}
	if worst, more := l.Worst(recent.AlertQuery{}, 2); ids(worst) != "c a" || more != 1 {
		t.Errorf("Worst = %q and %d more, want %q and 1 more", ids(worst), more, "c a")
	}
}

func TestAlertsAreBounded(t *testing.T) {
	var l recent.Alerts
	for i := range recent.MaxAlerts + 10 {
		l.Add(raised(fmt.Sprint("n", i), fmt.Sprint(i), i), 1)
	}
	if _, found := l.ByID("n9"); found || !l.Dropped() {
		t.Errorf("n9 is remembered: %v, dropped: %v, want the 10 oldest dropped", found, l.Dropped())
	}
	if _, found := l.ByID("n10"); !found {
		t.Error("n10 is not remembered, want the newest kept")
	}
	l.Add(raised("large", "large", 9999), recent.MaxAlertBytes)
	all, _ := l.Find(recent.AlertQuery{}, 10)
	if ids(all) != "large" {
		t.Errorf("after an alert with all bytes = %q, want it alone", ids(all))
	}
}

// TestGroupOf: a failed request causes an error that names its endpoint; a third alert is of another
// page.
func TestGroupOf(t *testing.T) {
	cause := raised("cause", "1", 0)
	cause.Category, cause.Context = alert.NetworkErrors, map[string]any{alert.EndpointKey: "POST /api/orders"}
	symptom := raised("symptom", "2", 3)
	symptom.Detail = "request to /api/orders failed"
	other := raised("other", "3", 4)
	late := raised("late", "4", 40)
	late.Detail = symptom.Detail
	var l recent.Alerts
	for _, a := range []alert.Alert{cause, symptom, other, late} {
		l.Add(a, 1)
	}
	tests := []struct {
		of              alert.Alert
		cause, symptoms string
	}{
		{cause, "cause", "symptom"},
		{symptom, "cause", "symptom"},
		{other, "", ""},
		{late, "", ""},
		{func() alert.Alert { a := symptom; a.ID = "unknown"; return a }(), "cause", "symptom unknown"},
	}
	for _, test := range tests {
		t.Run(test.of.ID, func(t *testing.T) {
			g := l.GroupOf(test.of)
			got, symptoms := "", []string{}
			if g.Cause != nil {
				got = g.Cause.ID
			}
			for _, s := range g.Symptoms {
				symptoms = append(symptoms, s.ID)
			}
			if test.symptoms == "symptom unknown" { // of equal times any order
				if got != test.cause || len(symptoms) != 2 {
					t.Errorf("group = %q with %q, want %q with 2 symptoms", got, symptoms, test.cause)
				}
			} else if got != test.cause || strings.Join(symptoms, " ") != test.symptoms {
				t.Errorf("group = %q with %q, want %q with %q", got, symptoms, test.cause, test.symptoms)
			}
		})
	}
}

func TestReleases(t *testing.T) {
	release := func(id, app, name string, second int) alert.Alert {
		a := raised(id, id, second)
		a.App, a.Context = app, map[string]any{alert.DeployKey: name}
		return a
	}
	var l recent.Alerts
	for _, a := range []alert.Alert{release("old", "shop", "v0", -60), release("a", "shop", "v1", 0), release("b", "shop", "v1", 1), release("c", "web", "v1", 2), raised("d", "d", 3)} {
		l.Add(a, 1)
	}
	if got := ids(l.Releases("shop", start, 9)); got != "b" {
		t.Errorf("releases of shop = %q, want b", got)
	}
	if got := ids(l.Releases("", start.Add(-time.Hour), 2)); got != "c b" {
		t.Errorf("2 releases of all apps = %q, want c b", got)
	}
}

func pod(name, workload, fault string, second int) (kube.Message, time.Time) {
	m := kube.Message{
		Cluster: "prod",
		Event:   &kube.Event{Namespace: "shop", Type: kube.TypeWarning, Reason: "BackOff", InvolvedObject: kube.Object{Kind: "Pod", Name: name, Namespace: "shop"}, Labels: map[string]string{"app": "web"}},
	}
	if fault != "" {
		m.Fault = &kube.Fault{ID: fault, Kind: kube.Crash, State: kube.StateFiring, Severity: alert.Error, Workload: workload}
	}
	return m, start.Add(time.Duration(second) * time.Second)
}

func TestFindMessages(t *testing.T) {
	var c recent.Clusters
	add := func(m kube.Message, at time.Time) { c.Add(m, at, 1) }
	add(pod("web-7d9f-x1", "Deployment/web/7d9f", "f1", 0))
	logs, at := pod("web-7d9f-x1", "Deployment/web/7d9f", "f1", 1)
	logs.Logs = []kube.Log{{Container: "web", Sample: "panic: boom"}}
	add(logs, at)
	add(pod("web-7d9f-x1", "", "", 2))
	add(pod("website-1", "Deployment/website/1", "f2", 3))
	c.Add(kube.Message{Cluster: "other", Watch: &kube.Watch{Degraded: true, Error: "refused"}}, start.Add(4*time.Second), 1)
	tests := []struct {
		name  string
		query recent.ClusterQuery
		want  string
	}{
		{"all", recent.ClusterQuery{}, "watch website-1/f2 web-7d9f-x1 web-7d9f-x1/f1+log"},
		{"workload with its kind", recent.ClusterQuery{Cluster: "prod", Namespace: "shop", Workload: "Deployment/web"}, "web-7d9f-x1 web-7d9f-x1/f1+log"},
		{"workload without its kind", recent.ClusterQuery{Cluster: "prod", Workload: "web"}, "web-7d9f-x1 web-7d9f-x1/f1+log"},
		{"pod", recent.ClusterQuery{Cluster: "prod", Workload: "Pod/website-1"}, "website-1/f2"},
		{"another kind", recent.ClusterQuery{Cluster: "prod", Workload: "Node/website-1"}, ""},
		{"another namespace", recent.ClusterQuery{Cluster: "prod", Namespace: "kube-system"}, ""},
		{"app", recent.ClusterQuery{Cluster: "prod", App: "web", Since: start.Add(3 * time.Second)}, "website-1/f2"},
		{"another app", recent.ClusterQuery{Cluster: "prod", App: "api"}, ""},
		{"severity", recent.ClusterQuery{MinRank: alert.Error.Rank()}, "website-1/f2 web-7d9f-x1/f1+log"},
		{"logs", recent.ClusterQuery{Logs: true}, "web-7d9f-x1/f1+log"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			found, _ := c.Find(test.query, 10)
			var names []string
			for _, m := range found {
				name := "watch"
				if m.Event != nil {
					name = m.Event.InvolvedObject.Name
				}
				if m.Fault != nil {
					name += "/" + m.Fault.ID
				}
				if len(m.Logs) > 0 {
					name += "+log"
				}
				names = append(names, name)
			}
			if got := strings.Join(names, " "); got != test.want {
				t.Errorf("Find = %q, want %q", got, test.want)
			}
		})
	}
	if found, more := c.Find(recent.ClusterQuery{}, 1); len(found) != 1 || more != 3 {
		t.Errorf("with limit 1: %d found and %d more, want 1 and 3", len(found), more)
	}
}

func TestMessagesAreBounded(t *testing.T) {
	var c recent.Clusters
	for i := range recent.MaxClusterMessages + 5 {
		m, at := pod(fmt.Sprint("p", i), "", "", i)
		c.Add(m, at, 1)
	}
	found, more := c.Find(recent.ClusterQuery{}, 1)
	if len(found) != 1 || more != recent.MaxClusterMessages-1 || !c.Dropped() {
		t.Errorf("%d found, %d more, dropped %v, want 1, %d, true", len(found), more, c.Dropped(), recent.MaxClusterMessages-1)
	}
	m, at := pod("large", "", "", 99999)
	c.Add(m, at, recent.MaxClusterBytes)
	if found, more := c.Find(recent.ClusterQuery{}, 9); len(found) != 1 || more != 0 || found[0].Event.InvolvedObject.Name != "large" {
		t.Errorf("after a message with all bytes: %d found, %d more, want it alone", len(found), more)
	}
}

func TestNewestResults(t *testing.T) {
	var r recent.Results
	add := func(name, status string, second int) {
		r.Add(ci.Result{Source: ci.SourceCustom, Name: name, Commit: "abc", Status: status}, start.Add(time.Duration(second)*time.Second))
	}
	add("old", ci.StatusFailure, -60)
	add("test", ci.StatusFailure, 0)
	add("test", ci.StatusFailure, 1) // updates the one before
	add("test", ci.StatusSuccess, 2)
	var got []string
	for _, f := range r.Newest(start) {
		got = append(got, f.Name+" "+f.Status+" "+f.Received.Format("05"))
	}
	if diff := cmp.Diff([]string{"test success 02", "test failure 01"}, got); diff != "" {
		t.Errorf("Newest (-want +got):\n%s", diff)
	}
	for i := range 100 {
		add(fmt.Sprint("n", i), ci.StatusSuccess, 10+i)
	}
	if n := len(r.Newest(time.Time{})); n != ci.MaxResults {
		t.Errorf("after 100 results: %d, want %d", n, ci.MaxResults)
	}
}
