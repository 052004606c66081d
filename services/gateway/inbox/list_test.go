package inbox_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

func entryAlert(id, key string, severity alert.Severity) alert.Alert {
	return alert.Alert{ID: id, Severity: severity, Category: alert.CI, Timestamp: start, App: "web", DedupKey: key}
}

func ids(l *inbox.List) (list []string) {
	for _, a := range l.Alerts() {
		list = append(list, fmt.Sprintf("%s*%d", a.ID, a.Count))
	}
	return list
}

func TestList(t *testing.T) {
	var l inbox.List
	add := func(a alert.Alert) {
		if !l.Merge(a) {
			l.Add(a)
		}
	}
	revise := func(id, revised string) bool {
		a := entryAlert(id, "revised", alert.Error)
		a.Revises, a.Count = revised, 9
		return l.Revise(a, false)
	}
	step := func(name string, offers int, want ...string) {
		t.Helper()
		if got := ids(&l); !reflect.DeepEqual(got, want) || l.Len() != len(want) || l.Offers() != offers {
			t.Fatalf("%s: alerts = %v of %d offers, Len = %d, want %v of %d offers", name, got, l.Offers(), l.Len(), want, offers)
		}
	}
	same := func(alert.Alert) int { return 0 }
	if l.DropLowest(same); revise("r", "a1") {
		t.Error("Revise found an alert in an empty list, want none")
	}
	add(entryAlert("a1", "a", alert.Warning))
	add(entryAlert("b1", "b", alert.Error))
	add(entryAlert("a2", "a", alert.Info))
	step("merged", 3, "a2*2", "b1*0")
	if !revise("r1", "a1") || !revise("r2", "a1") || !revise("r3", "a2") || revise("r4", "r1") || revise("r5", "") {
		t.Error("Revise does not find exactly the alerts with the ids merged into them")
	}
	step("revised", 3, "a2*2", "b1*0")
	for i := range 9 {
		add(entryAlert(fmt.Sprint("b", i+2), "b", alert.Error))
	}
	if !revise("r6", "b1") || !revise("r7", "b10") || revise("r8", "b5") {
		t.Error("Revise does not find exactly the alerts with the first and the newest ids")
	}
	step("many", 12, "a2*2", "b10*10")
	add(entryAlert("c1", "c", alert.Info))
	if n := l.DropBelow(alert.Warning.Rank()); n != 1 {
		t.Errorf("%d offers dropped, want 1", n)
	}
	l.DropLowest(same)
	step("dropped", 10, "b10*10")
	l.Clear()
	step("cleared", 0)

	info := entryAlert("d2", "d", alert.Info)
	info.Revises = "d1"
	add(entryAlert("d1", "d", alert.Warning))
	if l.Revise(info, false); l.Alerts()[0].Severity != alert.Info {
		t.Errorf("severity after a revision = %s, want %s", l.Alerts()[0].Severity, alert.Info)
	}
	add(entryAlert("d3", "d", alert.Error))
	if l.Revise(info, false); l.Alerts()[0].Severity != alert.Error {
		t.Errorf("severity after the revision of a merged alert = %s, want %s", l.Alerts()[0].Severity, alert.Error)
	}
}

// TestListResolveSeveral: a resolution resolves all alerts that it names and reports
// whether the first of them was there. It may name a repetition that was not merged.
func TestListResolveSeveral(t *testing.T) {
	end := func(ids ...string) alert.Alert {
		return alert.Alert{ID: "end", Category: alert.CI, Severity: alert.Info, App: "web", DedupKey: "b", Resolves: ids[0], AlsoResolves: ids[1:]}
	}
	for _, tt := range []struct {
		ids      string
		found    bool
		resolved string
	}{
		{"b1 a1", true, "a b"},
		{"b1 gone a2", true, "a b"},
		{"gone b1", false, "b"},
		{"c1 b1", true, "b c"},
		{"c2", true, "c"},
		{"gone", false, ""},
	} {
		var l inbox.List
		for _, a := range []alert.Alert{entryAlert("a1", "a", alert.Error), entryAlert("b1", "b", alert.Error), entryAlert("c1", "c", alert.Error)} {
			l.Add(a)
		}
		l.Merge(entryAlert("a2", "a", alert.Error))
		for i := 9; i >= 2; i-- { // some are forgotten
			l.RecordRepeat(entryAlert(fmt.Sprint("c", i), "c", alert.Info))
		}
		l.RecordRepeat(entryAlert("d1", "d", alert.Info))
		revision := entryAlert("r", "c", alert.Info)
		if revision.Revises = "c2"; l.Revise(revision, false) {
			t.Error("Revise found an alert by the id of a repetition that was not merged")
		}
		found := l.Resolve(end(strings.Fields(tt.ids)...))
		var resolved []string
		for _, a := range l.Alerts() {
			if a.Resolved {
				resolved = append(resolved, a.DedupKey)
			}
		}
		if got := strings.Join(resolved, " "); got != tt.resolved || found != tt.found || l.Len() != 3 {
			t.Errorf("Resolve(%s) = %t and resolved %q, want %t and %q", tt.ids, found, got, tt.found, tt.resolved)
		}
	}
}

func TestListResolve(t *testing.T) {
	var l inbox.List
	add := func(a alert.Alert) {
		if !l.Merge(a) {
			l.Add(a)
		}
	}
	raised := func(id string) alert.Alert {
		a := entryAlert(id, "a", alert.Warning)
		a.Category, a.Title, a.Detail, a.URL = alert.Regression, "slow", "by 34%", "http://localhost/"
		a.Context = map[string]any{"page": "/"}
		return a
	}
	end := func(id string, category alert.Category, seq uint64) alert.Alert {
		return alert.Alert{ID: "end of " + id, Category: category, Severity: alert.Info, App: "web", DedupKey: "a", Resolves: id, Seq: seq}
	}
	if l.Resolve(end("a1", alert.Regression, 1)) {
		t.Error("Resolve found an alert in an empty list")
	}
	worse := raised("a2")
	worse.Severity, worse.Seq = alert.Error, 5
	add(raised("a1"))
	add(worse)
	if l.Resolve(end("a0", alert.Regression, 6)) || l.Resolve(alert.Alert{}) || !l.Resolve(end("a2", alert.Regression, 7)) || !l.Resolve(end("a2", alert.Regression, 8)) {
		t.Error("Resolve does not find the alerts by the ids merged into them, or not a second time")
	}
	want := worse
	want.Title, want.Context, want.Resolved, want.Count, want.Seq = "Resolved: slow", nil, true, 2, 8
	if diff := cmp.Diff([]alert.Alert{want}, l.Alerts()); diff != "" {
		t.Errorf("resolved alert (-want +got):\n%s", diff)
	}
	revision := raised("a9")
	revision.Revises = "a1"
	if l.Revise(revision, false) {
		t.Error("Revise found a resolved alert")
	}
	add(raised("a3"))
	add(end("gone", alert.Regression, 9))
	add(end("gone too", alert.Regression, 10))
	if got, want := fmt.Sprint(ids(&l)), "[a2*2 a3*0 end of gone too*2]"; got != want {
		t.Errorf("after offers to a resolved alert: %s, want %s", got, want)
	}
	add(entryAlert("b1", "b", alert.Warning))
	if l.Resolve(end("b1", alert.CI, 20)); l.Alerts()[3].Seq != 0 || !l.Alerts()[3].Resolved {
		t.Errorf("sequence %d, resolved %t, want 0, true: a CI resolution is an alert of its own", l.Alerts()[3].Seq, l.Alerts()[3].Resolved)
	}
	l.Resolve(end("a3", alert.Regression, 11))
	if got, want := fmt.Sprint(ids(&l)), "[a3*3 end of gone too*2 b1*0]"; got != want || l.Offers() != 6 || l.Alerts()[0].Seq != 11 {
		t.Errorf("resolved again: %s, want %s in one line", got, want)
	}
	if !l.Resolve(end("a1", alert.Regression, 12)) || !l.Resolve(end("a3", alert.Regression, 13)) {
		t.Error("Resolve does not find the resolved line by all of its ids")
	}
}
