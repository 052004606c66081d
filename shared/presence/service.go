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

// ErrTimeout is returned when a service is running and no instance answers in time.
var ErrTimeout = errors.New("no answer in time")

// Request selects the service to ask, and how long to wait for its instances.
type Request struct {
	// Service is its role, as in Config.
	Service string
	// Expected is the number of instances, or 0 where it is not known. CollectService returns
	// as soon as so many have answered.
	Expected int
	// First bounds the wait for the first answer, Next that for another after it.
	First, Next time.Duration
}

// CollectService requests the health of the instances of one service alone, by its statistics in
// micro. If no instance runs it returns none, at once; if instances run and are too slow, the
// error is [ErrTimeout]. It leaves out an instance whose version has no health in its
// statistics; answered is true all the same. The error wraps [bus.ErrUnreachable] if the bus
// can't be reached.
func CollectService(ctx context.Context, c *bus.Session, q Request) (all []query.Health, answered bool, err error) {
	if !c.Connected() {
		return nil, false, errors.Join(bus.ErrUnreachable, c.Why())
	}
	subject, err := micro.ControlSubject(micro.StatsVerb, prefix+q.Service, "")
	if err != nil {
		return nil, false, fmt.Errorf("request the health of the %s: %w", q.Service, err)
	}
	inbox := c.NC.NewInbox()
	answers, err := c.NC.SubscribeSync(inbox)
	if err != nil {
		return nil, false, fmt.Errorf("subscribe to the health of the %s: %w", q.Service, err)
	}
	defer func() { _ = answers.Unsubscribe() }() // it ends with the connection otherwise
	if err := c.NC.PublishRequest(subject, inbox, nil); err != nil {
		return nil, false, fmt.Errorf("request the health of the %s: %w", q.Service, err)
	}
	wait := q.First
	for n := 1; n <= maxAnswers; n++ {
		m, err := next(ctx, answers, wait)
		switch {
		case ctx.Err() != nil:
			return nil, answered, ctx.Err()
		case errors.Is(err, context.DeadlineExceeded) && !answered:
			return nil, false, fmt.Errorf("receive the health of the %s: %w", q.Service, ErrTimeout)
		case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrNoResponders):
			return sortedHealth(all), answered, nil
		case err != nil:
			return nil, answered, fmt.Errorf("receive the health of the %s: %w", q.Service, err)
		case len(m.Data) == 0 && m.Header.Get("Status") == noResponders:
			return sortedHealth(all), answered, nil
		}
		answered, wait = true, q.Next
		if h, ok := decodeHealth(m.Data); ok {
			all = append(all, h)
		}
		if n == q.Expected {
			break
		}
	}
	return sortedHealth(all), answered, nil
}

// Running reports whether an instance of a service runs. The error wraps [bus.ErrUnreachable] if
// the bus can't be reached, and [ErrTimeout] if instances run and none answers before ctx ends.
func Running(ctx context.Context, c *bus.Session, service string) (bool, error) {
	if !c.Connected() {
		return false, errors.Join(bus.ErrUnreachable, c.Why())
	}
	subject, err := micro.ControlSubject(micro.PingVerb, prefix+service, "")
	if err != nil {
		return false, fmt.Errorf("look for the %s: %w", service, err)
	}
	_, err = c.NC.RequestWithContext(ctx, subject, nil)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, nats.ErrNoResponders):
		return false, nil
	case errors.Is(err, context.DeadlineExceeded):
		err = ErrTimeout
	}
	return false, fmt.Errorf("look for the %s: %w", service, err)
}

func next(ctx context.Context, answers *nats.Subscription, wait time.Duration) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return answers.NextMsgWithContext(ctx)
}

// decodeHealth returns the health in the statistics of a service.
func decodeHealth(data []byte) (h query.Health, ok bool) {
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
