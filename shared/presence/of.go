package presence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/query"
)

// ErrSilent is returned for services of which none answers in time, although one is
// there.
var ErrSilent = errors.New("no answer in time")

// Question says which services Of asks, and how long it waits for them.
type Question struct {
	// Service is their role, as in Config.
	Service string
	// Expected is how many there are, or 0 where that is not known. Of returns as soon
	// as so many have answered.
	Expected int
	// First bounds the wait for the first answer, Next that for another after it.
	First, Next time.Duration
}

// Of asks the instances of one service how they are, and nobody else: by the statistics
// that micro gives by a service's name. Where none is there it returns at once, with
// none; where some are, but are too slow, with ErrSilent. A service of a version that does not say so there is left out, and answered is
// true all the same. A bus that is away is bus.ErrAway.
func Of(ctx context.Context, c *bus.Conn, q Question) (all []query.Health, answered bool, err error) {
	if !c.Connected() {
		return nil, false, errors.Join(bus.ErrAway, c.Why())
	}
	subject, err := micro.ControlSubject(micro.StatsVerb, prefix+q.Service, "")
	if err != nil {
		return nil, false, fmt.Errorf("ask the %s how it is: %w", q.Service, err)
	}
	inbox := c.NC.NewInbox()
	answers, err := c.NC.SubscribeSync(inbox)
	if err != nil {
		return nil, false, fmt.Errorf("listen for the health of the %s: %w", q.Service, err)
	}
	defer func() { _ = answers.Unsubscribe() }() // else it ends with the connection
	if err := c.NC.PublishRequest(subject, inbox, nil); err != nil {
		return nil, false, fmt.Errorf("ask the %s how it is: %w", q.Service, err)
	}
	wait := q.First
	for n := 1; n <= maxAnswers; n++ {
		m, err := next(ctx, answers, wait)
		switch {
		case ctx.Err() != nil:
			return nil, answered, ctx.Err()
		case errors.Is(err, context.DeadlineExceeded) && !answered:
			return nil, false, fmt.Errorf("hear the health of the %s: %w", q.Service, ErrSilent)
		case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrNoResponders):
			return sorted(all), answered, nil
		case err != nil:
			return nil, answered, fmt.Errorf("hear the health of the %s: %w", q.Service, err)
		case len(m.Data) == 0 && m.Header.Get("Status") == noResponders:
			return sorted(all), answered, nil
		}
		answered, wait = true, q.Next
		if h, ok := healthIn(m.Data); ok {
			all = append(all, h)
		}
		if n == q.Expected {
			break
		}
	}
	return sorted(all), answered, nil
}

func next(ctx context.Context, answers *nats.Subscription, wait time.Duration) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return answers.NextMsgWithContext(ctx)
}

// healthIn finds what a service says of itself in its statistics.
func healthIn(data []byte) (h query.Health, ok bool) {
	var stats micro.Stats
	if json.Unmarshal(data, &stats) != nil {
		return h, false
	}
	for _, e := range stats.Endpoints {
		if e != nil && e.Name == endpoint && json.Unmarshal(e.Data, &h) == nil && h.Service != "" {
			return h, true
		}
	}
	return h, false
}
