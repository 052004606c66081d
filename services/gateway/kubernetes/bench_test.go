package kubernetes_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/kubernetes"
	"github.com/tocsin-bus/tocsin/services/gateway/namespaces"
)

// BenchmarkDeliver: an event is matched, by a selector too, and made a line.
func BenchmarkDeliver(b *testing.B) {
	f, err := kubernetes.NewFilter("dev", kubernetes.Events, kubernetes.Filters{Namespaces: []string{"shop"}, LabelSelector: "app=web,tier in (front,back)"}, namespaces.Set{})
	if err != nil {
		b.Fatal(err)
	}
	m := pod()
	b.ReportAllocs()
	for b.Loop() {
		if !f.Matches(m) {
			b.Fatal("it does not match")
		}
		if _, err := f.Deliver("sub-1", m).Line(); err != nil {
			b.Fatal(err)
		}
	}
}

// hundred are as many subscriptions as a gateway has by default, one in five of each
// sort, all of which get the events of pod.
func hundred(b *testing.B) []kubernetes.Filter {
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

// BenchmarkMatch100: one event is looked at by all subscriptions.
func BenchmarkMatch100(b *testing.B) {
	all, m := hundred(b), pod()
	b.ReportAllocs()
	for b.Loop() {
		for i := range all {
			if !all[i].Matches(m) {
				b.Fatal(i)
			}
		}
	}
}

// BenchmarkRecent: each event is another one, and as many are remembered as may be.
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
