package kubewatch_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tocsin-bus/tocsin/services/kubewatch"
	"github.com/tocsin-bus/tocsin/services/kubewatch/kubetest"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
	"github.com/tocsin-bus/tocsin/shared/external"
	"github.com/tocsin-bus/tocsin/shared/kube"
)

// waitTimeout bounds a wait; the machine may be busy.
const waitTimeout = 60 * time.Second

// rig is a bus, a cluster and the messages on the bus.
type rig struct {
	t       *testing.T
	bus     *bustest.Rig
	cluster *kubetest.Server
	log     *slog.Logger

	mu       sync.Mutex
	messages []stored
	alerts   []external.Alert
}

type stored struct {
	kube.Message
	subject, id string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, bus: bustest.Cluster(t, 1), cluster: kubetest.New(t), log: slog.New(slog.DiscardHandler)}
	if os.Getenv("KUBEWATCH_TEST_LOG") != "" {
		r.log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	r.bus.Provision(bus.Layout{})
	r.listen()
	return r
}

// listen collects what is published until the end of the test.
func (r *rig) listen() {
	ctx, cancel := context.WithCancel(context.Background())
	var listening sync.WaitGroup
	follow := func(role bus.Role, stream string, subjects []string, take func(bus.Message)) {
		c := r.bus.Connect(role)
		listening.Go(func() {
			err := c.Follow(ctx, bus.FollowConfig{Stream: stream, Subjects: subjects, Logger: r.log}, func(m bus.Message) error {
				r.mu.Lock()
				defer r.mu.Unlock()
				take(m)
				return nil
			})
			if !errors.Is(err, context.Canceled) {
				r.t.Errorf("follow %s: %v", stream, err)
			}
		})
	}
	follow(bus.RoleGateway, bus.StreamKubernetes, nil, func(m bus.Message) {
		s := stored{subject: m.Subject, id: m.Header.Get("Nats-Msg-Id")}
		if err := json.Unmarshal(m.Data, &s.Message); err != nil {
			r.t.Errorf("decode message %d: %v", m.Seq, err)
		}
		r.messages = append(r.messages, s)
	})
	follow(bus.RoleDetector, bus.StreamTelemetry, []string{bus.SubjectIntakeAlerts}, func(m bus.Message) {
		alerts, err := external.DecodeMessage(m.Data)
		if err != nil {
			r.t.Errorf("decode the alerts of message %d: %v", m.Seq, err)
		}
		r.alerts = append(r.alerts, alerts...)
	})
	r.t.Cleanup(func() {
		cancel()
		listening.Wait()
	})
}

// watcher is a running kubewatch.
type watcher struct {
	*kubewatch.State
	Registry *prometheus.Registry
	cancel   context.CancelFunc
	ended    chan error
}

// watch runs a kubewatch until stop or the end of the test.
func (r *rig) watch(name string) *watcher {
	r.t.Helper()
	return r.watchIn(name, "")
}

// watchIn is watch for one namespace.
func (r *rig) watchIn(name, namespace string) *watcher {
	r.t.Helper()
	w := &watcher{State: &kubewatch.State{}, Registry: prometheus.NewRegistry(), ended: make(chan error, 1)}
	var ctx context.Context
	ctx, w.cancel = context.WithCancel(context.Background())
	go func() {
		w.ended <- kubewatch.Run(ctx, kubewatch.Config{
			Bus: r.bus.Config(bus.RoleKubewatch), Clusters: []kubewatch.Cluster{{Name: name, Config: r.cluster.Config(), Namespace: namespace}},
			Registry: w.Registry, Logger: r.log, State: w.State, Version: "test",
		})
	}()
	r.t.Cleanup(func() { w.stop(r.t) })
	return w
}

func (w *watcher) stop(t *testing.T) {
	t.Helper()
	w.cancel()
	select {
	case err := <-w.ended:
		if err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
		w.ended <- nil
	case <-time.After(waitTimeout):
		t.Fatalf("kubewatch still runs after %s", waitTimeout)
	}
}

// until waits until ok returns true.
func (r *rig) until(what string, ok func() bool) {
	r.t.Helper()
	bustest.Eventually(r.t, what, ok)
}

// published returns the messages of the stream KUBERNETES so far.
func (r *rig) published() []stored {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]stored(nil), r.messages...)
}

// publishedAlerts returns the alerts for the detector so far.
func (r *rig) publishedAlerts() []external.Alert {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]external.Alert(nil), r.alerts...)
}

// reasons returns the reasons of the published events, in order.
func (r *rig) reasons() []string {
	var all []string
	for _, m := range r.published() {
		if m.Event != nil && m.Fault == nil {
			all = append(all, m.Event.Reason)
		}
	}
	return all
}

// watching waits until a kubewatch reads the cluster.
func (r *rig) watching() {
	r.t.Helper()
	r.until("watch of the cluster", func() bool { return r.cluster.Requests("watch "+kubetest.Path) > 0 })
}
