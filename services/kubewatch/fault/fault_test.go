package fault_test

import (
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/kubewatch/fault"
	"github.com/tocsin-bus/tocsin/shared/kube"
)

var t0 = time.Date(2026, 1, 28, 14, 30, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return t0.Add(d) }

// pod is one of a single container.
func pod(change func(p *fault.Pod, c *fault.Container)) *fault.Pod {
	p := &fault.Pod{
		Meta: fault.Meta{Namespace: "shop", Name: "web-1", UID: "u-1", Labels: map[string]string{"app": "web"}}, Node: "n1",
		Containers: []fault.Container{{Name: "web"}},
	}
	change(p, &p.Containers[0])
	return p
}

func runs(restarts int, since time.Duration) *fault.Pod {
	return pod(func(_ *fault.Pod, c *fault.Container) {
		c.Running, c.Started, c.Restarts = true, at(since), restarts
	})
}

func loops(restarts int) *fault.Pod {
	return pod(func(_ *fault.Pod, c *fault.Container) {
		c.Waiting, c.Restarts, c.Last = "CrashLoopBackOff", restarts, &fault.Ended{ExitCode: 2, Reason: "Error", At: t0}
	})
}

func TestCrashLoop(t *testing.T) {
	b := fault.NewBook("dev", "c-1")
	if got := b.Pod(runs(0, 0), t0); len(got) != 0 {
		t.Fatalf("%+v", got)
	}
	got := b.Pod(loops(1), at(time.Minute))
	if len(got) != 1 || got[0].Message.Fault.Kind != kube.CrashLoop || got[0].Alert.Validate() != nil {
		t.Fatalf("%+v", got)
	}
	if got := b.Pod(runs(2, 2*time.Minute), at(2*time.Minute)); len(got) != 0 {
		t.Fatalf("%+v", got)
	}
	if !b.Next().Equal(at(12 * time.Minute)) {
		t.Fatal(b.Next())
	}
	got = b.Tick(at(12 * time.Minute))
	if len(got) != 1 || got[0].Message.Fault.State != kube.StateOver || got[0].Alert.Validate() != nil {
		t.Fatalf("%+v", got)
	}
}
