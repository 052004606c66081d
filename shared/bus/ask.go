package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
)

// ErrNoAnswer is returned when no service answers a request: none is running, or it is busy.
var ErrNoAnswer = errors.New("no service answers")

// RefusedError is the reason of a service to refuse a request, in words for people.
type RefusedError struct{ Code, Text string }

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
	if text := m.Header.Get("Nats-Service-Error"); text != "" {
		return nil, &RefusedError{Code: m.Header.Get("Nats-Service-Error-Code"), Text: text}
	}
	return m.Data, nil
}
