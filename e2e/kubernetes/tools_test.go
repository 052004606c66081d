package kubernetes

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tocsin-bus/tocsin/e2e/harness/kube"
	shared "github.com/tocsin-bus/tocsin/shared/kube"
)

// kubernetesTools returns the gateway's tools about Kubernetes.
func kubernetesTools(t *testing.T, c *client) (names []string) {
	t.Helper()
	for _, tool := range must(c.Session.ListTools(t.Context(), nil))(t).Tools {
		if strings.HasPrefix(tool.Name, "events_") {
			names = append(names, tool.Name)
		}
	}
	slices.Sort(names)
	return names
}

// TestWithTheRightsOfTheManifest checks that without a kubewatch there are no
// Kubernetes tools, and that agents learn of one that starts later, which reports the
// faults that still last. It has a token of the account of deploy/kubernetes, whose
// rights are enough for events, faults and their logs.
func TestWithTheRightsOfTheManifest(t *testing.T) {
	t.Parallel()
	all := together(t)
	w := &world{server: all.server, kubelet: all.kubelet, cluster: all.cluster, bus: up(t)}
	c := w.stdio(t)
	if names := kubernetesTools(t, c); len(names) > 0 {
		t.Fatalf("tools without a kubewatch = %v, want none for Kubernetes", names)
	}
	if text := refused(t, c, "events_subscribe", filters{"type": "Warning"}); !strings.Contains(text, "tocsin kubewatch") {
		t.Errorf("got %s, want \"tocsin kubewatch\" in it", text)
	}
	ns := w.server.Namespace(t)
	must(w.server.CrashLoop(t.Context(), w.pod(t, ns, "looping-before", nil), "app", 1, 9))(t)
	crashed := must(w.server.Crash(t.Context(), w.pod(t, ns, "crashed-before", nil), "app", 1))(t)
	w.event(t, ns, crashed, corev1.EventTypeWarning, "FailedMount", "before anybody watched")
	w.watch = kubewatch(t, w.bus, must(w.server.ServiceAccount(t.Context(), "tocsin", "kubewatch", access))(t))
	select {
	case <-c.NewTools:
	case <-time.After(patience):
		t.Fatalf("no agent was notified of new tools\n%s", w.watch.Log)
	}
	want := []string{"events_list_subscriptions", "events_subscribe", "events_unsubscribe"}
	if names := kubernetesTools(t, c); !slices.Equal(names, want) {
		t.Errorf("there are %v, want %v", names, want)
	}
	w.mustBeWatched(t)
	events := c.subscribe(t, filters{"namespaces": []string{ns}})
	faults := c.subscribe(t, filters{"namespaces": []string{ns}, "mode": "faults"})
	pod := w.pod(t, ns, "web-0", map[string]string{"app": "web"})
	w.kubelet.SetLog(pod, "app", kube.Log{Current: panicked})
	w.event(t, ns, pod, corev1.EventTypeNormal, "Started", "it runs")
	c.await(t, events, "the event", says("it runs"))
	must(w.server.Crash(t.Context(), pod, "app", 2))(t)
	n := c.await(t, faults, "the fault with logs", func(n note) bool { return len(n.Data.Logs) > 0 })
	if l := n.Data.Logs[0]; l.Error != "" || l.Sample != panicked || !l.HasPanic {
		t.Errorf("got %+v, want no Error, Sample %v and HasPanic", l, panicked)
	}
	// A fault from before the watch is reported only if it still lasts.
	looping := 0
	for _, m := range w.published(t, ns) {
		switch name := m.Event.InvolvedObject.Name; {
		case name == "looping-before" && m.Fault != nil && m.Fault.Kind == shared.CrashLoop:
			if len(m.Logs) == 0 {
				looping++
			}
		case name != "web-0":
			t.Errorf("event %+v, fault %+v from before the watch published, want only the crash loop, which lasts", m.Event, m.Fault)
		}
	}
	if looping != 1 {
		t.Errorf("the crash loop was published %d times, want once", looping)
	}
	if text := w.watch.Log.String(); strings.Contains(text, "refuse") || strings.Contains(text, "forbidden") || strings.Contains(text, "kube-system") {
		t.Errorf("it misses rights, want no \"refuse\" in text, no \"forbidden\" in text and no \"kube-system\" in text\n%s", text)
	}
}
