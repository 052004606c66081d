package kubernetes

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/kube"
	"github.com/tocsin-bus/tocsin/shared/alert"
	shared "github.com/tocsin-bus/tocsin/shared/kube"
)

// noGrace deletes a pod at once.
var noGrace = metav1.DeleteOptions{GracePeriodSeconds: new(int64)}

// raised has the alerts of one object and fault.
type raised struct {
	// first has the new alerts, again those that update one of them, ends those that
	// resolve it.
	first, again, ends []alert.Alert
}

// about sorts the alerts about an object. No other test has one of this name.
func about(all []alert.Alert, fault, name string) (r raised) {
	for _, a := range all {
		if a.Category != alert.Kubernetes || a.Context["fault"] != fault || a.Context["name"] != name {
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

// TestFaults makes one fault of each kind. Each is one notification, and one alert of
// the right severity in the inbox, in observe and on the dashboard's stream, and is
// resolved if it can be.
func TestFaults(t *testing.T) {
	t.Parallel()
	w := together(t)
	ns := w.server.Namespace(t)
	ctx, s := t.Context(), w.server
	c := w.stdio(t, "--kubernetes-namespaces="+ns+",_cluster")
	id := c.subscribe(t, filters{"cluster": w.cluster, "namespaces": []string{ns, "_cluster"}, "mode": "faults"})
	// Pages of the dashboard get the alerts of the stream.
	listen, stop := dashboard(t, w)

	pod := func(name string) *corev1.Pod {
		p := w.pod(t, ns, name, map[string]string{"app": name})
		w.kubelet.SetLog(p, "app", kube.Log{Current: "it began\n" + panicked, Previous: "it began\n" + panicked})
		return p
	}
	nodeName := "node-of-" + ns
	kinds := []struct {
		fault, name string
		severity    alert.Severity
		begin       func(name string) error
		// end is nil for a fault that has no duration.
		end func(name string) error
	}{
		{
			shared.Crash, "crashed", alert.Warning,
			func(name string) error { _, err := s.Crash(ctx, pod(name), "app", 3); return err }, nil,
		},
		{
			shared.OutOfMemory, "hungry", alert.Error,
			func(name string) error { _, err := s.OOMKilled(ctx, pod(name), "app"); return err }, nil,
		},
		{
			shared.CrashLoop, "looping", alert.Error,
			func(name string) error { _, err := s.CrashLoop(ctx, pod(name), "app", 2, 5); return err },
			func(name string) error { return s.Client().CoreV1().Pods(ns).Delete(ctx, name, noGrace) },
		},
		{
			shared.ImagePull, "imageless", alert.Warning,
			func(name string) error { _, err := s.ImagePull(ctx, pod(name), "app", "ImagePullBackOff"); return err },
			func(name string) error {
				p, err := s.Client().CoreV1().Pods(ns).Get(ctx, name, metav1.GetOptions{})
				if err == nil {
					_, err = s.Restarted(ctx, p, "app")
				}
				return err
			},
		},
		{
			shared.NodeNotReady, nodeName, alert.Error,
			func(name string) error {
				n, err := s.Node(ctx, name)
				if err == nil {
					_, err = s.NodeNotReady(ctx, n)
				}
				return err
			},
			func(name string) error { // it has to last for half a minute
				_, err := s.Node(ctx, name)
				return err
			},
		},
		{
			shared.DeploymentStalled, "stalled", alert.Warning,
			func(name string) error {
				d, err := s.Deployment(ctx, ns, name, nil, 2)
				if err == nil {
					_, err = s.DeploymentStalled(ctx, d)
				}
				return err
			},
			func(name string) error {
				return s.Client().AppsV1().Deployments(ns).Delete(ctx, name, metav1.DeleteOptions{})
			},
		},
		{
			shared.JobFailed, "failing", alert.Warning,
			func(name string) error {
				j, err := s.Job(ctx, ns, name, nil)
				if err == nil {
					_, err = s.JobFailed(ctx, j)
				}
				return err
			},
			func(name string) error {
				background := metav1.DeletePropagationBackground
				return s.Client().BatchV1().Jobs(ns).Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &background})
			},
		},
	}
	for _, k := range kinds {
		if err := k.begin(k.name); err != nil {
			t.Fatalf("begin %s: %v", k.fault, err)
		}
	}
	// Both are polled until all is there. What was there at any time counts.
	var inbox []alert.Alert
	until := func(what string, enough func(inbox, stream []alert.Alert) string) {
		t.Helper()
		missing := "all"
		if !harness.Poll(ctx, patience+30*time.Second, func() bool {
			o, err := c.Observe(ctx, map[string]any{"what": "status"})
			if err != nil {
				t.Fatal(err)
			}
			inbox = append(inbox, o.Alerts...)
			missing = enough(inbox, listen())
			return missing == ""
		}) {
			t.Fatalf("%s: want %s, which is missing. The inbox had %+v", what, missing, inbox)
		}
	}
	until("started", func(inbox, stream []alert.Alert) string {
		for _, k := range kinds {
			if len(about(inbox, k.fault, k.name).first) == 0 {
				return k.fault + " in the inbox"
			}
			if len(about(stream, k.fault, k.name).first) == 0 {
				return k.fault + " on the stream of the dashboard"
			}
		}
		return ""
	})
	for _, k := range kinds {
		n := c.await(t, id, k.fault, func(n note) bool { return n.Data.Event != nil && n.Data.Event.Involved.Name == k.name })
		if n.Logger != "kubernetes/faults" || n.Level != "warning" || n.Data.FaultID == "" {
			t.Errorf("%s: got %s, want Logger \"kubernetes/faults\", Level \"warning\" and a FaultID", k.fault, n.Raw)
		}
		a := about(listen(), k.fault, k.name).first[0]
		got := []any{a.Severity, a.Source, a.Context["cluster"], a.Context["fault_id"]}
		if diff := cmp.Diff([]any{k.severity, alert.SourceKubernetes, w.cluster, n.Data.FaultID}, got); diff != "" {
			t.Errorf("%s: severity, source, cluster and fault of the alert (-want +got):\n%s", k.fault, diff)
		}
	}
	// The log updates the same alert.
	until("its logs", func(_, stream []alert.Alert) string {
		for _, fault := range []string{shared.Crash, shared.OutOfMemory, shared.CrashLoop} {
			panics := false
			for _, k := range kinds {
				for _, a := range about(stream, fault, k.name).again {
					panics = panics || a.Context["panic"] == true && strings.Contains(a.Detail, "panic: runtime error")
				}
			}
			if !panics {
				return "panic of " + fault
			}
		}
		return ""
	})
	output, came, err := c.ObserveAll(ctx, "kubernetes", map[string]any{"limit": 200})
	if err != nil {
		t.Fatal(err)
	}
	inbox = append(inbox, came...)
	found := map[string]int{}
	for _, text := range output {
		var m shared.Message
		if err := json.Unmarshal(text, &m); err != nil {
			t.Fatalf("decode %s: %v", text, err)
		}
		if m.Fault != nil && m.Fault.State == shared.StateFiring {
			found[m.Fault.Kind+" "+m.Event.InvolvedObject.Name]++
		}
	}
	for _, k := range kinds {
		if found[k.fault+" "+k.name] != 1 {
			t.Errorf("observe kubernetes has %s %d times, want once: %v", k.fault, found[k.fault+" "+k.name], found)
		}
	}
	for _, k := range kinds {
		if k.end == nil {
			continue
		}
		if err := k.end(k.name); err != nil {
			t.Fatalf("end %s: %v", k.fault, err)
		}
	}
	until("over", func(_, stream []alert.Alert) string {
		for _, k := range kinds {
			if k.end != nil && len(about(stream, k.fault, k.name).ends) == 0 {
				return "end of " + k.fault + " on the stream of the dashboard"
			}
		}
		return ""
	})
	stop()
	for _, k := range kinds {
		r := about(listen(), k.fault, k.name)
		if len(r.first) != 1 {
			t.Errorf("%s has %d alerts, want 1: %+v", k.fault, len(r.first), r.first)
		}
		switch {
		case k.end == nil && len(r.ends) > 0:
			t.Errorf("%s is resolved by %+v, want no end", k.fault, r.ends)
		case k.end != nil && (len(r.ends) != 1 || r.ends[0].Resolves != r.first[0].ID || r.ends[0].Severity != alert.Info):
			t.Errorf("%s is resolved by %+v, want one alert of severity info that resolves %s", k.fault, r.ends, r.first[0].ID)
		}
		delivered := 0
		for _, n := range c.notesOf(id) {
			if n.Data.Event != nil && n.Data.Event.Involved.Name == k.name && len(n.Data.Logs) == 0 {
				delivered++
			}
		}
		if delivered != 1 {
			t.Errorf("%s was pushed %d times, want once", k.fault, delivered)
		}
	}
}

// dashboard reads a dashboard's stream of alerts. The first result has the alerts so
// far.
func dashboard(t *testing.T, w *world) (heard func() []alert.Alert, stop func()) {
	t.Helper()
	stream := must(harness.Listen(t.Context(), w.bus.DashboardURL, "", 0))(t)
	var mu sync.Mutex
	var all []alert.Alert
	done, end := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case e := <-stream.Events:
				if a, err := e.Alert(); err == nil {
					mu.Lock()
					all = append(all, a)
					mu.Unlock()
				}
			case <-end:
				return
			}
		}
	}()
	stop = sync.OnceFunc(func() {
		stream.Close()
		close(end)
		<-done
	})
	t.Cleanup(stop)
	return func() []alert.Alert {
		mu.Lock()
		defer mu.Unlock()
		return append([]alert.Alert(nil), all...)
	}, stop
}
