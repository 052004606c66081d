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

// unhealthy returns a warning of a replica.
func unhealthy(i, count int, when time.Duration) *kube.Event {
	return event(fmt.Sprint("w", i), "Unhealthy", "probe failed", count, when, func(e *kube.Event) {
		e.InvolvedObject.Name, e.InvolvedObject.UID = fmt.Sprint("web-", i), fmt.Sprint("u-", i)
	})
}

// TestWithheldAfterRestart checks that a fault that joins a predecessor's alert at the rate
// limit updates that alert, and does not delay other updates.
func TestWithheldAfterRestart(t *testing.T) {
	tracker := fault.New("dev", "c-1")
	tracker.Pod(replica(0, running(0, 0, nil)), t0)
	before := tracker.Event(unhealthy(0, 1, 0), t0)[0]
	tracker = fault.New("dev", "c-1")
	tracker.Recall(&before.Message, t0)
	tracker.Pod(replica(0, running(0, 0, nil)), at(sec))
	for i := 1; i <= fault.Burst+1; i++ {
		p := replica(i, running(0, 0, nil))
		p.Workload = "Deployment/other"
		tracker.Pod(p, at(sec))
		tracker.Event(unhealthy(i, 1, sec), at(sec))
	}
	tracker.Tick(at(sec + fault.UpdateInterval)) // updates the alert of the other workload
	tracker.Pod(replica(900, loops), at(7*sec))
	tracker.Pod(replica(900, running(4, 7*sec, nil)), at(7*sec)) // its loop ends in 10 minutes
	now := at(7 * sec)
	for i := 902; i < 920; i++ { // up to the rate limit
		p := replica(i, running(0, 0, nil))
		p.Workload = "Deployment/other"
		tracker.Pod(p, now)
		tracker.Event(unhealthy(i, 1, 7*sec), now)
	}
	if got := tracker.Event(unhealthy(0, 2, 7*sec), now); len(got) != 0 {
		t.Fatalf("findings at the rate limit = %+v, want none", got)
	}
	next := tracker.Next()
	if next.IsZero() || next.After(now.Add(fault.MaxUpdateInterval)) {
		t.Fatalf("Next = %s, want a time within %s", next, fault.MaxUpdateInterval)
	}
	for _, f := range tracker.Tick(next) {
		if f.Alert.Key == before.Alert.Key {
			if f.Alert.Episode != before.Alert.Episode || !strings.HasPrefix(f.Alert.Detail, "2 times") {
				t.Errorf("updated alert = %+v, want episode %s that counts 2 times", f.Alert, before.Alert.Episode)
			}
			return
		}
	}
	t.Errorf("Tick updates no alert with the key %s, want an update for the withheld fault that joined it", before.Alert.Key)
}

// TestOmittedIsCounted checks that the next alert of a kind counts the withheld faults, also if
// a fault that joins another alert comes first.
func TestOmittedIsCounted(t *testing.T) {
	tracker := fault.New("dev", "c-1")
	crash := dead(0, ended(1, "Error", 0), nil)
	tracker.Pod(replica(0, crash), t0)
	for i := 1; i < fault.Burst+3; i++ { // each without a workload
		tracker.Pod(numbered(i, crash), t0)
	}
	if got := tracker.Pod(replica(500, crash), at(sec)); len(got) != 1 || got[0].Alert != nil {
		t.Fatalf("findings of a fault that joins = %+v, want one without an alert", got)
	}
	got := tracker.Pod(numbered(501, dead(0, ended(1, "Error", 10*sec), nil)), at(10*sec))
	if len(got) != 1 || got[0].Alert == nil || got[0].Alert.Omitted != 3 {
		t.Errorf("next alert = %+v, want 3 omitted", got[0].Alert)
	}
}

// TestGroupEndsAtOnce checks that few waiting faults are published when all pods of a large
// workload are deleted, in the order in which they were created.
func TestGroupEndsAtOnce(t *testing.T) {
	const pods = 2000
	tracker := fault.New("dev", "c-1")
	for i := range pods {
		tracker.Pod(replica(i, loops), t0)
	}
	begun, resolved := 0, 0
	for i := range pods {
		for _, f := range tracker.Gone(replicaObject(i), t0) {
			if f.Message.Fault.State == kube.StateFiring {
				begun++
			}
			if f.Alert != nil && f.Alert.State == external.StateResolved {
				if resolved++; i != pods-1 {
					t.Errorf("the alert is resolved with pod %d, want the last, %d", i, pods-1)
				}
			}
		}
	}
	if s := tracker.Stats(); resolved != 1 || begun == 0 || begun > 30 || s.Open != 0 || s.Waiting != 0 || s.Groups != 0 {
		t.Errorf("%d faults published, %d alerts resolved, %+v; want 1 to 30, 1, nothing open", begun, resolved, s)
	}
}
