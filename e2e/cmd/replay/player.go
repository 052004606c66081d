package main

import (
	"fmt"
	"io"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/fold"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// Intervals of messages that only let time pass, as of a single running detector.
const (
	suppressedEvery = time.Second     // while a storm limit suppresses alerts
	openEvery       = 5 * time.Second // while an incident is open
)

// maxSkew is how far back a time counts as the newest one, as in package fold.
const maxSkew = time.Minute

// player applies messages to a detector without a bus.
type player struct {
	fold *fold.Fold
	out  io.Writer
	seq  uint64
	// newest is the time up to which the stream has been played. ticked is the time of the
	// newest message that only let time pass, or of the first message.
	newest, ticked time.Time
}

// apply applies events that arrived together, after the time until then has passed.
func (p *player) apply(at time.Time, events []telemetry.Event) error {
	if p.seq == 0 {
		p.newest, p.ticked = at, at
	}
	if err := p.pass(at); err != nil {
		return err
	}
	switch {
	case at.After(p.newest):
		p.newest = at
	case p.newest.Sub(at) > maxSkew: // the detector starts over from the earlier time, too
		p.newest, p.ticked = at, at
	}
	return p.message(fold.Message{Time: at, Events: events})
}

// finish lets time pass after the last message while an incident is open.
func (p *player) finish(longest time.Duration) error {
	if p.seq == 0 {
		return nil
	}
	return p.pass(p.newest.Add(longest).Add(1))
}

// pass lets time pass until just before a time while an incident is open or alerts are
// suppressed.
func (p *player) pass(until time.Time) error {
	for p.fold.HasSuppressed() || p.fold.HasOpenIncidents() {
		next := p.newest.Add(suppressedEvery)
		if !next.Before(until) {
			return nil
		}
		p.newest = next
		if !p.fold.HasSuppressed() && next.Sub(p.ticked) < openEvery {
			continue
		}
		p.ticked = next
		if err := p.message(fold.Message{Time: next}); err != nil {
			return err
		}
	}
	return nil
}

// message applies a message and writes the alerts that it raises.
func (p *player) message(m fold.Message) error {
	p.seq++
	m.Seq = p.seq
	for _, a := range p.fold.Apply(m).Alerts {
		data, err := a.MarshalJSON()
		if err != nil {
			return fmt.Errorf("encode alert %s: %w", a.ID, err)
		}
		if _, err := p.out.Write(append(data, '\n')); err != nil {
			return fmt.Errorf("write alerts: %w", err)
		}
	}
	return nil
}
