package kubewatch

import (
	"errors"
	"fmt"
	"sync"

	"github.com/tocsin-bus/tocsin/shared/query"
)

// State is the health of a running kubewatch. The zero value is that of a kubewatch that
// has not reached the bus. It is safe for concurrent use.
type State struct {
	mu sync.Mutex
	// reachable is set while the bus is, prepared while there is a session on which all
	// was found. blocked is the reason why not, if known.
	reachable, prepared bool
	blocked             error
	watches             []*clusterWatch
}

func (s *State) setWatches(watches []*clusterWatch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watches = watches
}

// setReachable records whether the bus is reachable: nil, or the reason why not.
func (s *State) setReachable(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reachable, s.blocked = err == nil, err
}

// setBlocked records what the session lacks.
func (s *State) setBlocked(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blocked = err
}

func (s *State) setPrepared(prepared bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.prepared = prepared; prepared {
		s.reachable, s.blocked = true, nil
	}
}

// Ready returns nil if the kubewatch watches or stands by, or else the reason. The health of
// the clusters does not count: a restart of the kubewatch would not fix them.
func (s *State) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.reachable && s.prepared:
		return nil
	case s.blocked != nil:
		return fmt.Errorf("waiting for the bus: %w", s.blocked)
	default:
		return errors.New("waiting for the bus")
	}
}

// Health returns the answer to query.health. A kubewatch that stands by is healthy; one that
// is active for a cluster that can't be watched is not.
func (s *State) Health() query.Health {
	h := query.Health{OK: true, Kubewatch: &query.KubewatchHealth{Clusters: []query.ClusterHealth{}}}
	if err := s.Ready(); err != nil {
		h.OK, h.Reason = false, err.Error()
	}
	s.mu.Lock()
	watches := s.watches
	s.mu.Unlock()
	for _, w := range watches {
		c := w.health()
		h.Kubewatch.Clusters = append(h.Kubewatch.Clusters, c)
		if h.OK && c.Active && c.Degraded {
			h.OK, h.Reason = false, fmt.Sprintf("cluster %s can't be watched: %s", c.Cluster, c.Error)
		}
	}
	return h
}
