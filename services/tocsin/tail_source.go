package main

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/tocsin-bus/tocsin/shared/bus"
)

// tailLine is what tail prints for one message.
type tailLine struct {
	// at is when the bus stored the message, which orders the lines of several streams.
	at   time.Time
	text string
}

// tailSource is one stream that tail shows.
type tailSource struct {
	stream string
	// keep is the maximum number of past lines.
	keep int
	// read returns the line for a message; an empty line is not printed.
	read func(bus.Message) (string, error)

	// first and last are the sequences that the stream held at the start.
	first, last uint64
}

// inspect waits for the bus and reads which sequences the stream holds.
func (s *tailSource) inspect(ctx context.Context, conn *bus.Session) error {
	ctx, cancel := context.WithTimeout(ctx, tailWait)
	defer cancel()
	if err := awaitBus(ctx, conn); err != nil {
		return err
	}
	state, err := conn.State(ctx, s.stream)
	if err != nil {
		return err
	}
	s.first, s.last = state.First, state.Last
	return nil
}

// follow sends the past lines at once, then each new one, until ctx ends.
func (s *tailSource) follow(ctx context.Context, conn *bus.Session, past chan<- []tailLine, live chan<- tailLine, log *slog.Logger) error {
	start := max(s.first, 1)
	if s.last >= start+tailPast {
		start = s.last - tailPast + 1
	}
	var kept []tailLine
	caughtUp := s.last < start
	if caughtUp {
		start = s.last + 1
		past <- nil // the channel has room for one of each source
	}
	err := conn.Follow(ctx, bus.FollowConfig{Stream: s.stream, After: bus.Position{Seq: start - 1}, Logger: log}, func(m bus.Message) error {
		text, err := s.read(m)
		if err != nil {
			return err
		}
		line := tailLine{m.Time, text}
		if !caughtUp && m.Seq <= s.last {
			if text != "" && s.keep > 0 {
				kept = append(kept[max(0, len(kept)-s.keep+1):], line)
			}
			text = ""
		}
		if !caughtUp && m.Seq >= s.last {
			caughtUp = true
			past <- kept
		}
		if text == "" {
			return nil
		}
		select {
		case live <- line:
		case <-ctx.Done():
		}
		return nil
	})
	if ctx.Err() != nil {
		return nil //nolint:nilerr // stopped by its caller
	}
	return err
}

// printLines prints the past lines of all sources in order of time, then new lines as they
// arrive. It waits at most tailWait for the past of all sources. It returns the error of w,
// or nil when ctx ends.
func printLines(ctx context.Context, w io.Writer, sources int, past <-chan []tailLine, live <-chan tailLine) error {
	var lines []tailLine
	late := time.After(tailWait)
	for waiting := sources; waiting > 0; {
		select {
		case p := <-past:
			lines = append(lines, p...)
			waiting--
		case <-late:
			waiting = 0
		case <-ctx.Done():
			return nil
		}
	}
	for {
		slices.SortStableFunc(lines, func(a, b tailLine) int { return a.at.Compare(b.at) })
		for _, line := range lines {
			if _, err := io.WriteString(w, line.text); err != nil {
				return err
			}
		}
		select {
		case lines = <-past:
		case line := <-live:
			lines = []tailLine{line}
		case <-ctx.Done():
			return nil
		}
	}
}
