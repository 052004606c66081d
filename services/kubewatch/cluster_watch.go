package kubewatch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/tocsin-bus/tocsin/services/kubewatch/api"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/lease"
	"github.com/tocsin-bus/tocsin/shared/kube"
	"github.com/tocsin-bus/tocsin/shared/query"
)

// clusterWatch is the part of this kubewatch in the watch of one cluster: active or standby.
type clusterWatch struct {
	*process
	name   string
	client *api.Client
	// key is the cluster's key in the buckets of leases and checkpoints.
	key string
	log *slog.Logger

	active               atomic.Bool
	uid                  atomic.Pointer[string]
	status               atomic.Pointer[kube.Watch]
	events, faults, logs atomic.Uint64
	// statusChanged has the lease, which contains the status, renewed at once.
	statusChanged chan struct{}
}

func newClusterWatch(k *process, c Cluster) (*clusterWatch, error) {
	client, err := api.Connect(c.Config)
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", c.Name, err)
	}
	client = client.In(c.Namespace)
	w := &clusterWatch{
		process: k, name: c.Name, client: client, key: bucketKey(c.Name),
		log: k.log.With("cluster", c.Name), statusChanged: make(chan struct{}, 1),
	}
	w.metrics.addCluster(c.Name)
	return w, nil
}

// bucketKey returns the key of a cluster's name: readable, and unique by its hash.
func bucketKey(name string) string {
	sum := sha256.Sum256([]byte(name))
	return bus.Token(name) + "-" + hex.EncodeToString(sum[:4])
}

// run stands by for the cluster, and watches it while this kubewatch holds the lease, until
// ctx ends.
func (w *clusterWatch) run(ctx context.Context, s *bus.Session, publisher *bus.Publisher) {
	lease.Run(ctx, lease.Config{
		Store: lease.InBucket(s.Document(bus.BucketKubewatch, w.key), w.isOurs), TTL: bus.KubewatchTTL,
		Value: w.leaseValue, Changed: w.statusChanged, Held: w.setActive, Logger: w.log,
	}, func(ctx context.Context) error {
		err := w.lead(ctx, s, publisher)
		if errors.Is(err, errDuplicateCluster) {
			w.log.Error("this cluster is not watched under this name", "error", err)
			<-ctx.Done() // keep the lease: another kubewatch should not try either
			return nil
		}
		return err
	})
	w.client.Close()
}

// leaseValue returns the content of the lease: the active kubewatch and the status of the
// watch.
func (w *clusterWatch) leaseValue() []byte {
	l := kube.Leader{Cluster: w.name, ID: w.identity.ID}
	if uid := w.uid.Load(); uid != nil {
		l.ClusterUID = *uid
	}
	if status := w.status.Load(); status != nil {
		l.Watch = *status
	}
	data, err := json.Marshal(l)
	if err != nil {
		return nil // not reached: it contains only text
	}
	return data
}

// isOurs reports whether this process wrote the value of a lease.
func (w *clusterWatch) isOurs(value []byte) bool {
	var l kube.Leader
	return json.Unmarshal(value, &l) == nil && l.ID == w.identity.ID
}

func (w *clusterWatch) setActive(active bool) {
	w.active.Store(active)
	value := 0.0
	if active {
		value = 1
		w.log.Info("this kubewatch watches the cluster")
	} else {
		w.setStatus(kube.Watch{}) // the active kubewatch reports the status
	}
	w.metrics.active.WithLabelValues(w.name).Set(value)
}

// setStatus records how the watch is, for the lease and the health.
func (w *clusterWatch) setStatus(status kube.Watch) {
	w.status.Store(&status)
	value := 0.0
	if status.Degraded {
		value = 1
	}
	w.metrics.degraded.WithLabelValues(w.name).Set(value)
	select {
	case w.statusChanged <- struct{}{}:
	default: // a renewal is already due
	}
}

// health returns the part of the cluster in the answer to query.health.
func (w *clusterWatch) health() query.ClusterHealth {
	h := query.ClusterHealth{
		Cluster: w.name, Active: w.active.Load(),
		Events: w.events.Load(), Faults: w.faults.Load(), Logs: w.logs.Load(),
	}
	if status := w.status.Load(); status != nil {
		h.Degraded, h.Error = status.Degraded, status.Error
	}
	return h
}
