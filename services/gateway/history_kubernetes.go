package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/services/gateway/kubernetes"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/display"
	"github.com/tocsin-bus/tocsin/shared/kube"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// maxClusters is how many clusters are known to be watched; others are left out.
const maxClusters = 100

// errUnwatched says what is missing where there is nothing to look back at.
var errUnwatched = errors.New("no Kubernetes cluster is watched: start tocsin kubewatch, where a kubeconfig is or in the cluster")

// errNoKubernetes says what is missing on a bus of an older version.
var errNoKubernetes = errors.New("this bus keeps nothing of Kubernetes yet: restart tocsin up, or run tocsin provision on an external bus")

// clusters reads which clusters are watched, by name. Their texts are as they were
// stored.
func (g *gateway) clusters(ctx context.Context) ([]kube.Leader, error) {
	if err := g.connected(); err != nil {
		return nil, err
	}
	records, err := g.link.conn.Load().Stored(ctx, bus.StreamKubewatch, maxClusters)
	if errors.Is(err, nats.ErrNoResponders) { // a bus of an older version has no such bucket
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	byName := map[string]kube.Leader{}
	for _, m := range records { // the newest last
		var l kube.Leader
		if json.Unmarshal(m.Data, &l) == nil && l.Cluster != "" { // else it gave up its place
			byName[l.Cluster] = l
		}
	}
	var all []kube.Leader
	for _, l := range byName {
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b kube.Leader) int { return strings.Compare(a.Cluster, b.Cluster) })
	return all, nil
}

// clusterStatus is how the watch of a cluster is.
type clusterStatus struct {
	Cluster  string    `json:"cluster"`
	Degraded bool      `json:"degraded"`
	Error    string    `json:"error,omitempty"`
	Since    time.Time `json:"since,omitzero"`
}

// clusterStates is what observe status says of clusters: nothing where that can't be
// read, as there are buses without.
func (g *gateway) clusterStates(ctx context.Context) []clusterStatus {
	watched, err := g.clusters(ctx)
	if err != nil {
		g.log.Debug("it is not known which clusters are watched", "error", err)
	}
	var all []clusterStatus
	for _, l := range watched {
		s := clusterStatus{Cluster: g.shown(l.Cluster), Degraded: l.Watch.Degraded}
		if s.Degraded {
			s.Error, s.Since = g.shown(l.Watch.Error), l.Watch.Since
		}
		all = append(all, s)
	}
	return all
}

func (g *gateway) shown(text string) string {
	return sanitize.Cut(sanitize.Visible(g.mask.String(text)), kube.MaxName)
}

// kubernetes reads what clusters said, newest first. Where there is less than was asked
// for it says why.
func (g *gateway) kubernetes(ctx context.Context, l look) (p page, err error) {
	watched, err := g.clusters(ctx)
	if err != nil {
		return p, g.unread(ctx, bus.StreamKubernetes, err)
	}
	first, last, err := g.extent(ctx, bus.StreamKubernetes)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return p, errNoKubernetes
	case err != nil:
		return p, err
	case first > last && len(watched) == 0:
		return p, errUnwatched
	}
	// A later page begins where the first one did: a fault that stood there stands for
	// all that was said of it before.
	if l.before.Top > 0 {
		last = min(last, l.before.Top)
	}
	found := kubernetes.NewHistory(kubernetes.HistoryQuery{
		App: l.app, MinRank: l.minRank, Since: l.from, Before: l.before.Seq, Limit: l.limit, MaxBytes: query.MaxReply, MaxOlder: maxLeftOut,
		Shows: func(m *kube.Message) bool { return l.url == "" && g.cfg.Kubernetes.Namespaces.Shows(m) },
	})
	read := 0
	err = g.backwards(ctx, bus.StreamKubernetes, first, last, readAtOnce, func(m bus.Message) bool {
		read++
		var said kube.Message
		if err := json.Unmarshal(m.Data, &said); err != nil {
			g.log.Warn("skipped what no cluster said", "subject", m.Subject, "sequence", m.Seq, "error", err)
			return true
		}
		return found.Add(said, m.Seq, m.Time, len(m.Data))
	})
	notes, err := shortfall(err, read)
	if err != nil {
		return p, err
	}
	p = page{older: found.Older(), top: last, incomplete: strings.Join(append(notes, g.unwatched(watched)...), "; ")}
	for _, item := range found.Newest() {
		item.Message = display.Kubernetes(item.Message, g.mask)
		p.entries = append(p.entries, entry{item, position{Seq: item.Seq}})
	}
	return p, nil
}

// shortfall says what is missing where not all was read, or that nothing was. What was
// read before that is the newest, and worth telling.
func shortfall(err error, read int) (notes []string, none error) {
	switch {
	case err == nil:
		return nil, nil
	case read == 0:
		return nil, err
	case errors.Is(err, errSilent):
		return []string{fmt.Sprintf("only the newest %d messages could be looked at within %s: ask for less with since_seconds", read, queryTimeout)}, nil
	default:
		return []string{fmt.Sprintf("only the newest %d messages could be looked at: %s", read, sanitize.Visible(err.Error()))}, nil
	}
}

// unwatched says what of the present is missing.
func (g *gateway) unwatched(watched []kube.Leader) []string {
	if len(watched) == 0 {
		return []string{"no cluster is watched now: start tocsin kubewatch"}
	}
	var notes []string
	for _, l := range watched {
		if l.Watch.Degraded {
			notes = append(notes, fmt.Sprintf("cluster %s can't be watched now: %s", g.shown(l.Cluster), g.shown(l.Watch.Error)))
		}
	}
	return notes
}
