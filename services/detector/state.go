package detector

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tocsin-bus/tocsin/services/detector/rules"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// State is how a detector is, as it tells while it runs. The zero value is one
// that has not reached the bus. It is safe for concurrent use.
type State struct {
	mu sync.Mutex
	// member says that it takes part: it reaches the bus, and on a shared one its
	// beats are stored.
	member bool
	// because is why it does not, as far as that is known.
	because string
	of      int
	rules   rules.Table
	owned   map[int]*partition
}

// progress is how far a partition is, told by its loop.
type progress struct {
	behind, lost atomic.Uint64
	notTracked   atomic.Int64
	caughtUp     atomic.Bool
	because      atomic.Pointer[string]
}

// waits notes why its state can't be read yet.
func (p *progress) waits(why error) {
	text := why.Error()
	p.because.Store(&text)
}

// reason is why it is not caught up, or empty where it only reads.
func (p *progress) reason() string {
	if why := p.because.Load(); why != nil {
		return *why
	}
	return ""
}

// Health is the state in the words of query.health. One that owns nothing stands
// by, and is well.
func (s *State) Health() query.Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := &query.DetectorHealth{Of: s.of, Partitions: slices.Sorted(maps.Keys(s.owned))}
	d.Rules = judged(s.rules)
	if d.Partitions == nil {
		d.Partitions = []int{} // [] and not null on the wire
	}
	d.Ready = s.member
	var waits string
	for _, p := range s.owned {
		d.Behind += p.progress.behind.Load()
		d.Lost += p.progress.lost.Load()
		d.AppsNotTracked += int(p.progress.notTracked.Load())
		d.Ready = d.Ready && p.progress.caughtUp.Load()
		if why := p.progress.reason(); why != "" {
			waits = why
		}
	}
	h := query.Health{OK: d.Ready, Detector: d}
	switch {
	case !s.member && s.because != "":
		h.Reason = "waiting for the bus: " + s.because
	case !s.member:
		h.Reason = "waiting for the bus"
	case !d.Ready && waits != "":
		h.Reason = "waiting for the bus: " + waits
	case !d.Ready:
		h.Reason = fmt.Sprintf("reading what was missed: %d messages", d.Behind)
	}
	return h
}

func (s *State) takesPart(member bool, of int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.member, s.of = member, of
	if member {
		s.because = ""
	}
}

// judges notes by which rules it judges apps.
func (s *State) judges(by rules.Table) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = by
}

// maxRules bounds what is said of the rules, in bytes: there may be one for each app.
const maxRules = 1000

// judged is a table of rules as it is told.
func judged(by rules.Table) []string {
	return []string{sanitize.Cut(by.String(), maxRules)}
}

// waits notes why it does not take part.
func (s *State) waits(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.because = why.Error()
}

// own notes that a partition begins here, disown that it has ended.
func (s *State) own(p *partition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owned == nil {
		s.owned = map[int]*partition{}
	}
	s.owned[p.number] = p
}

func (s *State) disown(p *partition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owned[p.number] == p {
		delete(s.owned, p.number)
	}
}

// partitions are those that are owned here and have begun.
func (s *State) partitions() (all []*partition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, number := range slices.Sorted(maps.Keys(s.owned)) {
		p := s.owned[number]
		select {
		case <-p.begun:
			all = append(all, p)
		default: // it reads its state
		}
	}
	return all
}

// partition is one that is owned here and may speak, or nil.
func (s *State) partition(number int) *partition {
	s.mu.Lock()
	p := s.owned[number]
	s.mu.Unlock()
	if p == nil || !p.tenure.held() {
		return nil
	}
	select {
	case <-p.begun:
		return p
	default:
		return nil
	}
}
