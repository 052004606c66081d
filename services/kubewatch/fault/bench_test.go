package fault_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/kubewatch/fault"
	"github.com/tocsin-bus/tocsin/shared/kube"
)

// BenchmarkEvent measures new events of known pods, of either type. The Warning ones exceed the
// rate limit.
func BenchmarkEvent(b *testing.B) {
	for _, class := range []string{kube.TypeNormal, kube.TypeWarning} {
		b.Run(class, func(b *testing.B) {
			tracker := fault.New("dev", "c-1")
			events := make([]*kube.Event, many)
			for i := range events {
				p := numbered(i, running(1, 0, ended(1, "Error", 0)))
				tracker.Pod(p, t0)
				events[i] = &kube.Event{
					Namespace: p.Namespace, Timestamp: t0, Type: class, Reason: "Unhealthy", Message: "Readiness probe failed: HTTP probe failed with statuscode: 503",
					InvolvedObject: kube.Object{APIVersion: "v1", Kind: fault.KindPod, Namespace: p.Namespace, Name: p.Name, UID: p.UID, Container: "web"},
					Name:           fmt.Sprintf("%s.%d", p.Name, i), UID: fmt.Sprintf("e%d", i), ResourceVersion: fmt.Sprint(i),
				}
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				e := events[i%many]
				e.Count = i
				tracker.Event(e, t0.Add(time.Duration(i)*time.Millisecond))
				i++
			}
		})
	}
}
