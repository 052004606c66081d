package kubernetes_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/kubernetes"
	"github.com/tocsin-bus/tocsin/shared/kube"
)

func TestWatchers(t *testing.T) {
	const ttl = 10 * time.Second
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var w kubernetes.Watchers
	update := func(cluster string, degraded, wantNews bool) {
		t.Helper()
		if got := w.Update(kube.Leader{Cluster: cluster, Watch: kube.Watch{Degraded: degraded}}, now, ttl); got != wantNews {
			t.Errorf("Update(%q, degraded %t) = %t, want %t", cluster, degraded, got, wantNews)
		}
	}
	live := func(want string) {
		t.Helper()
		if got := strings.Join(w.Live(now, ttl), " "); got != want {
			t.Errorf("Live = %q, want %q", got, want)
		}
	}
	update("", false, false)
	live("")
	update("prod", false, true)
	update("dev", false, true)
	update("dev", false, false)
	live("dev prod")
	now = now.Add(9 * time.Second)
	update("dev", true, true)
	now = now.Add(time.Second)
	live("dev")
	if got, want := strings.Join(w.Known(), " "), "dev prod"; got != want {
		t.Errorf("Known = %q, want %q", got, want)
	}
	if watch, on, until := w.Status("dev", now, ttl); !on || !watch.Degraded || !until.Equal(now.Add(9*time.Second)) {
		t.Errorf("Status of a degraded watch = %+v, %t, %s, want degraded, true, in 9 s", watch, on, until)
	}
	if _, on, _ := w.Status("prod", now, ttl); on {
		t.Error("Status of a cluster that was not renewed: live = true, want false")
	}
	w.Remove("dev")
	live("")
	update("dev", true, true)
}
