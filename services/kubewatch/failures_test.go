package kubewatch_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tocsin-bus/tocsin/services/kubewatch"
	"github.com/tocsin-bus/tocsin/services/kubewatch/kubetest"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/external"
	"github.com/tocsin-bus/tocsin/shared/kube"
)

// childEnv makes this test binary run a kubewatch that can be killed.
const childEnv = "KUBEWATCH_TEST_CHILD"

// child is the configuration of that kubewatch.
type child struct{ Cluster, URL, Creds string }

func TestMain(m *testing.M) {
	if text := os.Getenv(childEnv); text != "" {
		var c child
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			panic(err)
		}
		err := kubewatch.Run(context.Background(), kubewatch.Config{
			Bus:      bus.Config{URL: c.URL, Creds: c.Creds},
			Clusters: []kubewatch.Cluster{{Name: "dev", Config: &rest.Config{Host: c.Cluster}}},
			Registry: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler), Version: "child",
		})
		panic(fmt.Sprint("the kubewatch ended unexpectedly: ", err))
	}
	goleak.VerifyTestMain(m)
}

// spawn runs a kubewatch in a process of its own, so that it can be killed.
func (r *rig) spawn() *exec.Cmd {
	r.t.Helper()
	text, err := json.Marshal(child{Cluster: r.cluster.URL, URL: r.bus.URL(), Creds: r.bus.Creds(bus.RoleKubewatch)})
	if err != nil {
		r.t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	return cmd
}

// TestKilled kills a kubewatch amid 1,000 events and checks that a standby takes over within
// the TTL of the lease, and that no event or fault is lost or published twice.
func TestKilled(t *testing.T) {
	r := newRig(t)
	first := r.spawn()
	r.watching()
	standby := r.watch("dev")
	const events, faults = 1000, 20
	for i := range events {
		e := event(fmt.Sprintf("Reason%d", i))
		if i%(events/faults) == 0 {
			e.Type = corev1.EventTypeWarning
			e.InvolvedObject.Name, e.InvolvedObject.UID = fmt.Sprintf("web-%d", i), ""
		}
		r.cluster.Event(e)
		if i == events/2 {
			r.until("events before it is killed", func() bool { return len(r.reasons()) > events/4 })
			if err := first.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			if standby.Health().Kubewatch.Clusters[0].Active {
				t.Error("the standby is active while the first kubewatch is, want it to stand by")
			}
		}
	}
	killed := time.Now()
	r.until("takeover", func() bool { return standby.Health().Kubewatch.Clusters[0].Active })
	if took := time.Since(killed); took > bus.KubewatchTTL+2*time.Second {
		t.Errorf("the takeover took %s, want at most %s", took, bus.KubewatchTTL+2*time.Second)
	}
	last := fmt.Sprintf("Reason%d", events-1)
	r.until("last event", func() bool { return slices.Contains(r.reasons(), last) })
	counts := map[string]int{}
	for _, reason := range r.reasons() {
		counts[reason]++
	}
	for i := range events {
		if n := counts[fmt.Sprintf("Reason%d", i)]; n != 1 {
			t.Errorf("event %d was published %d times, want once", i, n)
		}
	}
	ids, published := map[string]int{}, map[string]int{}
	for _, m := range r.published() {
		ids[m.id]++
		if m.Fault != nil && len(m.Logs) == 0 {
			published[m.Fault.ID]++
		}
	}
	for id, n := range ids {
		if n > 1 {
			t.Errorf("message %s was published %d times, want once", id, n)
		}
	}
	if len(published) != faults {
		t.Errorf("%d faults, want %d", len(published), faults)
	}
}

// TestDegraded checks that a degraded watch and its recovery are each published once on the
// stream and to the detector, and appear in the lease and in the health.
func TestDegraded(t *testing.T) {
	r := newRig(t)
	w := r.watch("dev")
	r.watching()
	refusal := kubetest.Answer{Status: http.StatusForbidden, Reason: metav1.StatusReasonForbidden}
	r.cluster.Answer("watch", kubetest.Path, refusal, refusal, refusal, refusal, refusal)
	r.cluster.CloseWatches()
	health := func() bool { return w.Health().OK }
	r.until("degraded watch", func() bool { return !health() })
	if h := w.Health(); !h.Kubewatch.Clusters[0].Degraded || !strings.Contains(h.Reason, "kubewatch needs the rights to list and watch events") {
		t.Errorf("health = %+v, want a degraded cluster and a reason with the missing rights", h)
	}
	kv, err := r.bus.Connect(bus.RoleGateway).JS.KeyValue(t.Context(), bus.BucketKubewatch)
	if err != nil {
		t.Fatal(err)
	}
	r.until("degraded watch in the lease", func() bool {
		keys, err := kv.Keys(t.Context())
		if err != nil || len(keys) != 1 {
			return false
		}
		entry, err := kv.Get(t.Context(), keys[0])
		var l kube.Leader
		return err == nil && json.Unmarshal(entry.Value(), &l) == nil && l.Cluster == "dev" && l.ClusterUID == "cluster-1" && l.Watch.Degraded
	})
	r.until("recovery", health)
	r.cluster.Event(event("After"))
	r.until("event after it", func() bool { return len(r.reasons()) == 1 })
	messages := r.published()
	if len(messages) != 3 || messages[0].Watch == nil || !messages[0].Watch.Degraded || messages[0].subject != "kubernetes.dev._cluster.watch.cluster.degraded" ||
		messages[1].Watch == nil || messages[1].Watch.Degraded || messages[1].subject != "kubernetes.dev._cluster.watch.cluster.recovered" {
		t.Errorf("messages = %+v, want degraded, recovered and an event", messages)
	}
	r.until("alerts", func() bool { return len(r.publishedAlerts()) == 2 })
	if a := r.publishedAlerts(); a[0].State != external.StateFiring || a[1].State != external.StateResolved || a[0].Key != a[1].Key || a[0].Episode != a[1].Episode ||
		a[0].Fault.Fault != kube.WatchDegraded || !strings.Contains(a[0].Detail, "the rights to list and watch") {
		t.Errorf("alerts = %+v, want a firing and a resolved one of one episode", a)
	}
}

// TestBusOutage checks that no event is lost or published twice over an outage of the bus.
func TestBusOutage(t *testing.T) {
	r := newRig(t)
	w := r.watch("dev")
	r.watching()
	for i := range 50 {
		r.cluster.Event(event(fmt.Sprintf("Before%d", i)))
	}
	r.bus.Stop(0)
	for i := range 50 {
		r.cluster.Event(event(fmt.Sprintf("Meanwhile%d", i)))
	}
	r.until("health without the bus", func() bool { return w.Ready() != nil })
	r.bus.Start(0)
	r.bus.Ready()
	r.until("health with the bus", func() bool { return w.Ready() == nil })
	r.cluster.Event(event("After"))
	r.until("last event", func() bool { return slices.Contains(r.reasons(), "After") })
	var want []string
	for _, when := range []string{"Before", "Meanwhile"} {
		for i := range 50 {
			want = append(want, fmt.Sprintf("%s%d", when, i))
		}
	}
	if got := r.reasons(); !slices.Equal(got, append(want, "After")) {
		t.Errorf("events = %v, want %v", got, append(want, "After"))
	}
}

// TestAnotherCluster checks that another cluster of the same name is watched from now on.
func TestAnotherCluster(t *testing.T) {
	r := newRig(t)
	w := r.watch("dev")
	r.watching()
	r.cluster.Event(event("One"))
	r.until("first event", func() bool { return len(r.reasons()) == 1 })
	w.stop(t)
	r.cluster.SetUID("cluster-2")
	r.cluster.Event(event("Before"))
	watches := r.cluster.Requests("watch " + kubetest.Path)
	r.watch("dev")
	r.until("watch", func() bool { return r.cluster.Requests("watch "+kubetest.Path) > watches })
	r.cluster.Event(event("Two"))
	r.until("second event", func() bool { return len(r.reasons()) > 1 })
	if got := r.reasons(); !slices.Equal(got, []string{"One", "Two"}) || r.published()[1].ClusterUID != "cluster-2" {
		t.Errorf("events = %v, the second of %s; want One and another, the second of the expected cluster", got, r.published()[1].ClusterUID)
	}
}

// TestClusterReplaced checks that a running kubewatch notices that another cluster answers at
// the address.
func TestClusterReplaced(t *testing.T) {
	r := newRig(t)
	r.watch("dev")
	r.watching()
	r.cluster.Event(event("One"))
	r.until("first event", func() bool { return len(r.reasons()) == 1 })
	r.cluster.Patient()
	r.cluster.Answer("watch", kubetest.Path, kubetest.Answer{Status: http.StatusServiceUnavailable})
	r.cluster.SetUID("cluster-2")
	watches := r.cluster.Requests("watch " + kubetest.Path)
	r.cluster.Restore(1000)
	r.until("watch of the other one", func() bool { return r.cluster.Requests("watch "+kubetest.Path) > watches+1 })
	r.cluster.Event(event("Two"))
	r.until("second event", func() bool { return len(r.reasons()) > 1 })
	if got := r.reasons(); !slices.Equal(got, []string{"One", "Two"}) || r.published()[1].ClusterUID != "cluster-2" {
		t.Errorf("events = %v, the second of %s; want One and another, the second of the expected cluster", got, r.published()[1].ClusterUID)
	}
}

// TestRolesNotRead checks that a cluster whose uid is known resumes while its API server, which
// has just started and not read the roles, refuses everything.
func TestRolesNotRead(t *testing.T) {
	r := newRig(t)
	w := r.watch("dev")
	r.watching()
	r.cluster.Event(event("One"))
	r.until("first event", func() bool { return len(r.reasons()) == 1 })
	w.stop(t)
	r.cluster.Event(event("Meanwhile"))
	r.cluster.Answer("get", "/api/v1/namespaces/kube-system", kubetest.Answer{Status: http.StatusForbidden, Reason: metav1.StatusReasonForbidden})
	r.watch("dev")
	r.until("event that came meanwhile", func() bool { return len(r.reasons()) > 1 })
	if got := r.reasons(); !slices.Equal(got, []string{"One", "Meanwhile"}) || r.published()[1].ClusterUID != "cluster-1" {
		t.Errorf("events = %v, the second of %s; want One and another, the second of the expected cluster", got, r.published()[1].ClusterUID)
	}
}

// TestUIDForbidden checks that a cluster that does not reveal its uid is identified by its
// address.
func TestUIDForbidden(t *testing.T) {
	r := newRig(t)
	refusal := kubetest.Answer{Status: http.StatusForbidden, Reason: metav1.StatusReasonForbidden}
	r.cluster.Answer("get", "/api/v1/namespaces/kube-system", refusal, refusal)
	r.watch("dev")
	r.watching()
	r.cluster.Event(event("One"))
	r.until("event", func() bool { return len(r.reasons()) == 1 })
	if uid := r.published()[0].ClusterUID; !strings.HasPrefix(uid, "address-") {
		t.Errorf("uid = %q, want one with the prefix address-", uid)
	}
}

// TestTwoNames checks that a cluster with two names is watched once.
func TestTwoNames(t *testing.T) {
	r := newRig(t)
	state := &kubewatch.State{}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- kubewatch.Run(ctx, kubewatch.Config{
			Bus: r.bus.Config(bus.RoleKubewatch), Registry: prometheus.NewRegistry(), Logger: r.log, State: state,
			Clusters: []kubewatch.Cluster{{Name: "one", Config: r.cluster.Config()}, {Name: "two", Config: r.cluster.Config()}},
		})
	}()
	r.until("two requests for the uid", func() bool { return r.cluster.Requests("get /api/v1/namespaces/kube-system") == 2 })
	r.watching()
	r.cluster.Event(event("One"))
	r.until("event", func() bool { return len(r.reasons()) == 1 })
	if n := r.cluster.Requests("watch " + kubetest.Path); n != 1 {
		t.Errorf("%d watches, want 1", n)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
}
