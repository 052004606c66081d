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
	"github.com/tocsin-bus/tocsin/services/kubewatch/clusters"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/lease"
	"github.com/tocsin-bus/tocsin/shared/kube"
	"github.com/tocsin-bus/tocsin/shared/query"
)

// member is this kubewatch's part in the watch of one cluster: active, or standing by.
type member struct {
	*process
	name   string
	client *api.Client
	// key is that of the cluster's lock and place in their buckets.
	key string
	log *slog.Logger

	active               atomic.Bool
	uid                  atomic.Pointer[string]
	watch                atomic.Pointer[kube.Watch]
	events, faults, logs atomic.Uint64
	// changed has the lock say how the watch is.
	changed chan struct{}
}

func newMember(k *process, c clusters.Cluster) (*member, error) {
	client, err := api.Connect(c.Config)
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", c.Name, err)
	}
	client = client.In(c.Namespace)
	m := &member{process: k, name: c.Name, client: client, key: key(c.Name), log: k.log.With("cluster", c.Name), changed: make(chan struct{}, 1)}
	m.metrics.begin(c.Name)
	return m, nil
}

// key names a cluster in a bucket: readable, and another one for each name.
func key(name string) string {
	sum := sha256.Sum256([]byte(name))
	return bus.Token(name) + "-" + hex.EncodeToString(sum[:4])
}

// run takes part until ctx ends.
func (m *member) run(ctx context.Context) {
	lease.Run(ctx, lease.Config{
		Store: lease.InBucket(m.conn.Document(bus.BucketKubewatch, m.key), m.ours), TTL: bus.KubewatchTTL,
		Value: m.lock, Changed: m.changed, Held: m.holds, Logger: m.log,
	}, func(ctx context.Context) error {
		err := m.term(ctx)
		if errors.Is(err, errTwice) {
			m.log.Error("this cluster is not watched under this name", "because", err)
			<-ctx.Done() // its lock is kept: nobody else should try
			return nil
		}
		return err
	})
	m.client.Close()
}

// lock is what the lock says.
func (m *member) lock() []byte {
	l := kube.Leader{Cluster: m.name, ID: m.who.ID}
	if uid := m.uid.Load(); uid != nil {
		l.ClusterUID = *uid
	}
	if w := m.watch.Load(); w != nil {
		l.Watch = *w
	}
	data, err := json.Marshal(l)
	if err != nil {
		return nil // not reached: it holds texts alone
	}
	return data
}

// ours says whether a lock is this process's.
func (m *member) ours(value []byte) bool {
	var l kube.Leader
	return json.Unmarshal(value, &l) == nil && l.ID == m.who.ID
}

func (m *member) holds(active bool) {
	m.active.Store(active)
	value := 0.0
	if active {
		value = 1
		m.log.Info("this kubewatch watches the cluster")
	} else {
		m.says(kube.Watch{}) // who is active says how it is
	}
	m.metrics.active.WithLabelValues(m.name).Set(value)
}

// says notes how the watch is, for the lock and for who asks.
func (m *member) says(w kube.Watch) {
	m.watch.Store(&w)
	value := 0.0
	if w.Degraded {
		value = 1
	}
	m.metrics.degraded.WithLabelValues(m.name).Set(value)
	select {
	case m.changed <- struct{}{}:
	default: // it will be renewed anyway
	}
}

// health is how the watch is, in the words of query.health.
func (m *member) health() query.ClusterHealth {
	h := query.ClusterHealth{
		Cluster: m.name, Active: m.active.Load(),
		Events: m.events.Load(), Faults: m.faults.Load(), Logs: m.logs.Load(),
	}
	if w := m.watch.Load(); w != nil {
		h.Degraded, h.Error = w.Degraded, w.Error
	}
	return h
}
