package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/services/gateway/busclient"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/namespaces"
	"github.com/tocsin-bus/tocsin/shared/redact"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// The errors of Subscribe if there is nothing to subscribe to.
var (
	// ErrNoCluster is returned when no cluster is watched.
	ErrNoCluster = errors.New("no Kubernetes cluster is watched: start tocsin kubewatch in the cluster, or on a machine with a kubeconfig")
	// ErrNoStream is returned by a bus of an older version.
	ErrNoStream = errors.New("this bus has no stream for Kubernetes yet: restart tocsin up, or run tocsin provision on an external bus")
)

// Writer writes notifications to a client.
type Writer interface {
	// TryWrite writes a line at once, or fails if the client does not listen.
	TryWrite(line []byte) error
	// Interrupt aborts a write that is under way, if possible. Its line must be written
	// again.
	Interrupt()
	// Gone reports whether the client has disconnected for good.
	Gone() bool
	// Await waits until the client listens. ok is false if ctx ends before. lost is closed
	// when the client no longer listens.
	Await(ctx context.Context) (lost <-chan struct{}, ok bool)
}

// SubscriptionsConfig configures the subscriptions of one client. Every field is required.
type SubscriptionsConfig struct {
	Bus *busclient.Client
	// Life ends the subscriptions when it is aborted.
	Life       *busclient.Lifetime
	Namespaces namespaces.Set
	Quota      *Quota
	Writer     Writer
	// Accepts reports whether the client takes notifications of a level.
	Accepts func(alert.Severity) bool
	// WatchesRead is called once the records of all kubewatches were read, WatchSeen for each
	// record.
	WatchesRead, WatchSeen func()
	Mask                   *redact.Engine
	Logger                 *slog.Logger
}

// Subscriptions are one client's subscriptions to Kubernetes clusters. They follow the
// stream of Kubernetes messages and write notifications.
type Subscriptions struct {
	cfg     SubscriptionsConfig
	bus     *busclient.Client
	log     *slog.Logger
	running sync.WaitGroup

	mu sync.Mutex
	// watchers are the kubewatches that watch clusters.
	watchers Watchers
	byID     map[string]*subscription
	closed   bool
}

// NewSubscriptions returns an empty set of subscriptions.
func NewSubscriptions(cfg SubscriptionsConfig) *Subscriptions {
	return &Subscriptions{cfg: cfg, bus: cfg.Bus, log: cfg.Logger, byID: map[string]*subscription{}}
}

// Wait waits until all subscriptions have ended, after the lifetime was aborted.
func (s *Subscriptions) Wait() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.running.Wait()
}

// SubscriptionInfo describes a subscription.
type SubscriptionInfo struct {
	ID      string  `json:"subscriptionId"`
	Cluster string  `json:"cluster"`
	Mode    Mode    `json:"mode"`
	Filters Filters `json:"filters"`
}

func (s *subscription) info() SubscriptionInfo {
	return SubscriptionInfo{s.id, sanitize.Visible(s.filter.Cluster()), s.filter.Mode(), s.filter.Filters()}
}

// Subscribe starts a subscription to the messages from now on. Notifications wait until
// answered is closed, so that they come after the answer. degraded is the reason why none come
// for now, or "".
func (s *Subscriptions) Subscribe(ctx context.Context, cluster string, mode Mode, filters Filters, answered <-chan struct{}) (made SubscriptionInfo, degraded string, err error) {
	after, err := s.streamEnd(ctx)
	if err != nil {
		return SubscriptionInfo{}, "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.closed || s.cfg.Life.Context().Err() != nil {
		return SubscriptionInfo{}, "", busclient.ErrShutdown
	}
	cluster, degraded, err = s.resolveCluster(cluster, now)
	if err != nil {
		return SubscriptionInfo{}, "", err
	}
	filter, err := NewFilter(cluster, mode, filters, s.cfg.Namespaces)
	if err != nil {
		return SubscriptionInfo{}, "", err
	}
	release, err := s.cfg.Quota.Acquire(len(s.byID))
	if err != nil {
		return SubscriptionInfo{}, "", err
	}
	sub := newSubscription(s.cfg.Life.Context(), filter, now, release)
	sub.changeHealth(func(h *health) {
		h.degraded, h.unwatched, h.reason = degraded != "" && degraded != reasonUnwatched, degraded == reasonUnwatched, degraded
	})
	s.byID[sub.id] = sub
	s.running.Go(func() { s.serve(sub, after, answered) })
	s.running.Go(func() { s.watch(sub) })
	return sub.info(), degraded, nil
}

// streamEnd returns the position of the newest message of the stream.
func (s *Subscriptions) streamEnd(ctx context.Context) (bus.Position, error) {
	ctx, cancel := context.WithTimeout(ctx, busclient.RequestTimeout)
	defer cancel()
	state, err := s.bus.State(ctx, bus.StreamKubernetes)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return bus.Position{}, busclient.ErrNoAnswer
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return bus.Position{}, ErrNoStream
	}
	return state.End(), err
}

// reasonUnwatched is why a cluster that was watched before sends nothing.
const reasonUnwatched = "no kubewatch watches this cluster any more"

// resolveCluster finds a cluster by name, or the only watched one if the name is empty.
// degraded is the reason why it sends nothing for now, or "". The caller holds mu.
func (s *Subscriptions) resolveCluster(name string, now time.Time) (found, degraded string, err error) {
	live := s.watchers.Live(now, bus.KubewatchTTL)
	switch {
	case name == "" && len(live) == 1:
		name = live[0]
	case slices.Contains(live, name):
	case name != "" && slices.Contains(s.watchers.Known(), name):
		return name, reasonUnwatched, nil
	case len(live) == 0:
		return "", "", ErrNoCluster
	default:
		return "", "", fmt.Errorf("cluster must be one that is watched: %s", strings.Join(live, ", "))
	}
	if watch, _, _ := s.watchers.Status(name, now, bus.KubewatchTTL); watch.Degraded {
		return name, degradedReason(watch), nil
	}
	return name, "", nil
}

// Unsubscribe ends a subscription, and reports whether there was one of that id. After
// it has returned, nothing of the subscription is written.
func (s *Subscriptions) Unsubscribe(ctx context.Context, id string) (found bool, err error) {
	s.mu.Lock()
	sub := s.byID[id]
	delete(s.byID, id)
	s.mu.Unlock()
	if sub == nil {
		return false, nil
	}
	return true, sub.end(ctx, s.cfg.Writer)
}

// UnsubscribeAll ends all subscriptions.
func (s *Subscriptions) UnsubscribeAll(ctx context.Context) (err error) {
	s.mu.Lock()
	ended := s.byID
	s.byID = map[string]*subscription{}
	s.mu.Unlock()
	for _, sub := range ended {
		err = errors.Join(err, sub.end(ctx, s.cfg.Writer))
	}
	return err
}

// SubscriptionStatus is a subscription with its counters.
type SubscriptionStatus struct {
	SubscriptionInfo
	Since     string `json:"since"`
	Delivered uint64 `json:"delivered"`
	// Withheld messages are below the client's level, or forbidden by its protocol.
	Withheld uint64 `json:"withheld,omitempty"`
	// Dropped is an upper bound on the messages that the bus deleted unread.
	Dropped  uint64 `json:"dropped"`
	Degraded bool   `json:"degraded"`
	Error    string `json:"error,omitempty"`
}

// List returns the subscriptions, oldest first, and the clusters that are watched now.
func (s *Subscriptions) List() (all []SubscriptionStatus, clusters []string) {
	s.mu.Lock()
	subscriptions := make([]*subscription, 0, len(s.byID))
	for _, sub := range s.byID {
		subscriptions = append(subscriptions, sub)
	}
	clusters = s.liveClusters()
	s.mu.Unlock()
	slices.SortFunc(subscriptions, func(a, b *subscription) int { return a.began.Compare(b.began) })
	all = []SubscriptionStatus{}
	for _, sub := range subscriptions {
		h := sub.currentHealth()
		all = append(all, SubscriptionStatus{
			sub.info(), alert.FormatTime(sub.began), sub.delivered.Load(), sub.withheld.Load(), sub.dropped.Load(), h.interrupted(), h.reason,
		})
	}
	return all, clusters
}

// liveClusters are the clusters that are watched now, safe to print. The caller holds mu.
func (s *Subscriptions) liveClusters() []string {
	names := s.watchers.Live(time.Now(), bus.KubewatchTTL)
	for i := range names {
		names[i] = sanitize.Visible(names[i])
	}
	return names
}

// Health describes the Kubernetes subscriptions of a client for health reports.
type Health struct {
	// Clusters are those watched now. Subscriptions counts this client's.
	Clusters      []string `json:"clusters"`
	Subscriptions int      `json:"subscriptions"`
	// Degraded counts the subscriptions that receive nothing for now.
	Degraded int `json:"degraded"`
}

// Health describes the subscriptions. It returns nil if no kubewatch was ever seen.
func (s *Subscriptions) Health() *Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.watchers.Known()) == 0 {
		return nil
	}
	h := Health{Clusters: s.liveClusters(), Subscriptions: len(s.byID)}
	for _, sub := range s.byID {
		if sub.currentHealth().interrupted() {
			h.Degraded++
		}
	}
	return &h
}

// Len returns how many subscriptions there are.
func (s *Subscriptions) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byID)
}
