package kubernetes_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/kubernetes"
	"github.com/tocsin-bus/tocsin/shared/namespaces"
)

// BenchmarkDeliver matches an event, also by a selector, and writes its line.
func BenchmarkDeliver(b *testing.B) {
	f, err := kubernetes.NewFilter("dev", kubernetes.Events, kubernetes.Filters{Namespaces: []string{"shop"}, LabelSelector: "app=web,tier in (front,back)"}, namespaces.Set{})
	if err != nil {
		b.Fatal(err)
	}
	m := pod()
	b.ReportAllocs()
	for b.Loop() {
		if !f.Matches(m) {
			b.Fatal("Matches = false, want true")
		}
		if _, err := f.Notification("sub-1", m).Line(); err != nil {
			b.Fatal(err)
		}
	}
}

// hundredFilters returns the filters of as many subscriptions as a gateway allows by
// default, of five kinds. All match the event of pod.
func hundredFilters(b *testing.B) []kubernetes.Filter {
	b.Helper()
	wishes := []kubernetes.Filters{
		{Namespaces: []string{"bank", "shop"}},
		{LabelSelector: "app=web,tier in (front,back)"},
		{InvolvedKind: "pod", InvolvedNamespace: "shop"},
		{Type: "Warning", Reason: "Back"},
		{InvolvedName: "web-1"},
	}
	all := make([]kubernetes.Filter, 100)
	for i := range all {
		f, err := kubernetes.NewFilter("dev", kubernetes.Events, wishes[i%len(wishes)], namespaces.Set{})
		if err != nil {
			b.Fatal(err)
		}
		all[i] = f
	}
	return all
}

// BenchmarkMatch100 matches one event against all filters.
func BenchmarkMatch100(b *testing.B) {
	all, m := hundredFilters(b), pod()
	b.ReportAllocs()
	for b.Loop() {
		for i := range all {
			if !all[i].Matches(m) {
				b.Fatal(i)
			}
		}
	}
}

// BenchmarkRecent checks different events with a full memory.
func BenchmarkRecent(b *testing.B) {
	var r kubernetes.RecentEvents
	m := pod()
	uids := make([]string, 4096)
	for i := range uids {
		uids[i] = fmt.Sprintf("e%d", i)
	}
	now := time.Date(2025, 1, 15, 12, 34, 56, 0, time.UTC)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		m.Event.UID = uids[i%len(uids)]
		if r.Duplicate(m, now.Add(time.Duration(i)*time.Second)) {
			b.Fatal(i)
		}
	}
}
