package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/services/gateway/kubernetes"
	"github.com/tocsin-bus/tocsin/services/gateway/namespaces"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/kube"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// The tools for Kubernetes.
const (
	toolSubscribe   = "events_subscribe"
	toolUnsubscribe = "events_unsubscribe"
	toolListed      = "events_list_subscriptions"
)

// kubernetesTools are those of the toolset kubernetes, which is there when a kubewatch
// is.
func (g *gateway) kubernetesTools() []definition {
	return []definition{
		{
			name: toolSubscribe, handle: g.subscribe,
			description: "Get what a Kubernetes cluster says as notifications while you work: mode events (each event as it comes) or faults (crashes, crash loops, image pulls, out of memory, nodes not ready, stalled deployments, failed jobs; with the containers' logs, under the same faultId a moment later). Needs a namespace or another filter.",
			schema: `{"type":"object","properties":{
"cluster":{"type":"string","description":"Default: the only one that is watched"},
"mode":{"type":"string","enum":["events","faults"],"default":"events"},
"namespaces":{"type":"array","items":{"type":"string"},"description":"Only these; _cluster stands for nodes and what else is in none"},
"labelSelector":{"type":"string","description":"Labels of the involved object, as kubectl takes them"},
"involvedKind":{"type":"string"},
"involvedName":{"type":"string"},
"involvedNamespace":{"type":"string"},
"type":{"type":"string","enum":["Normal","Warning"]},
"reason":{"type":"string","description":"How the reason begins"}},
"additionalProperties":false}`,
		},
		{
			name: toolUnsubscribe, handle: short(g.unsubscribe),
			description: "End a subscription of this session: nothing of it comes after the answer.",
			schema:      `{"type":"object","properties":{"subscriptionId":{"type":"string"}},"required":["subscriptionId"],"additionalProperties":false}`,
		},
		{
			name: toolListed, handle: short(g.listSubscriptions),
			description: "The Kubernetes subscriptions of this session, what they delivered, and whether their clusters can be watched (degraded).",
			schema:      `{"type":"object","properties":{},"additionalProperties":false}`,
		},
	}
}

// subscribed is the answer to a new subscription, and the beginning of each in the
// list.
type subscribed struct {
	ID      string             `json:"subscriptionId"`
	Cluster string             `json:"cluster"`
	Mode    kubernetes.Mode    `json:"mode"`
	Filters kubernetes.Filters `json:"filters"`
}

func (s *subscription) described() subscribed {
	return subscribed{s.id, sanitize.Visible(s.filter.Cluster()), s.filter.Mode(), s.filter.Filters()}
}

// subscribe begins a subscription with what comes from now on.
func (g *gateway) subscribe(ctx context.Context, c call) (answer, error) {
	a := readArguments(c.arguments)
	cluster := a.text("cluster", kube.MaxName)
	mode := kubernetes.Mode(a.word("mode", string(kubernetes.Events), string(kubernetes.Events), string(kubernetes.Faults)))
	wish := kubernetes.Filters{
		Namespaces:        a.list("namespaces", namespaces.Max, "names of namespaces"),
		LabelSelector:     a.text("labelSelector", kubernetes.MaxSelector),
		InvolvedKind:      a.text("involvedKind", kubernetes.MaxKind),
		InvolvedName:      a.text("involvedName", kubernetes.MaxName),
		InvolvedNamespace: a.text("involvedNamespace", kubernetes.MaxName),
		Type:              a.optional("type", kube.TypeNormal, kube.TypeWarning),
		Reason:            a.text("reason", kubernetes.MaxReason),
	}
	if err := a.done(); err != nil {
		return nil, err
	}
	g.settle(ctx)
	g.knowKubewatch(ctx)
	start, created, err := g.endOfKubernetes(ctx)
	if err != nil {
		return nil, err
	}
	var s *subscription
	var why string
	doErr := g.session.do(g.life, func(own *session, now time.Time) {
		if cluster, why, err = own.cluster(cluster, now); err != nil {
			return
		}
		var f kubernetes.Filter
		if f, err = kubernetes.NewFilter(cluster, mode, wish, g.cfg.Kubernetes.Namespaces); err != nil {
			return
		}
		var release func()
		if release, err = g.quota.Acquire(len(own.subscriptions)); err != nil {
			return
		}
		s = newSubscription(g.life, f, now, release)
		s.change(func(h *subscriptionHealth) {
			h.degraded, h.unwatched, h.why = why != "" && why != unwatched, why == unwatched, why
		})
		own.subscriptions[s.id] = s
		// Within the loop, which is one of the parts: they have not all ended.
		g.parts.Go(func() error { g.serveSubscription(s, start, created, c.answered); return nil })
		g.parts.Go(func() error { g.vigil(s); return nil })
	})
	if err = errors.Join(err, doErr); err != nil {
		return nil, err
	}
	reply := struct {
		subscribed
		Degraded bool   `json:"degraded,omitempty"`
		Note     string `json:"note,omitempty"`
	}{s.described(), why != "", g.subscribeNote(mode, why)}
	return encoded(reply, nil)
}

// newSubscription is one that nobody serves yet. However it ends, its place is free
// at once.
func newSubscription(life context.Context, f kubernetes.Filter, now time.Time, release func()) *subscription {
	s := &subscription{id: kubernetes.NewID(), filter: f, began: now, turn: make(chan struct{}, 1)}
	s.current.Store(now.UnixNano())
	ctx, stop := context.WithCancel(life)
	s.life, s.stop = ctx, func() { stop(); release() }
	context.AfterFunc(ctx, release)
	return s
}

// subscribeNote says in words what keeps notifications from coming.
func (g *gateway) subscribeNote(mode kubernetes.Mode, degraded string) string {
	var notes []string
	if !g.peer().unasked {
		notes = append(notes, "The protocol "+version20260728+" forbids messages that nobody asked for, so nothing of this subscription can be delivered to this client; observe has the alerts about faults.")
	}
	if least := int(g.floor.Load()); mode.Level().Rank() < least {
		notes = append(notes, fmt.Sprintf("This client has set its logging level above %s, at which mode %s delivers, so nothing of it comes: logging/setLevel with %s or below has it come.", mode.Level(), mode, mode.Level()))
	}
	if degraded != "" {
		notes = append(notes, "Nothing comes of this cluster for now: "+degraded+".")
	}
	return strings.Join(notes, " ")
}

// endOfKubernetes is the place of the first message that is yet to come, in the stream
// that was made then.
func (g *gateway) endOfKubernetes(ctx context.Context) (start uint64, created time.Time, err error) {
	if err := g.connected(); err != nil {
		return 0, time.Time{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	s, err := g.link.conn.Load().JS.Stream(ctx, bus.StreamKubernetes)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return 0, time.Time{}, errSilent
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return 0, time.Time{}, errNoKubernetes
	case err != nil:
		return 0, time.Time{}, fmt.Errorf("look at what Kubernetes says: %w", err)
	}
	info := s.CachedInfo()
	return info.State.LastSeq + 1, info.Created, nil
}

// unsubscribe ends a subscription of this session.
func (g *gateway) unsubscribe(ctx context.Context, data json.RawMessage) (answer, error) {
	a := readArguments(data)
	id := a.text("subscriptionId", maxText)
	if err := a.done(); err != nil {
		return nil, err
	}
	var s *subscription
	err := g.session.do(g.life, func(own *session, _ time.Time) {
		s = own.subscriptions[id]
		delete(own.subscriptions, id)
	})
	switch {
	case err != nil:
		return nil, err
	case id == "":
		return nil, errors.New("subscriptionId must be the id of a subscription of this session: " + toolListed + " has them")
	case s == nil:
		return nil, fmt.Errorf("subscriptionId %s is not found among the subscriptions of this session: %s has them", sanitize.Cut(id, 64), toolListed)
	}
	return encoded(struct {
		Cancelled bool `json:"cancelled"`
	}{true}, s.end(ctx, g.out))
}

// listSubscriptions tells of this session's, oldest first.
func (g *gateway) listSubscriptions(_ context.Context, data json.RawMessage) (answer, error) {
	if err := readArguments(data).done(); err != nil {
		return nil, err
	}
	type listed struct {
		subscribed
		Since string `json:"since"`
		// Withheld are those below the client's level, or that its protocol forbids.
		Delivered uint64 `json:"delivered"`
		Withheld  uint64 `json:"withheld,omitempty"`
		Dropped   uint64 `json:"dropped"`
		Degraded  bool   `json:"degraded"`
		Error     string `json:"error,omitempty"`
	}
	var all []*subscription
	var watched []string
	err := g.session.do(g.life, func(own *session, now time.Time) {
		for _, s := range own.subscriptions {
			all = append(all, s)
		}
		watched = own.watched(now)
	})
	slices.SortFunc(all, func(a, b *subscription) int { return a.began.Compare(b.began) })
	reply := struct {
		Subscriptions []listed `json:"subscriptions"`
		Clusters      []string `json:"clusters"`
		Note          string   `json:"note,omitempty"`
	}{Subscriptions: []listed{}, Clusters: watched}
	for _, s := range all {
		health, _ := s.change(func(*subscriptionHealth) {})
		reply.Subscriptions = append(reply.Subscriptions, listed{
			s.described(), alert.FormatTime(s.began), s.delivered.Load(), s.withheld.Load(), s.dropped.Load(), health.bad(), health.why,
		})
	}
	switch away := g.connected(); {
	case away != nil:
		reply.Note = away.Error()
	case len(watched) == 0:
		reply.Note = errUnwatched.Error()
	}
	return encoded(reply, err)
}

// takeSubscriptions takes all out of the session, to be ended.
func (s *session) takeSubscriptions() []*subscription {
	all := make([]*subscription, 0, len(s.subscriptions))
	for id, one := range s.subscriptions {
		all = append(all, one)
		delete(s.subscriptions, id)
	}
	return all
}

// watched are the clusters that are watched now, as they are told.
func (s *session) watched(now time.Time) []string {
	names := s.watchers.Live(now, bus.KubewatchTTL)
	for i := range names {
		names[i] = sanitize.Visible(names[i])
	}
	return names
}

// kubernetesHealth is nil where no kubewatch was ever seen.
func (s *session) kubernetesHealth(now time.Time) *kubernetesHealth {
	if len(s.watchers.Known()) == 0 {
		return nil
	}
	h := kubernetesHealth{Clusters: s.watched(now), Subscriptions: len(s.subscriptions)}
	for _, one := range s.subscriptions {
		if one.bad() {
			h.Degraded++
		}
	}
	return &h
}
