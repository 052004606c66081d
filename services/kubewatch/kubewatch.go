// Package kubewatch watches Kubernetes clusters and publishes what happens in them:
// Kubernetes events, the faults that it finds in events and in the state of objects, and
// the logs that belong to faults.
//
// If several kubewatches run, one is active for each cluster (see shared/bus/lease) and the
// others stand by. The stream KUBERNETES is the memory: a kubewatch that becomes active
// reads what was published and resumes from there, so a process that ends at any moment
// neither loses a message nor publishes it twice (leadership.go). This package keeps the
// session on the bus, composes the parts and reports their health. Package fault decides
// what a fault is.
package kubewatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/tocsin-bus/tocsin/services/kubewatch/logs"
	"github.com/tocsin-bus/tocsin/services/kubewatch/outbox"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/presence"
)

// Config configures a kubewatch.
type Config struct {
	// Bus is the bus to join. Name and Role are filled in here.
	Bus bus.Config
	// Provision creates missing streams first. It is for an external bus.
	Provision bool
	// Layout is the layout of the streams that Provision creates.
	Layout bus.Layout
	// Clusters are the clusters to watch.
	Clusters []Cluster
	// Logs bounds reading the logs of containers.
	Logs     logs.Config
	Registry prometheus.Registerer
	Logger   *slog.Logger
	// State receives the health of the kubewatch. It may be nil.
	State *State
	// Version is the version of the build, for query.health.
	Version string
	// Ready is called once, when the bus is joined. It may be nil.
	Ready func()
}

// sessionPause is the pause between two sessions on the bus.
const sessionPause = 500 * time.Millisecond

// Run watches until ctx ends, then shuts down the watches, releases the clusters and
// returns nil. It waits for a bus that is unreachable.
func Run(ctx context.Context, cfg Config) error {
	if len(cfg.Clusters) == 0 {
		return errors.New("watch Kubernetes: no cluster")
	}
	if cfg.State == nil {
		cfg.State = &State{}
	}
	if cfg.Ready == nil {
		cfg.Ready = func() {}
	}
	cfg.Ready = sync.OnceFunc(cfg.Ready)
	log := cfg.Logger.With("component", "kubewatch")
	k := &process{
		Config: cfg, log: log, identity: presence.Identify("kubewatch", cfg.Version, log),
		metrics: newMetrics(cfg.Registry), names: map[string]string{}, capturer: logs.New(cfg.Logs),
	}
	var watches []*clusterWatch
	for _, c := range cfg.Clusters {
		w, err := newClusterWatch(k, c)
		if err != nil {
			return err
		}
		watches = append(watches, w)
	}
	k.State.setWatches(watches)
	session := cfg.Bus
	session.Name, session.Role, session.Logger = "tocsin kubewatch", bus.RoleKubewatch, cfg.Logger
	return bus.Run(ctx, bus.RunConfig{Config: session, Pause: sessionPause, Reachable: k.State.setReachable}, func(ctx context.Context, s *bus.Session) error {
		return k.runSession(ctx, s, watches)
	})
}

// process is what the watches of one kubewatch share.
type process struct {
	Config
	// identity identifies this kubewatch on the bus, also over sessions.
	identity presence.Config
	capturer *logs.Capturer
	log      *slog.Logger
	metrics  *metrics

	mu sync.Mutex
	// names are the names of the watched clusters, by uid.
	names map[string]string
}

// runSession watches the clusters on one session.
func (k *process) runSession(ctx context.Context, s *bus.Session, watches []*clusterWatch) error {
	var publisher *bus.Publisher
	err := s.Await(ctx, bus.AwaitConfig{Waiting: k.State.setBlocked, Logger: k.log}, func(ctx context.Context) (err error) {
		publisher, err = k.prepare(ctx, s)
		return err
	})
	if err != nil {
		return err
	}
	k.State.setPrepared(true)
	defer k.State.setPrepared(false)
	k.Ready()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return presence.Serve(ctx, s, k.identity, k.State.Health) })
	for _, w := range watches {
		group.Go(func() error { w.run(ctx, s, publisher); return nil })
	}
	return group.Wait()
}

// prepare checks that the bus has all that is needed, and creates the streams if Provision
// is set.
func (k *process) prepare(ctx context.Context, s *bus.Session) (*bus.Publisher, error) {
	if k.Provision {
		if err := bus.Provision(ctx, s, k.Layout, k.log); err != nil {
			return nil, err
		}
	}
	for _, stream := range []string{bus.StreamKubernetes, "KV_" + bus.BucketKubewatch, "KV_" + bus.BucketClusters} {
		if err := s.Check(ctx, stream); err != nil {
			return nil, err
		}
	}
	return outbox.NewPublisher(s)
}

// errDuplicateCluster is returned for the second name of a cluster.
var errDuplicateCluster = errors.New("this is one cluster with two names")

// claimUID records the name of a watched cluster. A cluster is not watched under two names,
// because everything would be published twice.
func (k *process) claimUID(uid, name string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if other, taken := k.names[uid]; taken && other != name {
		return fmt.Errorf("%w: it is watched as %s", errDuplicateCluster, other)
	}
	k.names[uid] = name
	return nil
}

func (k *process) releaseUID(uid, name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.names[uid] == name {
		delete(k.names, uid)
	}
}

// pause waits for d and reports whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
