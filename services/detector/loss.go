package detector

import (
	"context"
	"time"

	"github.com/tocsin-bus/tocsin/shared/bus"
)

// lossEvery is the time between two checks of a partition with a backlog for dropped messages.
const lossEvery = time.Second

// lossCounter bounds how many messages of one of several partitions the stream dropped
// before they were read. The sequences of a partition have gaps that belong to the other
// partitions, so it counts every dropped sequence that lay in an unread gap: the result
// is an upper bound.
type lossCounter struct {
	last uint64 // highest sequence read
	// gapAfter is the sequence before the first gap since the last check; hasGap reports
	// whether there is one.
	gapAfter uint64
	hasGap   bool
	// checked is the sequence up to which dropped messages were counted.
	checked uint64
	// due reports whether a check is needed: since the last one there was a backlog, or
	// reading started or restarted.
	due bool
}

// read records a message that was read, with the backlog after it.
func (c *lossCounter) read(seq, backlog uint64) {
	if seq > c.last+1 && !c.hasGap {
		c.gapAfter, c.hasGap = c.last, true
	}
	c.last = max(c.last, seq)
	c.due = c.due || backlog > 0
}

// started records that reading started or restarted.
func (c *lossCounter) started() { c.due = true }

// check takes the first sequence that the stream has now. It returns the largest number
// of messages that may have been lost since the check before.
func (c *lossCounter) check(first uint64) (atMost uint64) {
	from := c.last
	if c.hasGap {
		from = c.gapAfter
	}
	from = max(from, c.checked)
	if first > from+1 {
		atMost = first - from - 1
	}
	c.checked = max(c.checked, first-min(first, 1))
	c.hasGap, c.due = false, false
	return atMost
}

// watchLoss runs the loss check of one of several partitions until ctx ends.
func (p *partition) watchLoss(ctx context.Context) error {
	every := time.NewTicker(lossEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
		}
		due := false
		if p.ask(ctx, func(l *loop) { due = l.loss.due }) != nil || !due {
			continue
		}
		checking, cancel := context.WithTimeout(ctx, lossEvery)
		telemetry, err := p.out.State(checking, bus.StreamTelemetry)
		cancel()
		if err != nil {
			continue // the next check counts the same messages
		}
		_ = p.ask(ctx, func(l *loop) { // an error means that ctx has ended
			if telemetry.Created.Equal(l.position.Created) {
				l.countLost(l.loss.check(telemetry.First))
			}
		})
	}
}

// logLost logs lost messages. One of several partitions knows only an upper bound.
func (p *partition) logLost(n uint64) {
	key := "messages"
	if p.total > 1 {
		key = "max_messages_of_all_partitions"
	}
	p.log.Error("telemetry was dropped before it was read", key, n)
}
