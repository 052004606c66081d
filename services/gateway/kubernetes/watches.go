package kubernetes

import (
	"context"
	"encoding/json"
	"time"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/kube"
)

// FollowWatches follows the records of kubewatches until ctx ends, to know the clusters
// that are watched.
func (s *Subscriptions) FollowWatches(ctx context.Context, c *bus.Session) error {
	clusters := map[string]string{} // by the subject of the record
	cfg := bus.FollowConfig{Stream: bus.StreamKubewatch, Logger: s.log, Started: func(pending uint64) {
		if pending == 0 {
			s.cfg.WatchesRead()
		}
	}}
	return c.Follow(ctx, cfg, func(m bus.Message) error {
		s.readWatch(m, clusters)
		if m.Pending == 0 {
			s.cfg.WatchesRead()
		}
		return nil
	})
}

func (s *Subscriptions) readWatch(m bus.Message, clusters map[string]string) {
	if m.Deleted() {
		// A kubewatch released it; another one may take over.
		s.mu.Lock()
		s.watchers.Remove(clusters[m.Subject])
		s.mu.Unlock()
		return
	}
	var l kube.Leader
	if err := json.Unmarshal(m.Data, &l); err != nil || l.Cluster == "" {
		s.log.Debug("skipped a record that is not of a kubewatch", "subject", m.Subject, "error", err)
		return
	}
	clusters[m.Subject] = l.Cluster
	l.Watch.Error = s.shortText(l.Watch.Error) // the cluster's name stays as it is: messages are matched by it
	s.mu.Lock()
	s.watchers.Update(l, time.Now(), bus.KubewatchTTL)
	s.mu.Unlock()
	s.cfg.WatchSeen()
}
