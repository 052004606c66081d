// Package eventring stores the newest events for queries, and the senders of each app.
//
// A [Store] has a ring with the newest 1,000 events for each app and kind, all of them
// within a limit of bytes. It is not part of the detector's snapshot: at its start the
// detector reads the events from the stream again.
//
// A Store is not safe for concurrent use. The events that it returns are shared and must
// not be changed.
package eventring

import (
	"slices"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/lru"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

const (
	// MaxEvents is how many events of one app and kind are kept. Past it, the oldest of them
	// is dropped.
	MaxEvents = 1000
	// MaxApps is how many apps are known. Past it, the least recently seen one is evicted.
	// The caller may remove apps earlier, with Forget.
	MaxApps = 1000
	// MaxSenders is how many senders of an app are known, those seen last.
	MaxSenders = 8
	// DefaultBytes is the default of Config.MaxBytes.
	DefaultBytes = 64 << 20
)

// Config bounds a Store.
type Config struct {
	// MaxBytes is about how much memory the events may take; 0 means DefaultBytes. Past it,
	// the oldest events are dropped of the app and kind without events for the longest time.
	MaxBytes int
}

// Store stores events.
type Store struct {
	maxBytes, bytes int
	rings           *lru.Map[source, *ring]
	apps            *lru.Map[string, *app]
	serial          uint64
}

// source is the key of a ring.
type source struct {
	app  string
	kind telemetry.Kind
}

// New returns an empty store.
func New(cfg Config) *Store {
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = DefaultBytes
	}
	return &Store{
		maxBytes: cfg.MaxBytes,
		rings:    lru.New[source, *ring](MaxApps * len(telemetry.Kinds())),
		apps:     lru.New[string, *app](MaxApps),
	}
}

// Bytes returns about how much memory the events take.
func (s *Store) Bytes() int { return s.bytes }

// Add is AddAt for an event without a known position.
func (s *Store) Add(event *telemetry.Event, received time.Time, sender string) {
	s.AddAt(query.EventPosition{}, event, received, sender)
}

// AddAt stores an event with its position in the stream, which arrived at a time from a
// sender. The sender is empty if it is not known.
func (s *Store) AddAt(position query.EventPosition, event *telemetry.Event, received time.Time, sender string) {
	s.app(event.App).add(received, sender)
	from := source{event.App, event.Kind}
	r := s.ring(from)
	s.serial++
	it := item{event: query.StoredEvent{Event: *event, Received: received, Position: position}, serial: s.serial, size: size(event)}
	s.bytes += it.size
	if r.len() == MaxEvents {
		s.bytes -= r.pop().size
	}
	r.push(it)
	for s.bytes > s.maxBytes && s.rings.Len() > 0 {
		oldest := s.rings.Oldest()
		s.bytes -= oldest.Value.pop().size
		if oldest.Value.len() == 0 {
			s.rings.Delete(oldest.Key)
		}
	}
}

func (s *Store) app(name string) *app {
	if known := s.apps.Get(name); known != nil {
		return *known
	}
	stored, gone := s.apps.Add(name, &app{})
	if gone != nil {
		for _, kind := range telemetry.Kinds() {
			s.forget(source{gone.Key, kind})
		}
	}
	return *stored
}

// Forget removes an app with its events.
func (s *Store) Forget(app string) {
	if !s.apps.Delete(app) {
		return
	}
	for _, kind := range telemetry.Kinds() {
		s.forget(source{app, kind})
	}
}

func (s *Store) ring(from source) *ring {
	if known := s.rings.Get(from); known != nil {
		return *known
	}
	stored, gone := s.rings.Add(from, &ring{})
	if gone != nil {
		s.bytes -= gone.Value.size()
	}
	return *stored
}

func (s *Store) forget(from source) {
	if r := s.rings.Peek(from); r != nil {
		s.bytes -= (*r).size()
		s.rings.Delete(from)
	}
}

// Query returns the stored events that match a query, the newest first, at most as many as
// [Limit] returns.
func (s *Store) Query(r query.EventsRequest) []query.StoredEvent { return s.Page(r).Events }

// Page is Query with the number of older events that match, if the query asks for it.
func (s *Store) Page(r query.EventsRequest) query.EventsReply {
	limit := Limit(r)
	reply := query.EventsReply{Events: []query.StoredEvent{}}
	for it := range s.newest(&r) {
		if len(reply.Events) == limit {
			reply.Older++
			if reply.Older == query.MaxOlder {
				break
			}
			continue
		}
		event := it.event
		if !r.Paged {
			event.Position = query.EventPosition{}
		}
		if reply.Events = append(reply.Events, event); len(reply.Events) == limit && !r.Paged {
			break
		}
	}
	return reply
}

// Limit returns how many events a query asks for: query.DefaultLimit by default, and
// query.MaxLimit at most.
func Limit(r query.EventsRequest) int {
	if r.Limit <= 0 {
		return query.DefaultLimit
	}
	return min(r.Limit, query.MaxLimit)
}

// MaxLoads is how many events Loads returns at most.
const MaxLoads = 10_000

// Loads returns the stored page loads of an app, or of all apps for the empty name, the
// newest first, at most MaxLoads.
func (s *Store) Loads(app string) []query.StoredEvent {
	var events []query.StoredEvent
	for it := range s.newest(&query.EventsRequest{App: app, Kinds: []telemetry.Kind{telemetry.KindVitals}}) {
		if events = append(events, it.event); len(events) == MaxLoads {
			break
		}
	}
	return events
}

// matches reports whether events of a source can match a query.
func (from source) matches(r *query.EventsRequest) bool {
	return (r.App == "" || r.App == from.app) && (len(r.Kinds) == 0 || slices.Contains(r.Kinds, from.kind))
}

// aboutURL reports whether the URL of an event's page, request or blocked resource contains
// part.
func aboutURL(e *telemetry.Event, part string) bool {
	return part == "" || strings.Contains(e.URL, part) ||
		e.Network != nil && strings.Contains(e.Network.URL, part) ||
		e.Security != nil && strings.Contains(e.Security.BlockedURL, part)
}
