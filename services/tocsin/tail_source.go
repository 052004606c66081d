package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/tocsin-bus/tocsin/shared/bus"
)

// tailLine is what tail prints for one message.
type tailLine struct {
	// at is when the bus took the message: by that, lines of several streams are
	// put in order.
	at   time.Time
	text string
}

// tailSource is one stream that tail shows.
type tailSource struct {
	stream string
	// keep is how many past lines are shown at most.
	keep int
	// read makes a line of a message; an empty one is not shown.
	read func(bus.Message) (string, error)

	// first and last are what the stream held when tail began.
	first, last uint64
}

// look waits for the bus and finds out what the stream holds.
func (s *tailSource) look(ctx context.Context, conn *bus.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, tailWait)
	defer cancel()
	if err := awaitBus(ctx, conn); err != nil {
		return err
	}
	stream, err := conn.JS.Stream(ctx, s.stream)
	if err != nil {
		return fmt.Errorf("look at %s: %w", s.stream, err)
	}
	state := stream.CachedInfo().State
	s.first, s.last = state.FirstSeq, state.LastSeq
	return nil
}

// follow sends the past lines at once, then each new one, until ctx ends.
func (s *tailSource) follow(ctx context.Context, conn *bus.Conn, past chan<- []tailLine, live chan<- tailLine, log *slog.Logger) error {
	start := max(s.first, 1)
	if s.last >= start+tailPast {
		start = s.last - tailPast + 1
	}
	var kept []tailLine
	begun := s.last < start
	if begun {
		start = s.last + 1
		past <- nil // there is room for one of each source
	}
	return bus.Follow(ctx, conn, bus.FollowConfig{Stream: s.stream, Start: start, Logger: log}, func(m bus.Message) error {
		text, err := s.read(m)
		if err != nil {
			return err
		}
		line := tailLine{m.Time, text}
		if !begun && m.Seq <= s.last {
			if text != "" && s.keep > 0 {
				kept = append(kept[max(0, len(kept)-s.keep+1):], line)
			}
			text = ""
		}
		if !begun && m.Seq >= s.last {
			begun = true
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
}

// printLines prints the past of all sources in the order of time, then what comes.
// A source that is late with its past holds up the others for tailWait at most.
// A failing w ends it.
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
