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
	"github.com/tocsin-bus/tocsin/shared/bus"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	start   = time.Date(2026, 1, 28, 14, 30, 0, 0, time.UTC)
	created = start.Add(-time.Hour)
)

// fakeSource is a Source without a bus.
type fakeSource struct {
	mu           sync.Mutex
	created      time.Time
	first        uint64
	kept         []Arrival
	err          error
	isSuppressed func(alert.Alert) bool
	changed      chan struct{}
}

// notSuppressed suppresses nothing.
func notSuppressed(alert.Alert) bool { return false }

func newFakeSource() *fakeSource {
	return &fakeSource{created: created, first: 1, isSuppressed: notSuppressed, changed: make(chan struct{})}
}

// add appends alerts. Each arrives at start plus its sequence in seconds.
func (m *fakeSource) add(alerts ...*alert.Alert) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range alerts {
		p := bus.Position{Seq: m.first + uint64(len(m.kept)), Created: m.created}
		if a != nil {
			a.Seq = p.Seq
		}
		m.kept = append(m.kept, Arrival{Position: p, Time: start.Add(time.Duration(p.Seq) * time.Second), Alert: a})
	}
	m.wake()
}

func (m *fakeSource) wake() { close(m.changed); m.changed = make(chan struct{}) }

// drop drops the oldest n alerts.
func (m *fakeSource) drop(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept, m.first = m.kept[n:], m.first+uint64(n)
}

// recreate deletes the stream and creates it again.
func (m *fakeSource) recreate() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept, m.first, m.created = nil, 1, m.created.Add(time.Minute)
}

func (m *fakeSource) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

func (m *fakeSource) State(ctx context.Context) (bus.State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return bus.State{Created: m.created, First: m.first, Last: m.first + uint64(len(m.kept)) - 1}, errors.Join(m.err, ctx.Err())
}

func (m *fakeSource) Read(_ context.Context, after uint64, limit int) ([]Arrival, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Arrival
	for _, a := range m.kept {
		if a.Position.Seq > after && len(out) < limit {
			out = append(out, a)
		}
	}
	return out, m.err
}

func (m *fakeSource) Suppressed(a alert.Alert) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.isSuppressed(a)
}

func (m *fakeSource) suppress(ids ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.isSuppressed = func(a alert.Alert) bool { return slices.Contains(ids, a.ID) }
}

func (m *fakeSource) Follow(ctx context.Context, after bus.Position, handle func(Arrival)) {
	for ctx.Err() == nil {
		next, wait := m.next(after)
		if next == nil {
			select {
			case <-wait:
			case <-ctx.Done():
			}
			continue
		}
		handle(*next)
		after = next.Position
	}
}

func (m *fakeSource) next(after bus.Position) (*Arrival, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range m.kept {
		if a.Position.Seq > after.Seq || !a.Position.Created.Equal(after.Created) {
			return &a, nil
		}
	}
	return nil, m.changed
}

// testAlert returns an alert whose id and dedup key are its name.
func testAlert(name string) *alert.Alert {
	return &alert.Alert{
		ID: name, Severity: alert.Error, Category: alert.Errors, Title: "title of " + name, Detail: "a -> <b>", App: "web",
		Timestamp: start, Source: alert.SourceErrors, URL: "http://localhost/", DedupKey: name, CorrelationID: name,
	}
}

// testAlerts returns the alerts a001, a002 and so on.
func testAlerts(n int) []*alert.Alert {
	list := make([]*alert.Alert, n)
	for i := range list {
		list[i] = testAlert(fmt.Sprintf("a%03d", i+1))
	}
	return list
}

func position(seq uint64) bus.Position { return bus.Position{Seq: seq, Created: created} }

func cursor(seq uint64) *string {
	c := encodeCursor(position(seq))
	return &c
}
