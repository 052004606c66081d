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
	learn := func(cluster string, degraded bool) bool {
		return w.Update(kube.Leader{Cluster: cluster, Watch: kube.Watch{Degraded: degraded}}, now, ttl)
	}
	live := func() string { return strings.Join(w.Live(now, ttl), " ") }
	if learn("", false) || live() != "" {
		t.Error("a cluster without a name is taken")
	}
	if !learn("prod", false) || !learn("dev", false) || learn("dev", false) || live() != "dev prod" {
		t.Error(live())
	}
	now = now.Add(9 * time.Second)
	if !learn("dev", true) {
		t.Error("that it is degraded is no news")
	}
	now = now.Add(time.Second)
	if live() != "dev" || strings.Join(w.Known(), " ") != "dev prod" {
		t.Errorf("%q of %q", live(), w.Known())
	}
	if watch, on, until := w.Status("dev", now, ttl); !on || !watch.Degraded || !until.Equal(now.Add(9*time.Second)) {
		t.Errorf("%+v %t %s", watch, on, until)
	}
	if _, on, _ := w.Status("prod", now, ttl); on {
		t.Error("what was not renewed is watched")
	}
	w.Remove("dev")
	if live() != "" || !learn("dev", true) {
		t.Error("one that left is watched, or its coming back is no news")
	}
}
