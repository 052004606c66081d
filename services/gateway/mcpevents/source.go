package mcpevents

import (
	"context"
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
)

// Arrival is one message of the stream of alerts.
type Arrival struct {
	Position bus.Position
	// Time is when the message arrived at the bus.
	Time time.Time
	// Alert is masked and sanitized. It is nil if the message is no alert, or a suppressed
	// one; then only the position matters.
	Alert *alert.Alert
}

// Source has the alerts. The client receives its errors as they are.
type Source interface {
	// State returns what the stream of alerts holds. Its error explains that the bus is
	// unreachable, and what to do.
	State(context.Context) (bus.State, error)
	// Read returns the oldest alerts after a sequence, at most limit. Their positions need
	// no Created.
	Read(ctx context.Context, after uint64, limit int) ([]Arrival, error)
	// Suppressed reports whether an alert is suppressed now. Read and Follow return alerts
	// that are suppressed when they read them as nil.
	Suppressed(alert.Alert) bool
	// Follow calls handle for every message after a position, in order and each once, and
	// continues when the bus is reachable again. It returns when ctx ends.
	Follow(ctx context.Context, after bus.Position, handle func(Arrival))
}

// skipOlder returns where delivery begins if nothing older than maxAge milliseconds is
// wanted: after, or a later position. last is the sequence of the newest alert. It is a
// binary search: it reads one alert, and another one each time it halves the range.
func skipOlder(ctx context.Context, s Source, after bus.Position, last uint64, maxAge *int64, now time.Time) (bus.Position, error) {
	if maxAge == nil {
		return after, nil
	}
	oldest := now.Add(-time.Duration(*maxAge) * time.Millisecond)
	p := after
	for mid, end := after.Seq, max(last, after.Seq); ; mid = p.Seq + (end-p.Seq)/2 {
		next, err := s.Read(ctx, mid, 1)
		switch {
		case err != nil:
			return after, err
		case len(next) > 0 && next[0].Time.Before(oldest):
			p.Seq = min(next[0].Position.Seq, end) // this alert is too old, and so are those before it
		default:
			end = mid // the alerts after mid are new enough
		}
		if p.Seq >= end {
			return p, nil
		}
	}
}
