package detector

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/shared/bus"
)

// A fold knows the time only from its messages, so that a replay gives the same alerts.
// A spike ends, and a suppressed alert leaves, when time passes, which must happen also
// while no app sends anything: then a partition publishes ticks.

const (
	// tickEvery is the time between two ticks that the first of several partitions publishes for all.
	tickEvery = 5 * time.Second
	// suppressedTickEvery is the time between two ticks of the only partition while alerts
	// are suppressed. While a spike is open it does so every tickEvery.
	suppressedTickEvery = time.Second
	// ticksPerSnapshot ticks without any other message cause a snapshot, so that its
	// position stays ahead of what the stream drops.
	ticksPerSnapshot = 12
)

// tickMessage returns a message that carries the time of its arrival and nothing else.
func tickMessage() *nats.Msg { return &nats.Msg{Subject: bus.SubjectIntakeTick, Data: []byte("{}")} }

// tick publishes ticks for all of several partitions until ctx ends. Two detectors may
// do so at once while the owner changes; that is harmless.
func (p *partition) tick(ctx context.Context) error {
	every := time.NewTicker(tickEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
		}
		if !p.lease.held() {
			continue
		}
		p.publishTick(ctx)
	}
}

// tickWhileWaiting publishes ticks for the only partition while its fold waits for time
// to pass: the telemetry may have ended with a storm, or with the outage of its sender.
func (p *partition) tickWhileWaiting(ctx context.Context) error {
	every := time.NewTicker(suppressedTickEvery)
	defer every.Stop()
	last := time.Now()
	for {
		var now time.Time
		select {
		case <-ctx.Done():
			return nil
		case now = <-every.C:
		}
		due := false
		err := p.ask(ctx, func(l *loop) {
			due = l.fold.HasSuppressed() || now.Sub(last) >= tickEvery && l.fold.HasOpenIncidents()
		})
		if err != nil || !due || !p.lease.held() {
			continue
		}
		last = now
		p.publishTick(ctx)
	}
}

func (p *partition) publishTick(ctx context.Context) {
	if _, err := p.publisher.Publish(ctx, tickMessage()); err != nil && ctx.Err() == nil {
		p.log.Debug("cannot publish a tick; the next one follows", "error", err)
	}
}
