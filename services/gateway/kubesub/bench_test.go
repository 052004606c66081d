package kubesub_test

import (
	"testing"

	"github.com/tocsin-bus/tocsin/services/gateway/kubesub"
	"github.com/tocsin-bus/tocsin/services/gateway/namespaces"
)

// BenchmarkDeliver: an event is matched, by a selector too, and made a line.
func BenchmarkDeliver(b *testing.B) {
	f, err := kubesub.New("dev", kubesub.Events, kubesub.Filters{Namespaces: []string{"shop"}, LabelSelector: "app=web,tier in (front,back)"}, namespaces.Set{})
	if err != nil {
		b.Fatal(err)
	}
	m := pod()
	b.ReportAllocs()
	for b.Loop() {
		if !f.Match(m) {
			b.Fatal("it does not match")
		}
		if _, err := f.Deliver("sub-1", m).Line(); err != nil {
			b.Fatal(err)
		}
	}
}
