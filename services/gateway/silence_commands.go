package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/redact"
	"github.com/tocsin-bus/tocsin/shared/silence"
)

// Quieter silences and acknowledges for who is no MCP client, such as a person at
// a shell: as configure does it, for all clients. Its calls end with ctx.
type Quieter struct {
	keeper silence.Store
	by     string
}

// NewQuieter makes a Quieter on a connection as bus.RoleGateway, which stays the
// caller's. By is who asks, as it is shown to others.
func NewQuieter(conn *bus.Conn, by string, log *slog.Logger) Quieter {
	return Quieter{silence.NewStore(conn, redact.New(), log), by}
}

// Silence holds back what matches, for a time between silence.MinDuration and
// silence.MaxDuration. One that matches the same already lasts as long then.
func (q Quieter) Silence(ctx context.Context, what silence.Matcher, lasts time.Duration, reason string) (silence.Silence, error) {
	if lasts < silence.MinDuration || lasts > silence.MaxDuration {
		return silence.Silence{}, fmt.Errorf("a silence must last between %s and %s", silence.MinDuration, silence.MaxDuration)
	}
	added, _, err := q.keeper.Silence(ctx, what, lasts, reason, q.by)
	switch {
	case errors.Is(err, silence.ErrFull):
		return added, fmt.Errorf("there are %d silences already, which is the most: end one (see tocsin silence --list)", silence.MaxSilences)
	case errors.Is(err, silence.ErrTruncated):
		return added, fmt.Errorf("%w, as tocsin tail --json shows it", err)
	}
	return added, err
}

// Ack acknowledges an alert of the last 7 days, and with it its repetitions.
func (q Quieter) Ack(ctx context.Context, id string) (silence.Ack, error) {
	a, err := q.keeper.Alert(ctx, id)
	if errors.Is(err, silence.ErrNoAlert) {
		err = fmt.Errorf("%w: tocsin tail --json shows the ids", err)
	}
	if err != nil {
		return silence.Ack{}, err
	}
	k, _, err := q.keeper.Ack(ctx, a, q.by)
	return k, err
}

// End ends a silence by its id, or an acknowledgement by that of its alert.
func (q Quieter) End(ctx context.Context, id string) error {
	_, err := q.keeper.Unsilence(ctx, id)
	if !errors.Is(err, silence.ErrUnknown) {
		return err
	}
	_, err = q.keeper.Unack(ctx, id)
	if errors.Is(err, silence.ErrUnknown) {
		return errors.New("nothing that lasts has that id: tocsin silence --list shows what does")
	}
	return err
}

// List is what lasts, oldest first, fit to be shown. A part that can't be read is
// an error: a list without it would say that nothing lasts.
func (q Quieter) List(ctx context.Context) (silence.Set, error) { return q.keeper.List(ctx) }
