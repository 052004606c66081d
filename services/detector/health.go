package detector

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// State is the health of a running detector. The zero value is that of a detector that
// has not reached the bus. It is safe for concurrent use.
type State struct {
	mu sync.Mutex
	// joined is set while the detector reaches the bus and, on a shared one, its
	// heartbeats are stored. blocked is the reason why not, if known.
	joined  bool
	blocked string
	// partitions is the number of partitions of the stream.
	partitions int
	rules      ruleset.Table
	owned      map[int]*partition
}

// progress is the health of one partition, updated by its loop.
type progress struct {
	backlog, lost atomic.Uint64
	notTracked    atomic.Int64
	caughtUp      atomic.Bool
	blocked       atomic.Pointer[string]
}

// setBlocked records why the state can't be read yet.
func (p *progress) setBlocked(err error) {
	text := err.Error()
	p.blocked.Store(&text)
}

// reason returns why the state can't be read yet, empty if it can.
func (p *progress) reason() string {
	if text := p.blocked.Load(); text != nil {
		return *text
	}
	return ""
}

// Health returns the answer to query.health. A detector that owns no partition stands by
// and is healthy.
func (s *State) Health() query.Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := &query.DetectorHealth{PartitionCount: s.partitions, Partitions: slices.Sorted(maps.Keys(s.owned))}
	d.Rules = rulesInForce(s.rules)
	if d.Partitions == nil {
		d.Partitions = []int{} // [] and not null on the wire
	}
	d.Ready = s.joined
	var blocked string
	for _, p := range s.owned {
		d.Behind += p.progress.backlog.Load()
		d.Lost += p.progress.lost.Load()
		d.AppsNotTracked += int(p.progress.notTracked.Load())
		d.Ready = d.Ready && p.progress.caughtUp.Load()
		if reason := p.progress.reason(); reason != "" {
			blocked = reason
		}
	}
	h := query.Health{OK: d.Ready, Detector: d}
	switch {
	case !s.joined && s.blocked != "":
		h.Reason = "waiting for the bus: " + s.blocked
	case !s.joined:
		h.Reason = "waiting for the bus"
	case !d.Ready && blocked != "":
		h.Reason = "waiting for the bus: " + blocked
	case !d.Ready:
		h.Reason = fmt.Sprintf("catching up: %d messages to read", d.Behind)
	}
	return h
}

func (s *State) setJoined(joined bool, partitions int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.joined, s.partitions = joined, partitions
	if joined {
		s.blocked = ""
	}
}

func (s *State) setRules(table ruleset.Table) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = table
}

// maxRulesText bounds the text of the rules in bytes: there may be one for each app.
const maxRulesText = 1000

// rulesInForce returns a rules table as it is published.
func rulesInForce(table ruleset.Table) []string {
	return []string{sanitize.Cut(table.String(), maxRulesText)}
}

// setBlocked records why the detector has not joined the bus.
func (s *State) setBlocked(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blocked = err.Error()
}

// add records that a partition runs here; remove that it has ended.
func (s *State) add(p *partition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owned == nil {
		s.owned = map[int]*partition{}
	}
	s.owned[p.number] = p
}

func (s *State) remove(p *partition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owned[p.number] == p {
		delete(s.owned, p.number)
	}
}

// running returns the owned partitions that have read their state.
func (s *State) running() (all []*partition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, number := range slices.Sorted(maps.Keys(s.owned)) {
		if p := s.owned[number]; p.isStarted() {
			all = append(all, p)
		}
	}
	return all
}

// heldPartition returns a started partition whose lease is held here, or nil.
func (s *State) heldPartition(number int) *partition {
	s.mu.Lock()
	p := s.owned[number]
	s.mu.Unlock()
	if p == nil || !p.lease.held() || !p.isStarted() {
		return nil
	}
	return p
}
