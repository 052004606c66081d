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
	"github.com/tocsin-bus/tocsin/services/kubewatch/clusters"
	"github.com/tocsin-bus/tocsin/services/kubewatch/kubetest"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/external"
	"github.com/tocsin-bus/tocsin/shared/kube"
)

// childEnv has this test be a kubewatch that can be killed.
const childEnv = "KUBEWATCH_TEST_CHILD"

// child is how it joins.
type child struct{ Cluster, URL, Creds string }

func TestMain(m *testing.M) {
	if said := os.Getenv(childEnv); said != "" {
		var c child
		if err := json.Unmarshal([]byte(said), &c); err != nil {
			panic(err)
		}
		err := kubewatch.Run(context.Background(), kubewatch.Config{
			Bus:      bus.ConnConfig{URL: c.URL, Creds: c.Creds},
			Clusters: []clusters.Cluster{{Name: "dev", Config: &rest.Config{Host: c.Cluster}}},
			Registry: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler), Version: "child",
		})
		panic(fmt.Sprint("a kubewatch ended by itself: ", err))
	}
	goleak.VerifyTestMain(m)
}

// spawn runs a kubewatch in a process of its own, to be killed.
func (r *rig) spawn() *exec.Cmd {
	r.t.Helper()
	said, err := json.Marshal(child{Cluster: r.cluster.URL, URL: r.bus.URL(), Creds: r.bus.Creds(bus.RoleKubewatch)})
	if err != nil {
		r.t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(said))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may be over
		_ = cmd.Wait()
	})
	return cmd
}

// TestKilled: kubewatch is killed in the midst of 1,000 events; another one that stands
// by goes on, within the lock's time. None is lost and none doubled, nor any fault.
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
				t.Error("both were active")
			}
		}
	}
	killed := time.Now()
	r.until("takeover", func() bool { return standby.Health().Kubewatch.Clusters[0].Active })
	if took := time.Since(killed); took > bus.KubewatchTTL+2*time.Second {
		t.Errorf("the takeover took %s", took)
	}
	last := fmt.Sprintf("Reason%d", events-1)
	r.until("last event", func() bool { return slices.Contains(r.reasons(), last) })
	counts := map[string]int{}
	for _, reason := range r.reasons() {
		counts[reason]++
	}
	for i := range events {
		if n := counts[fmt.Sprintf("Reason%d", i)]; n != 1 {
			t.Errorf("event %d was published %d times", i, n)
		}
	}
	ids, told := map[string]int{}, map[string]int{}
	for _, m := range r.said() {
		ids[m.id]++
		if m.Fault != nil && len(m.Logs) == 0 {
			told[m.Fault.ID]++
		}
	}
	for id, n := range ids {
		if n > 1 {
			t.Errorf("%s was published %d times", id, n)
		}
	}
	if len(told) != faults {
		t.Errorf("%d faults, want %d", len(told), faults)
	}
}

// TestDegraded: that a cluster can't be watched is told once, and its end, on the
// stream, to the detector, by the lock and to who asks.
func TestDegraded(t *testing.T) {
	r := newRig(t)
	w := r.watch("dev")
	r.watching()
	refusal := kubetest.Answer{Status: http.StatusForbidden, Reason: metav1.StatusReasonForbidden}
	r.cluster.Answer("watch", kubetest.Path, refusal, refusal, refusal, refusal, refusal)
	r.cluster.CloseWatches()
	health := func() bool { return w.Health().OK }
	r.until("degraded watch", func() bool { return !health() })
	if h := w.Health(); !h.Kubewatch.Clusters[0].Degraded || !strings.Contains(h.Reason, "kubewatch needs to list and watch events") {
		t.Errorf("%+v", h)
	}
	kv, err := r.bus.Connect(bus.RoleGateway).JS.KeyValue(t.Context(), bus.BucketKubewatch)
	if err != nil {
		t.Fatal(err)
	}
	r.until("word of the lock", func() bool {
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
	said := r.said()
	if len(said) != 3 || said[0].Watch == nil || !said[0].Watch.Degraded || said[0].subject != "kubernetes.dev._cluster.watch.cluster.degraded" ||
		said[1].Watch == nil || said[1].Watch.Degraded || said[1].subject != "kubernetes.dev._cluster.watch.cluster.recovered" {
		t.Errorf("%+v", said)
	}
	r.until("alerts", func() bool { return len(r.alerted()) == 2 })
	if a := r.alerted(); a[0].State != external.StateFiring || a[1].State != external.StateResolved || a[0].Key != a[1].Key || a[0].Episode != a[1].Episode ||
		a[0].Fault.Fault != kube.WatchDegraded || !strings.Contains(a[0].Detail, "needs to list and watch") {
		t.Errorf("%+v", a)
	}
}

// TestBusAway: while the bus is away nothing is lost, and nothing is published twice
// when it is back.
func TestBusAway(t *testing.T) {
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
	r.until("word that the bus is away", func() bool { return w.Ready() != nil })
	r.bus.Start(0)
	r.bus.Ready()
	r.until("word that it is back", func() bool { return w.Ready() == nil })
	r.cluster.Event(event("After"))
	r.until("last event", func() bool { return slices.Contains(r.reasons(), "After") })
	var want []string
	for _, when := range []string{"Before", "Meanwhile"} {
		for i := range 50 {
			want = append(want, fmt.Sprintf("%s%d", when, i))
		}
	}
	if got := r.reasons(); !slices.Equal(got, append(want, "After")) {
		t.Errorf("%v", got)
	}
}

// TestAnotherCluster: the name is that of another cluster now, whose events begin anew.
func TestAnotherCluster(t *testing.T) {
	r := newRig(t)
	w := r.watch("dev")
	r.watching()
	r.cluster.Event(event("One"))
	r.until("first event", func() bool { return len(r.reasons()) == 1 })
	w.stop(t)
	r.cluster.SetUID("cluster-2")
	r.cluster.Event(event("Before"))
	watches := r.cluster.Asked("watch " + kubetest.Path)
	r.watch("dev")
	r.until("watch", func() bool { return r.cluster.Asked("watch "+kubetest.Path) > watches })
	r.cluster.Event(event("Two"))
	r.until("second event", func() bool { return len(r.reasons()) > 1 })
	if got := r.reasons(); !slices.Equal(got, []string{"One", "Two"}) || r.said()[1].ClusterUID != "cluster-2" {
		t.Errorf("%v", got)
	}
}

// TestAnotherClusterMeanwhile: the cluster is away, and another one comes back at its
// address while kubewatch runs.
func TestAnotherClusterMeanwhile(t *testing.T) {
	r := newRig(t)
	r.watch("dev")
	r.watching()
	r.cluster.Event(event("One"))
	r.until("first event", func() bool { return len(r.reasons()) == 1 })
	r.cluster.Patient()
	r.cluster.Answer("watch", kubetest.Path, kubetest.Answer{Status: http.StatusServiceUnavailable})
	r.cluster.SetUID("cluster-2")
	watches := r.cluster.Asked("watch " + kubetest.Path)
	r.cluster.Restore(1000)
	r.until("watch of the other one", func() bool { return r.cluster.Asked("watch "+kubetest.Path) > watches+1 })
	r.cluster.Event(event("Two"))
	r.until("second event", func() bool { return len(r.reasons()) > 1 })
	if got := r.reasons(); !slices.Equal(got, []string{"One", "Two"}) || r.said()[1].ClusterUID != "cluster-2" {
		t.Errorf("%v", got)
	}
}

// TestRolesNotReadYet: an API server that was started just now refuses everything. A
// cluster that said who it is goes on where it was, and not by its address.
func TestRolesNotReadYet(t *testing.T) {
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
	if got := r.reasons(); !slices.Equal(got, []string{"One", "Meanwhile"}) || r.said()[1].ClusterUID != "cluster-1" {
		t.Errorf("%v", got)
	}
}

// TestNoRightToTheUID: a cluster that does not say who it is goes by its address.
func TestNoRightToTheUID(t *testing.T) {
	r := newRig(t)
	refusal := kubetest.Answer{Status: http.StatusForbidden, Reason: metav1.StatusReasonForbidden}
	r.cluster.Answer("get", "/api/v1/namespaces/kube-system", refusal, refusal)
	r.watch("dev")
	r.watching()
	r.cluster.Event(event("One"))
	r.until("event", func() bool { return len(r.reasons()) == 1 })
	if uid := r.said()[0].ClusterUID; !strings.HasPrefix(uid, "address-") {
		t.Errorf("%q", uid)
	}
}

// TestTwoNames: one cluster under two names is watched once.
func TestTwoNames(t *testing.T) {
	r := newRig(t)
	state := &kubewatch.State{}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- kubewatch.Run(ctx, kubewatch.Config{
			Bus: r.bus.Config(bus.RoleKubewatch), Registry: prometheus.NewRegistry(), Logger: r.log, State: state,
			Clusters: []clusters.Cluster{{Name: "one", Config: r.cluster.Config()}, {Name: "two", Config: r.cluster.Config()}},
		})
	}()
	r.until("two questions for the uid", func() bool { return r.cluster.Asked("get /api/v1/namespaces/kube-system") == 2 })
	r.watching()
	r.cluster.Event(event("One"))
	r.until("event", func() bool { return len(r.reasons()) == 1 })
	if n := r.cluster.Asked("watch " + kubetest.Path); n != 1 {
		t.Errorf("%d watches", n)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
