// Package kubewatch watches Kubernetes clusters, each once for all who want to know,
// and publishes what happens there: events as the cluster tells them, faults that are
// found in events and in the state of objects, and the logs that go with those.
//
// Of several kubewatches one is active for each cluster, see package lease; the others
// stand by. The stream is the memory: whoever becomes active reads in it what was
// published, and goes on there, so that the end of a process at any moment neither
// loses nor doubles anything (term.go). This package joins the bus, composes the parts
// and says how they are; what a fault is, package fault decides.
package kubewatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/tocsin-bus/tocsin/services/kubewatch/clusters"
	"github.com/tocsin-bus/tocsin/services/kubewatch/logs"
	"github.com/tocsin-bus/tocsin/services/kubewatch/outbox"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/presence"
)

// Config says which clusters to watch, and which bus to publish on.
type Config struct {
	// Bus is how to join; Name and Role are filled in here.
	Bus bus.ConnConfig
	// Provision creates missing streams first: for an external bus, which
	// nobody else prepares.
	Provision bool
	// Layout is how those lie on its servers.
	Layout bus.Layout
	// Clusters are to be watched.
	Clusters []clusters.Cluster
	// Logs bounds what is read of containers' logs.
	Logs     logs.Config
	Registry prometheus.Registerer
	Logger   *slog.Logger
	// State, where it is not nil, is told how the kubewatch is.
	State *State
	// Version is that of the build, for who asks how the kubewatch is.
	Version string
	// Ready is called once, when the bus is joined. It may be nil.
	Ready func()
}

const (
	// prepareTimeout bounds one try to get ready on the bus, prepareRetry is the pause
	// after it.
	prepareTimeout = 30 * time.Second
	prepareRetry   = 500 * time.Millisecond
)

// Run watches until ctx ends, and then gives up its clusters in order and returns nil.
// A bus that is away is waited for.
func Run(ctx context.Context, cfg Config) error {
	if len(cfg.Clusters) == 0 {
		return errors.New("watch Kubernetes: no cluster")
	}
	if cfg.State == nil {
		cfg.State = &State{}
	}
	if cfg.Ready != nil {
		cfg.Ready = sync.OnceFunc(cfg.Ready)
	}
	log := cfg.Logger.With("component", "kubewatch")
	k := &process{
		Config: cfg, log: log, who: presence.Identify("kubewatch", cfg.Version, log),
		metrics: newMetrics(cfg.Registry), uids: map[string]string{}, capturer: logs.New(cfg.Logs),
	}
	for _, c := range cfg.Clusters {
		m, err := newMember(k, c)
		if err != nil {
			return err
		}
		k.members = append(k.members, m)
	}
	k.State.watches(k.members)
	for {
		err := k.runOnce(ctx)
		if !errors.Is(err, errConnectionGone) {
			return err
		}
		k.log.Warn("kubewatch starts again", "because", err)
		if !pause(ctx, prepareRetry) {
			return nil
		}
	}
}

// errConnectionGone says that the connection was closed for good, as it is when the bus
// no longer knows our credentials: those of a new bus must be read.
var errConnectionGone = errors.New("the bus has closed the connection")

// process is what the clusters of one kubewatch share.
type process struct {
	Config
	// who tells it from other kubewatches on the bus, also when it connects anew.
	who      presence.Config
	capturer *logs.Capturer
	log      *slog.Logger
	metrics  *metrics
	members  []*member

	// Of the present connection.
	conn      *bus.Conn
	publisher *bus.Publisher
	places    jetstream.KeyValue

	mu sync.Mutex
	// uids are the names of the clusters that are watched here, by uid.
	uids map[string]string
}

func (k *process) runOnce(ctx context.Context) (err error) {
	join := k.Bus
	join.Name, join.Role, join.Logger = "tocsin kubewatch", bus.RoleKubewatch, k.Logger
	if k.conn, err = bus.Connect(ctx, join); err != nil {
		return err
	}
	defer k.conn.Close()
	if err := k.untilReady(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	defer k.State.joined(false, nil)
	k.State.joined(true, nil)
	if k.Ready != nil {
		k.Ready()
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return k.watchConnection(ctx) })
	group.Go(func() error {
		err := presence.Serve(ctx, k.conn, k.who, k.State.Health)
		if errors.Is(err, presence.ErrClosed) {
			return nil // watchConnection says so
		}
		return err
	})
	for _, m := range k.members {
		group.Go(func() error { m.run(ctx); return nil })
	}
	return group.Wait()
}

// untilReady tries to get ready on the bus until that succeeds or ctx ends, with nil for
// both. What stands in the way is logged once. Its error is errConnectionGone, or says
// what trying again will not mend.
func (k *process) untilReady(ctx context.Context) error {
	var told string
	for {
		if err := k.gone(); err != nil {
			return err
		}
		err := bus.ErrAway
		if k.conn.Connected() {
			err = k.prepare(ctx)
		} else if why := k.conn.Why(); why != nil {
			err = fmt.Errorf("%w: %w", err, why)
		}
		if err == nil || errors.Is(err, bus.ErrIncompatible) || ctx.Err() != nil {
			return onlyLasting(err)
		}
		k.State.joined(false, err)
		if text := err.Error(); text != told {
			told = text
			k.log.Warn("waiting for the bus", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-k.conn.Changes():
		case <-time.After(prepareRetry):
		}
	}
}

// onlyLasting is an error that trying again will not mend, or nil.
func onlyLasting(err error) error {
	if errors.Is(err, bus.ErrIncompatible) {
		return err
	}
	return nil
}

func (k *process) prepare(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	if k.Provision {
		if err := bus.Provision(ctx, k.conn, k.Layout, k.log); err != nil {
			return err
		}
	}
	if err := k.conn.Check(ctx, bus.StreamKubernetes); err != nil {
		return err
	}
	var locks jetstream.KeyValue
	for name, kv := range map[string]*jetstream.KeyValue{bus.BucketKubewatch: &locks, bus.BucketClusters: &k.places} {
		if *kv, err = k.conn.JS.KeyValue(ctx, name); err != nil {
			return fmt.Errorf("open the bucket %s: %w: start tocsin up once, or run tocsin provision where the bus is an external one", name, err)
		}
	}
	k.publisher, err = outbox.NewPublisher(k.conn)
	return err
}

// gone is nil, or wraps errConnectionGone where the connection is closed for good.
func (k *process) gone() error {
	if !k.conn.NC.IsClosed() {
		return nil
	}
	err := errConnectionGone
	if why := k.conn.Why(); why != nil {
		err = fmt.Errorf("%w: %w", err, why)
	}
	k.State.joined(false, err)
	return err
}

// watchConnection fails once the connection is gone for good.
func (k *process) watchConnection(ctx context.Context) error {
	for {
		if err := k.gone(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-k.conn.Changes():
			k.State.joined(k.conn.Connected(), bus.ErrAway)
		}
	}
}

// claim notes that a cluster is watched under a name. One that is watched here under
// another name already is not watched twice: everything would be told twice.
func (k *process) claim(uid, name string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if other, taken := k.uids[uid]; taken && other != name {
		return fmt.Errorf("%w: it is watched as %s", errTwice, other)
	}
	k.uids[uid] = name
	return nil
}

func (k *process) unclaim(uid, name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.uids[uid] == name {
		delete(k.uids, uid)
	}
}

// errTwice says that two names are of one cluster.
var errTwice = errors.New("this is one cluster with two names")

// pause waits, and says whether ctx goes on.
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
