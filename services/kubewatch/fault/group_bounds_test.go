package fault_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/kubewatch/fault"
	"github.com/tocsin-bus/tocsin/shared/external"
	"github.com/tocsin-bus/tocsin/shared/kube"
)

// unhealthy is a warning of a replica.
func unhealthy(i, count int, when time.Duration) *kube.Event {
	return event(fmt.Sprint("w", i), "Unhealthy", "probe failed", count, when, func(e *kube.Event) {
		e.InvolvedObject.Name, e.InvolvedObject.UID = fmt.Sprint("web-", i), fmt.Sprint("u-", i)
	})
}

// TestWithheldAfterRestart: what joins an alert of a predecessor while there is no room is
// told with it, and holds up nothing else that is due.
func TestWithheldAfterRestart(t *testing.T) {
	b := fault.New("dev", "c-1")
	b.Pod(replica(0, running(0, 0, nil)), t0)
	before := b.Event(unhealthy(0, 1, 0), t0)[0]
	b = fault.New("dev", "c-1")
	b.Recall(&before.Message, t0)
	b.Pod(replica(0, running(0, 0, nil)), at(sec))
	for i := 1; i <= fault.Burst+1; i++ {
		p := replica(i, running(0, 0, nil))
		p.Workload = "Deployment/other"
		b.Pod(p, at(sec))
		b.Event(unhealthy(i, 1, sec), at(sec))
	}
	b.Tick(at(sec + fault.UpdateInterval)) // of the other
	b.Pod(replica(900, loops), at(7*sec))
	b.Pod(replica(900, running(4, 7*sec, nil)), at(7*sec)) // over in 10 minutes
	now := at(7 * sec)
	for i := 902; i < 920; i++ { // until there is no room
		p := replica(i, running(0, 0, nil))
		p.Workload = "Deployment/other"
		b.Pod(p, now)
		b.Event(unhealthy(i, 1, 7*sec), now)
	}
	if got := b.Event(unhealthy(0, 2, 7*sec), now); len(got) != 0 {
		t.Fatalf("there was room: %+v", got)
	}
	next := b.Next()
	if next.IsZero() || next.After(now.Add(fault.MaxUpdateInterval)) {
		t.Fatalf("nothing is due: %s", next)
	}
	for _, f := range b.Tick(next) {
		if f.Alert.Key == before.Alert.Key {
			if f.Alert.Episode != before.Alert.Episode || !strings.HasPrefix(f.Alert.Detail, "2 times") {
				t.Errorf("%+v", f.Alert)
			}
			return
		}
	}
	t.Error("the alert does not say what joined it")
}

// TestOmittedIsTold: what was left out is said by the next alert of the kind, also where the
// next fault of it is told within one that waits.
func TestOmittedIsTold(t *testing.T) {
	b := fault.New("dev", "c-1")
	crash := dead(0, ended(1, "Error", 0), nil)
	b.Pod(replica(0, crash), t0)
	for i := 1; i < fault.Burst+3; i++ { // each by itself
		b.Pod(numbered(i, crash), t0)
	}
	if got := b.Pod(replica(500, crash), at(sec)); len(got) != 1 || got[0].Alert != nil {
		t.Fatalf("%+v", got)
	}
	got := b.Pod(numbered(501, dead(0, ended(1, "Error", 10*sec), nil)), at(10*sec))
	if len(got) != 1 || got[0].Alert == nil || got[0].Alert.Omitted != 3 {
		t.Errorf("%+v", got[0].Alert)
	}
}

// TestGroupGoesAtOnce: a workload most of whose pods wait for room goes in the order in which
// it came: its end is told with few of those that waited, whatever their number.
func TestGroupGoesAtOnce(t *testing.T) {
	const pods = 2000
	b := fault.New("dev", "c-1")
	for i := range pods {
		b.Pod(replica(i, loops), t0)
	}
	begun, resolved := 0, 0
	for i := range pods {
		for _, f := range b.Gone(replicaObject(i), t0) {
			if f.Message.Fault.State == kube.StateFiring {
				begun++
			}
			if f.Alert != nil && f.Alert.State == external.StateResolved {
				if resolved++; i != pods-1 {
					t.Errorf("over with %d", i)
				}
			}
		}
	}
	if s := b.Stats(); resolved != 1 || begun == 0 || begun > 30 || s.Open != 0 || s.Waiting != 0 || s.Groups != 0 {
		t.Errorf("%d begun, %d resolved, %+v", begun, resolved, s)
	}
}
