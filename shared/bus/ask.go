package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// ErrNoAnswer is returned when no service answers a request: none is running, or it is busy.
var ErrNoAnswer = errors.New("no service answers")

// RefusedError is the reason of a service to refuse a request, in words for people.
type RefusedError struct {
	// Code is a status as in HTTP.
	Code, Text string
	// RetryAfter is when to try again, in seconds; 0 where the service does not say.
	RetryAfter int
}

func (e *RefusedError) Error() string { return e.Text }

// Ask sends a request to a service on the bus, such as those of package query, and returns
// the JSON of its answer. The error wraps [ErrUnreachable] or [ErrNoAnswer], or is a
// *[RefusedError].
func Ask(ctx context.Context, c *Session, subject string, request any) ([]byte, error) {
	if !c.Connected() {
		return nil, ErrUnreachable
	}
	data, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("encode the request to %s: %w", subject, err)
	}
	m, err := c.NC.RequestWithContext(ctx, subject, data)
	switch {
	case err != nil && !c.Connected():
		return nil, ErrUnreachable
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("ask %s: %w", subject, ErrNoAnswer)
	case err != nil:
		return nil, fmt.Errorf("ask %s: %w", subject, err)
	}
	if text := m.Header.Get(micro.ErrorHeader); text != "" {
		refused := &RefusedError{Code: m.Header.Get(micro.ErrorCodeHeader), Text: text}
		if n, err := strconv.Atoi(m.Header.Get(retryAfterHeader)); err == nil && n > 0 {
			refused.RetryAfter = n
		}
		return nil, refused
	}
	return m.Data, nil
}

// retryAfterHeader has RefusedError.RetryAfter.
const retryAfterHeader = "Retry-After"

// Answer answers a request that [Ask] sent: with the JSON of value, or with a refusal where refused
// is not nil. A value that can't be encoded is a refusal as well.
func Answer(c *Session, reply string, value any, refused *RefusedError) error {
	m := nats.NewMsg(reply)
	if refused == nil {
		data, err := json.Marshal(value)
		if err == nil {
			m.Data = data
		} else {
			refused = &RefusedError{Code: "500", Text: "encode the answer: " + err.Error()}
		}
	}
	if refused != nil {
		m.Header.Set(micro.ErrorHeader, refused.Text)
		m.Header.Set(micro.ErrorCodeHeader, refused.Code)
		if refused.RetryAfter > 0 {
			m.Header.Set(retryAfterHeader, strconv.Itoa(refused.RetryAfter))
		}
	}
	if err := c.NC.PublishMsg(m); err != nil {
		return fmt.Errorf("answer a request: %w", err)
	}
	return nil
}
