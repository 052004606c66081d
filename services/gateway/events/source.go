package events

import (
	"context"
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

// Arrival is one message of the stream of alerts.
type Arrival struct {
	At Position
	// Alert is masked and visible. It is nil where the message is none: then only
	// its place counts.
	Alert *alert.Alert
}

// Source has the alerts. Its errors are told to the client as they are.
type Source interface {
	// State says what the stream holds. Its error says that the bus is away, and
	// what to do.
	State(context.Context) (State, error)
	// Before is the number of the newest alert older than a time, and the newest
	// of all where all are. It is 0 where the oldest is not older.
	Before(context.Context, time.Time) (uint64, error)
	// Read returns the oldest alerts after a number, at most limit.
	Read(ctx context.Context, after uint64, limit int) ([]Arrival, error)
	// Follow hands on what comes after a place, in order and each once, through
	// whatever happens to the bus. It returns when ctx ends.
	Follow(ctx context.Context, after Position, hand func(Arrival))
}

// aged is where delivery begins when nothing older than maxAge is wanted.
// truncated says that this left something out.
func aged(ctx context.Context, s Source, at Position, maxAge *int64, now time.Time) (from Position, truncated bool, err error) {
	if maxAge == nil {
		return at, false, nil
	}
	seq, err := s.Before(ctx, now.Add(-time.Duration(*maxAge)*time.Millisecond))
	if err != nil {
		return at, false, err
	}
	return Position{Seq: max(seq, at.Seq), Created: at.Created}, seq > at.Seq, nil
}
