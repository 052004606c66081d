package mcpevents

import (
	"context"
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

// Arrival is one message of the stream of alerts.
type Arrival struct {
	At Position
	// Time is when the bus took it.
	Time time.Time
	// Alert is masked and visible. It is nil where the message is none: then only
	// its place counts.
	Alert *alert.Alert
}

// Source has the alerts. Its errors are told to the client as they are.
type Source interface {
	// State says what the stream holds. Its error says that the bus is away, and
	// what to do.
	State(context.Context) (State, error)
	// Read returns the oldest alerts after a number, at most limit. Of their
	// places only the number is looked at.
	Read(ctx context.Context, after uint64, limit int) ([]Arrival, error)
	// Suppressed says that an alert is told to nobody now. Those that are so when Read
	// and Follow meet them come as nil.
	Suppressed(alert.Alert) bool
	// Follow hands on what comes after a place, in order and each once, through
	// whatever happens to the bus. It returns when ctx ends.
	Follow(ctx context.Context, after Position, hand func(Arrival))
}

// aged is where delivery begins when nothing older than maxAge milliseconds is
// wanted: at after, or further on. last is the number of the newest alert. It
// asks the source at most once and then once for each halving of what is
// between.
func aged(ctx context.Context, s Source, after Position, last uint64, maxAge *int64, now time.Time) (Position, error) {
	if maxAge == nil {
		return after, nil
	}
	floor := now.Add(-time.Duration(*maxAge) * time.Millisecond)
	at := after
	for mid, end := after.Seq, max(last, after.Seq); ; mid = at.Seq + (end-at.Seq)/2 {
		next, err := s.Read(ctx, mid, 1)
		switch {
		case err != nil:
			return after, err
		case len(next) > 0 && next[0].Time.Before(floor):
			at.Seq = min(next[0].At.Seq, end) // this one is too old, and all before it
		default:
			end = mid // what comes after mid is young enough
		}
		if at.Seq >= end {
			return at, nil
		}
	}
}
