package mcpevents

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	start = time.Date(2026, 1, 28, 14, 30, 0, 0, time.UTC)
	born  = start.Add(-time.Hour)
)

// memory is a Source in this process.
type memory struct {
	mu      sync.Mutex
	created time.Time
	first   uint64
	kept    []Arrival
	err     error
	hushed  func(alert.Alert) bool
	changed chan struct{}
}

// audible hushes nothing.
func audible(alert.Alert) bool { return false }

func newMemory() *memory {
	return &memory{created: born, first: 1, hushed: audible, changed: make(chan struct{})}
}

// add appends alerts that arrived at start + their numbers in seconds.
func (m *memory) add(alerts ...*alert.Alert) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range alerts {
		at := Position{Seq: m.first + uint64(len(m.kept)), Created: m.created}
		if a != nil {
			a.Seq = at.Seq
		}
		m.kept = append(m.kept, Arrival{At: at, Time: start.Add(time.Duration(at.Seq) * time.Second), Alert: a})
	}
	m.wake()
}

func (m *memory) wake() { close(m.changed); m.changed = make(chan struct{}) }

// drop forgets the oldest n.
func (m *memory) drop(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept, m.first = m.kept[n:], m.first+uint64(n)
}

// renew is a stream that was deleted and made anew.
func (m *memory) renew() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept, m.first, m.created = nil, 1, m.created.Add(time.Minute)
}

func (m *memory) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

func (m *memory) State(ctx context.Context) (State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return State{Created: m.created, First: m.first, Last: m.first + uint64(len(m.kept)) - 1}, errors.Join(m.err, ctx.Err())
}

func (m *memory) Read(_ context.Context, after uint64, limit int) ([]Arrival, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Arrival
	for _, a := range m.kept {
		if a.At.Seq > after && len(out) < limit {
			out = append(out, a)
		}
	}
	return out, m.err
}

func (m *memory) Suppressed(a alert.Alert) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hushed(a)
}

func (m *memory) hush(ids ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hushed = func(a alert.Alert) bool { return slices.Contains(ids, a.ID) }
}

func (m *memory) Follow(ctx context.Context, after Position, hand func(Arrival)) {
	for ctx.Err() == nil {
		next, wait := m.next(after)
		if next == nil {
			select {
			case <-wait:
			case <-ctx.Done():
			}
			continue
		}
		hand(*next)
		after = next.At
	}
}

func (m *memory) next(after Position) (*Arrival, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range m.kept {
		if a.At.Seq > after.Seq || !a.At.Created.Equal(after.Created) {
			return &a, nil
		}
	}
	return nil, m.changed
}

// made is an alert by its name, which is its id and its key.
func made(name string) *alert.Alert {
	return &alert.Alert{
		ID: name, Severity: alert.Error, Category: alert.Errors, Title: "title of " + name, Detail: "a -> <b>", App: "web",
		Timestamp: start, Source: alert.SourceErrors, URL: "http://localhost/", DedupKey: name, CorrelationID: name,
	}
}

func many(n int) []*alert.Alert {
	list := make([]*alert.Alert, n)
	for i := range list {
		list[i] = made(fmt.Sprintf("a%03d", i+1))
	}
	return list
}

func at(seq uint64) Position { return Position{Seq: seq, Created: born} }

func cursor(seq uint64) *string {
	c := at(seq).Cursor()
	return &c
}
