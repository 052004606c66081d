package kubernetes_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/gateway/kubernetes"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/kube"
)

var start = time.Date(2026, 1, 28, 14, 30, 0, 0, time.UTC)

func eventMessage(reason, kind, app string) kube.Message {
	return kube.Message{Cluster: "dev", Event: &kube.Event{
		Type: kind, Reason: reason, Labels: map[string]string{"app": app}, InvolvedObject: kube.Object{Kind: "Pod", Name: "p", Namespace: app},
	}}
}

func faultMessage(id, state string, severity alert.Severity, logs ...kube.Log) kube.Message {
	m := eventMessage(id+" "+state, kube.TypeWarning, "shop")
	m.Fault, m.Logs = &kube.Fault{ID: id, State: state, Severity: severity}, logs
	return m
}

// stored returns messages, oldest first. Each counts as 100 bytes, one second after the
// one before.
func stored() []kube.Message {
	log := kube.Log{Container: "app", Sample: "panic"}
	return []kube.Message{
		eventMessage("Old", kube.TypeNormal, "shop"),
		eventMessage("Pulled", kube.TypeNormal, "shop"),
		faultMessage("f1", kube.StateFiring, alert.Error),
		eventMessage("Killing", kube.TypeWarning, "bank"),
		faultMessage("f2", kube.StateFiring, alert.Warning),
		faultMessage("f1", kube.StateFiring, alert.Error, log),
		faultMessage("f1", kube.StateOver, alert.Error),
		{Cluster: "dev", Watch: &kube.Watch{Degraded: true}},
		{Cluster: "dev", Watch: &kube.Watch{}},
	}
}

// history adds messages to a history, newest first, and describes its items.
func history(q kubernetes.HistoryQuery, all []kube.Message) (items string, h *kubernetes.History) {
	h = kubernetes.NewHistory(q)
	for i, m := range slices.Backward(all) {
		if !h.Add(m, uint64(i+1), start.Add(time.Duration(i)*time.Second), 100) {
			break
		}
	}
	var words []string
	for _, m := range h.Newest() {
		switch {
		case m.Watch != nil:
			words = append(words, fmt.Sprintf("degraded:%t", m.Watch.Degraded))
		case len(m.Logs) > 0:
			words = append(words, m.Event.Reason+" with logs")
		default:
			words = append(words, m.Event.Reason)
		}
	}
	return strings.Join(words, ", "), h
}

func TestHistory(t *testing.T) {
	wide := kubernetes.HistoryQuery{Since: start.Add(time.Second), Limit: 50, MaxBytes: 10_000, MaxOlder: 4}
	for _, tt := range []struct {
		name   string
		narrow func(w *kubernetes.HistoryQuery)
		want   string
		older  int
	}{
		{"all since", func(*kubernetes.HistoryQuery) {}, "degraded:false, degraded:true, f1 over, f1 firing with logs, f2 firing, Killing, Pulled", 0},
		{"a limit", func(w *kubernetes.HistoryQuery) { w.Limit = 4 }, "degraded:false, degraded:true, f1 over, f1 firing with logs", 3},
		{"warnings", func(w *kubernetes.HistoryQuery) { w.MinRank = alert.Warning.Rank() }, "degraded:true, f1 over, f1 firing with logs, f2 firing, Killing", 0},
		{"errors", func(w *kubernetes.HistoryQuery) { w.MinRank = alert.Error.Rank() }, "f1 over, f1 firing with logs", 0},
		{"an app", func(w *kubernetes.HistoryQuery) { w.App = "bank" }, "Killing", 0},
		{"messages without an app have the cluster's name", func(w *kubernetes.HistoryQuery) { w.App = "dev" }, "degraded:false, degraded:true", 0},
		{"bytes", func(w *kubernetes.HistoryQuery) { w.MaxBytes = 299 }, "degraded:false, degraded:true", 4},
		{"the first is returned even if it is too large", func(w *kubernetes.HistoryQuery) { w.MaxBytes = 50 }, "degraded:false", 4},
		{"the next page", func(w *kubernetes.HistoryQuery) { w.Before = 6 }, "f2 firing, Killing, Pulled", 0},
		{"visible messages", func(w *kubernetes.HistoryQuery) {
			w.Visible = func(m *kube.Message) bool { return m.Event != nil && m.Event.InvolvedObject.Namespace == "bank" }
		}, "Killing", 0},
	} {
		w := wide
		tt.narrow(&w)
		got, l := history(w, stored())
		if got != tt.want || l.Older() != tt.older {
			t.Errorf("%s: got %s and %d older, want %s and %d", tt.name, got, l.Older(), tt.want, tt.older)
		}
	}
}

// TestEachFaultOnce: a fault in one state is returned once, and the bounds hold.
func TestEachFaultOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []kube.Message
		for range rapid.IntRange(0, 40).Draw(t, "n") {
			all = append(all, faultMessage(rapid.StringMatching(`f[1-4]?`).Draw(t, "id"), rapid.SampledFrom([]string{kube.StateFiring, kube.StateOver}).Draw(t, "state"), alert.Warning))
		}
		limit := rapid.IntRange(1, 10).Draw(t, "limit")
		_, l := history(kubernetes.HistoryQuery{Limit: limit, MaxBytes: 700}, all)
		seen := map[string]bool{}
		for _, m := range l.Newest() {
			key := m.Fault.ID + " " + m.Fault.State
			if seen[key] {
				t.Fatalf("fault %s is returned twice, want once", key)
			}
			seen[key] = true
		}
		if n := len(l.Newest()); n > min(limit, 7) || n == 0 && len(all) > 0 {
			t.Fatalf("%d of %d messages returned, want 1 to %d", n, len(all), min(limit, 7))
		}
	})
}
