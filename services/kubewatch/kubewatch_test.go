package kubewatch_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tocsin-bus/tocsin/services/kubewatch/kubetest"
)

func event(reason string) corev1.Event {
	return corev1.Event{
		Type: corev1.EventTypeNormal, Reason: reason, Message: "a message",
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "web-1", UID: "pod-1"},
	}
}

// TestEvents checks that events are published once and in order, except those from before the
// watch and the expiry of an event.
func TestEvents(t *testing.T) {
	r := newRig(t)
	r.cluster.Event(event("Before"))
	r.cluster.Put("/api/v1/pods", corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", UID: "pod-1", Labels: map[string]string{"app": "web"}}})
	w := r.watch("dev")
	r.watching()
	e := event("Scheduled")
	e.Name = "one"
	r.cluster.Event(e)
	e.Reason, e.Count = "Pulled", 2
	r.cluster.Modify(e)
	r.cluster.Delete(e)
	r.cluster.Bookmark()
	r.cluster.Event(event("Started"))
	r.until("last event", func() bool { return slices.Contains(r.reasons(), "Started") })
	if got, want := r.reasons(), []string{"Scheduled", "Pulled", "Started"}; !slices.Equal(got, want) {
		t.Errorf("events = %v, want %v", got, want)
	}
	m := r.published()[1]
	if m.subject != "kubernetes.dev.shop.normal.pod.pulled" || m.id != "cluster-1/uid-one/1004" || m.Cluster != "dev" || m.ClusterUID != "cluster-1" {
		t.Errorf("message = %+v, want subject, id and cluster of the event Pulled", m)
	}
	if got := m.Event; got.Labels["app"] != "web" || got.Count != 2 || got.InvolvedObject.Name != "web-1" || got.Name != "one" {
		t.Errorf("event = %+v, want the label app=web, count 2, pod web-1, name one", got)
	}
	if h := w.Health(); !h.OK || len(h.Kubewatch.Clusters) != 1 || !h.Kubewatch.Clusters[0].Active || h.Kubewatch.Clusters[0].Events != 3 {
		t.Errorf("health = %+v %+v, want one active cluster with 3 events", h, h.Kubewatch)
	}

	// Another kubewatch resumes where this one ended.
	w.stop(t)
	r.cluster.Event(event("Meanwhile"))
	watches := r.cluster.Requests("watch " + kubetest.Path)
	r.watch("dev")
	r.until("watch of the next one", func() bool { return r.cluster.Requests("watch "+kubetest.Path) > watches })
	r.cluster.Event(event("After"))
	r.until("last event", func() bool { return slices.Contains(r.reasons(), "After") })
	if got, want := r.reasons(), []string{"Scheduled", "Pulled", "Started", "Meanwhile", "After"}; !slices.Equal(got, want) {
		t.Errorf("events = %v, want %v", got, want)
	}
}

// TestOneNamespace checks that with a namespace no request is sent about others.
func TestOneNamespace(t *testing.T) {
	r := newRig(t)
	w := r.watchIn("dev", "shop")
	const in = "watch /api/v1/namespaces/shop/"
	r.until("watches of the namespace", func() bool { return r.cluster.Requests(in+"events") > 0 && r.cluster.Requests(in+"pods") > 0 })
	r.cluster.Event(event("Started"))
	r.until("event", func() bool { return slices.Contains(r.reasons(), "Started") })
	for _, path := range []string{"/api/v1/events", "/api/v1/pods", "/apis/apps/v1/deployments", "/apis/batch/v1/jobs", "/api/v1/namespaces/kube-system"} {
		for _, verb := range []string{"list ", "watch ", "get "} {
			if n := r.cluster.Requests(verb + path); n > 0 {
				t.Errorf("%d requests %s%s, want 0", n, verb, path)
			}
		}
	}
	w.stop(t)
}

// TestFault checks that a Warning event of a pod is published as a fault at once, that the end
// of its containers' log follows, and that the detector gets both.
func TestFault(t *testing.T) {
	r := newRig(t)
	r.cluster.Put("/api/v1/pods", corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", UID: "pod-1", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "web"}}},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: "web", RestartCount: 1, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		}}},
	})
	r.cluster.Log("shop", "web-1", "listening\npanic: nil map\n\ngoroutine 1 [running]:\n")
	r.watch("dev")
	r.watching()
	e := event("Unhealthy")
	e.Type, e.Message = corev1.EventTypeWarning, "Liveness probe failed: password=hunter2"
	r.cluster.Event(e)
	r.until("logs of the fault", func() bool { return len(r.published()) == 3 })
	messages := r.published()
	if messages[0].Fault != nil || messages[1].Fault == nil || !messages[1].Fault.LogsFollow || len(messages[1].Logs) > 0 || messages[2].Fault.ID != messages[1].Fault.ID {
		t.Fatalf("messages = %+v, want an event, its fault with logs to follow, and the fault with its logs", messages)
	}
	if log := messages[2].Logs[0]; !log.HasPanic || log.Container != "web" || !strings.Contains(log.Sample, "panic: nil map") {
		t.Errorf("log = %+v, want the one of the container web with its panic", log)
	}
	for _, m := range messages {
		if strings.Contains(m.Event.Message, "hunter2") {
			t.Errorf("message of the event = %q, want the password masked", m.Event.Message)
		}
	}
	r.until("alerts", func() bool { return len(r.publishedAlerts()) == 2 })
	if all := r.publishedAlerts(); all[0].App != "web" || all[0].Key != all[1].Key || all[0].Fault.Panic || !all[1].Fault.Panic {
		t.Errorf("alerts = %+v, want two of one key, the second with a panic", all)
	}
}
