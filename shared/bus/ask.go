package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
)

// ErrNoAnswer says that nobody answers a question: who would is not there, or busy.
var ErrNoAnswer = errors.New("nobody answers")

// RefusedError is what a service has against a question, in words for people.
type RefusedError struct{ Code, Text string }

func (e *RefusedError) Error() string { return e.Text }

// Ask asks a service of the bus, as those of package query, and returns the JSON of
// its answer. The error is ErrUnreachable, ErrNoAnswer or a *RefusedError, or says what
// failed.
func Ask(ctx context.Context, c *Session, subject string, question any) ([]byte, error) {
	if !c.Connected() {
		return nil, ErrUnreachable
	}
	data, err := json.Marshal(question)
	if err != nil {
		return nil, fmt.Errorf("encode the question to %s: %w", subject, err)
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
