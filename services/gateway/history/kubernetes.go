package history

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
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/display"
	"github.com/tocsin-bus/tocsin/shared/kube"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// maxClusters is how many watched clusters are read; others are left out.
const maxClusters = 100

// clusters reads the records of the watched clusters, sorted by name. Their texts are not
// sanitized.
func (r *Reader) clusters(ctx context.Context) ([]kube.Leader, error) {
	session, err := r.bus.Session()
	if err != nil {
		return nil, err
	}
	records, err := session.Read(ctx, bus.StreamKubewatch, 1, maxClusters)
	err = session.ExplainNoResponders(ctx, bus.StreamKubewatch, err)
	if errors.Is(err, jetstream.ErrStreamNotFound) { // a bus of an older version has no such bucket
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	byName := map[string]kube.Leader{}
	for _, m := range records { // the newest last
		var l kube.Leader
		if json.Unmarshal(m.Data, &l) == nil && l.Cluster != "" { // an empty record was released
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

// ClusterStatus is the state of a cluster's watch.
type ClusterStatus struct {
	Cluster  string    `json:"cluster"`
	Degraded bool      `json:"degraded"`
	Error    string    `json:"error,omitempty"`
	Since    time.Time `json:"since,omitzero"`
}

// clusterStates reads the states of all watches. It returns none if they can't be read,
// because a bus of an older version has none.
func (r *Reader) clusterStates(ctx context.Context) []ClusterStatus {
	watched, err := r.clusters(ctx)
	if err != nil {
		r.log.Debug("cannot read which clusters are watched", "error", err)
	}
	var all []ClusterStatus
	for _, l := range watched {
		s := ClusterStatus{Cluster: r.name(l.Cluster), Degraded: l.Watch.Degraded}
		if s.Degraded {
			s.Error, s.Since = r.name(l.Watch.Error), l.Watch.Since
		}
		all = append(all, s)
	}
	return all
}

// name masks and sanitizes a name or another short text from outside.
func (r *Reader) name(text string) string {
	return sanitize.Cut(sanitize.Visible(r.mask.String(text)), kube.MaxName)
}

// kubernetes reads Kubernetes messages, newest first. If some are missing, the page has a
// note.
func (r *Reader) kubernetes(ctx context.Context, q Query) (p page, err error) {
	const doing = "read the Kubernetes messages"
	watched, err := r.clusters(ctx)
	if err != nil {
		return p, r.explain(ctx, doing, err)
	}
	state, err := r.bus.State(ctx, bus.StreamKubernetes)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return p, kubernetes.ErrNoStream
	case err != nil:
		return p, r.explain(ctx, doing, err)
	case state.Messages == 0 && len(watched) == 0:
		return p, kubernetes.ErrNoCluster
	}
	// A later page starts where the first one did: a fault listed there stands for all
	// earlier messages about it.
	last := state.Last
	if q.Before.Newest > 0 {
		last = min(last, q.Before.Newest)
	}
	found := kubernetes.NewHistory(kubernetes.HistoryQuery{
		App: q.App, MinRank: q.MinRank, Since: q.From, Before: q.Before.Seq, Limit: q.Limit, MaxBytes: query.MaxReply, MaxOlder: maxLeftOut,
		Visible: func(m *kube.Message) bool { return q.URL == "" && r.namespaces.Shows(m) },
	})
	read := 0
	err = r.bus.Range(ctx, bus.Range{Stream: bus.StreamKubernetes, First: state.First, Last: last, Backwards: true}, func(m bus.Message) bool {
		read++
		var message kube.Message
		if err := json.Unmarshal(m.Data, &message); err != nil {
			r.log.Warn("skipped a message that is not from Kubernetes", "subject", m.Subject, "sequence", m.Seq, "error", err)
			return true
		}
		return found.Add(message, m.Seq, m.Time, len(m.Data))
	})
	notes, err := incompleteNotes(r.explain(ctx, doing, err), read)
	if err != nil {
		return p, err
	}
	p = page{older: found.Older(), newest: last, incomplete: strings.Join(append(notes, r.unwatched(watched)...), "; ")}
	for _, item := range found.Newest() {
		item.Message = display.Kubernetes(item.Message, r.mask)
		p.entries = append(p.entries, entry{item, entryPosition{Seq: item.Seq}})
	}
	return p, nil
}

// unwatched returns notes about the clusters that send nothing now.
func (r *Reader) unwatched(watched []kube.Leader) []string {
	if len(watched) == 0 {
		return []string{"no cluster is watched now: start tocsin kubewatch"}
	}
	var notes []string
	for _, l := range watched {
		if l.Watch.Degraded {
			notes = append(notes, fmt.Sprintf("cluster %s can't be watched now: %s", r.name(l.Cluster), r.name(l.Watch.Error)))
		}
	}
	return notes
}
