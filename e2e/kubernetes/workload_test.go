package kubernetes

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/kube"
	"github.com/tocsin-bus/tocsin/shared/alert"
	shared "github.com/tocsin-bus/tocsin/shared/kube"
)

// replicaHash returns the hash that names a replica's version of its deployment.
const replicaHash = "7d9f6c"

// replica creates a pod as the replica set of a deployment does.
func (w *world) replica(t *testing.T, namespace, deployment string, i int) *corev1.Pod {
	t.Helper()
	of := deployment + "-" + replicaHash
	p := w.pod(t, namespace, fmt.Sprintf("%s-%d", of, i), map[string]string{"app": deployment, "pod-template-hash": replicaHash})
	controls := true
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: of, UID: "7d9f6c00-0000-4000-8000-000000000000", Controller: &controls}}
	return must(w.server.Client().CoreV1().Pods(namespace).Update(t.Context(), p, metav1.UpdateOptions{}))(t)
}

// TestWorkload has a deployment whose three pods are in a crash loop: a fault of each,
// and one alert, which names the deployment and is resolved with the last of them.
func TestWorkload(t *testing.T) {
	t.Parallel()
	w := together(t)
	ns, ctx := w.server.Namespace(t), t.Context()
	c := w.stdio(t, "--kubernetes-namespaces="+ns)
	id := c.subscribe(t, filters{"cluster": w.cluster, "namespaces": []string{ns}, "mode": "faults"})
	listen, stop := dashboard(t, w)
	var pods []*corev1.Pod
	for i := range 3 {
		p := w.replica(t, ns, "checkout", i)
		w.kubelet.SetLog(p, "app", kube.Log{Current: panicked, Previous: panicked})
		pods = append(pods, p)
	}
	for _, p := range pods {
		if _, err := w.server.CrashLoop(ctx, p, "app", 2, 5); err != nil {
			t.Fatal(err)
		}
		w.event(t, ns, p, shared.TypeWarning, "BackOff", "Back-off restarting failed container app in pod "+p.Name)
	}
	// delivered returns the alerts of the namespace about its crash loop.
	delivered := func() (r raised) {
		for _, a := range listen() {
			if a.Context["namespace"] != ns || a.Context["fault"] != shared.CrashLoop {
				continue
			}
			switch {
			case a.Resolves != "":
				r.ends = append(r.ends, a)
			case a.Revises != "":
				r.again = append(r.again, a)
			default:
				r.first = append(r.first, a)
			}
		}
		return r
	}
	all := func(again []alert.Alert) bool {
		for _, a := range again {
			if strings.Contains(a.Detail, "3 pods: ") && a.Context["panic"] == true {
				return true
			}
		}
		return false
	}
	if !harness.Poll(ctx, patience, func() bool { return all(delivered().again) }) {
		t.Fatalf("alerts = %+v, want an update with \"3 pods: \" and the panic", delivered())
	}
	pushed := map[string]bool{}
	for _, p := range pods {
		pushed[c.await(t, id, p.Name, func(n note) bool { return n.Data.Event != nil && n.Data.Event.Involved.Name == p.Name }).Data.FaultID] = true
	}
	if len(pushed) != len(pods) {
		t.Errorf("faults pushed = %v, want %d, one of each pod", pushed, len(pods))
	}
	for i, p := range pods {
		if r := delivered(); len(r.ends) > 0 {
			t.Fatalf("resolved by %+v while %d pods have the fault, want it to last", r.ends, len(pods)-i)
		}
		if err := w.server.Client().CoreV1().Pods(ns).Delete(ctx, p.Name, noGrace); err != nil {
			t.Fatal(err)
		}
	}
	if !harness.Poll(ctx, patience, func() bool { return len(delivered().ends) > 0 }) {
		t.Fatalf("alerts = %+v, want one that resolves: no pod has the fault", delivered())
	}
	over := map[string]bool{}
	for _, m := range w.published(t, ns) {
		if m.Fault != nil && m.Fault.State == shared.StateOver {
			over[m.Fault.ID] = true
		}
	}
	stop()
	r := delivered()
	if len(over) != len(pods) {
		t.Errorf("faults of %d pods are over, want %d", len(over), len(pods))
	}
	if len(r.first) != 1 || len(r.ends) != 1 || r.ends[0].Resolves != r.first[0].ID {
		t.Fatalf("alerts = %+v, want one, and one that resolves it", r)
	}
	a := r.first[0]
	if want := "kubernetes:" + w.cluster + ":" + ns + ":Deployment/checkout/" + replicaHash + "/app:crash_loop"; a.DedupKey != want || r.ends[0].DedupKey != want {
		t.Errorf("%q and %q, not %q", a.DedupKey, r.ends[0].DedupKey, want)
	}
	if a.Title != "Crash loop: "+ns+"/deployment checkout (app)" || a.Context["workload"] != "Deployment/checkout" || a.Context["kind"] != "Pod" || a.App != "checkout" {
		t.Errorf("got %+v, want Title %v, Context[\"workload\"] \"Deployment/checkout\", Context[\"kind\"] \"Pod\" and App \"checkout\"", a, "Crash loop: "+ns+"/deployment checkout (app)")
	}
}
