package kubernetes_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/kubernetes"
	"github.com/tocsin-bus/tocsin/shared/kube"
)

func TestDuplicate(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var r kubernetes.RecentEvents
	for _, step := range []struct {
		at      time.Duration
		version string
		want    bool
	}{
		{0, "7", false}, {time.Second, "7", true}, {2 * time.Second, "8", false}, {5*time.Second - 1, "7", true},
		{5 * time.Second, "7", false}, {6 * time.Second, "7", true}, {7 * time.Second, "8", false},
	} {
		m := pod()
		m.Event.ResourceVersion = step.version
		if got := r.Duplicate(m, begin.Add(step.at)); got != step.want {
			t.Errorf("Duplicate of version %s at %s = %t, want %t", step.version, step.at, got, step.want)
		}
	}
	nameless := &kube.Message{Cluster: "dev", Event: &kube.Event{Namespace: "shop"}}
	for range 2 {
		if r.Duplicate(nameless, begin) {
			t.Error("Duplicate of an event without a name = true, want false")
		}
	}
}

// TestRecentIsBounded: of more events than the bound, the oldest are forgotten.
func TestRecentIsBounded(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var r kubernetes.RecentEvents
	event := func(i int) *kube.Message {
		m := pod()
		m.Event.UID = fmt.Sprint(i)
		return m
	}
	for i := range 1025 {
		r.Duplicate(event(i), now)
	}
	if !r.Duplicate(event(1024), now) || !r.Duplicate(event(1), now) {
		t.Error("Duplicate of the newest events = false, want true")
	}
	if r.Duplicate(event(0), now) {
		t.Error("Duplicate of the oldest event = true, want it forgotten")
	}
}
