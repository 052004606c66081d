package kubewatch

import (
	"errors"
	"fmt"
	"sync"

	"github.com/tocsin-bus/tocsin/shared/query"
)

// State is how a kubewatch is, as it tells while it runs. The zero value is one that
// has not reached the bus. It is safe for concurrent use.
type State struct {
	mu      sync.Mutex
	member  bool
	because error
	members []*member
}

func (s *State) watches(members []*member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.members = members
}

func (s *State) joined(member bool, because error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.member, s.because = member, because
}

// Ready is nil, or says why it neither watches nor stands by. How the clusters are does
// not count: who asks would end what can do nothing for them.
func (s *State) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.member:
		return nil
	case s.because != nil:
		return fmt.Errorf("waiting for the bus: %w", s.because)
	default:
		return errors.New("waiting for the bus")
	}
}

// Health is the state in the words of query.health. One that stands by is well; one that
// is active for a cluster that can't be watched is not.
func (s *State) Health() query.Health {
	h := query.Health{OK: true, Kubewatch: &query.KubewatchHealth{Clusters: []query.ClusterHealth{}}}
	if err := s.Ready(); err != nil {
		h.OK, h.Reason = false, err.Error()
	}
	s.mu.Lock()
	members := s.members
	s.mu.Unlock()
	for _, m := range members {
		c := m.health()
		h.Kubewatch.Clusters = append(h.Kubewatch.Clusters, c)
		if h.OK && c.Active && c.Degraded {
			h.OK, h.Reason = false, fmt.Sprintf("cluster %s can't be watched: %s", c.Cluster, c.Error)
		}
	}
	return h
}
