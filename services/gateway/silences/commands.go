package silences

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

// Commands change silences and acknowledgements for all clients, on behalf of a person
// at a shell.
type Commands struct {
	store silence.Store
	by    string
}

// NewCommands returns commands on a connection with [bus.RoleGateway], which the caller
// keeps. by names the person to others.
func NewCommands(session *bus.Session, by string, log *slog.Logger) Commands {
	return Commands{silence.NewStore(session, redact.New(), log), by}
}

// Silence suppresses matching alerts for a period between [silence.MinDuration] and
// [silence.MaxDuration]. An active silence with the same matcher gets the new period instead.
func (c Commands) Silence(ctx context.Context, m silence.Matcher, period time.Duration, reason string) (silence.Silence, error) {
	if period < silence.MinDuration || period > silence.MaxDuration {
		return silence.Silence{}, fmt.Errorf("a silence must last between %s and %s", silence.MinDuration, silence.MaxDuration)
	}
	added, _, err := c.store.Silence(ctx, m, period, reason, c.by)
	switch {
	case errors.Is(err, silence.ErrFull):
		return added, fmt.Errorf("there are %d silences already, the maximum: end one (see tocsin silence --list)", silence.MaxSilences)
	case errors.Is(err, silence.ErrTruncated):
		return added, fmt.Errorf("%w, as tocsin tail --json shows it", err)
	}
	return added, err
}

// Ack acknowledges an alert of the last 7 days: its repetitions are suppressed.
func (c Commands) Ack(ctx context.Context, id string) (silence.Ack, error) {
	a, err := c.store.Alert(ctx, id)
	if errors.Is(err, silence.ErrNoAlert) {
		err = fmt.Errorf("%w: tocsin tail --json shows the ids", err)
	}
	if err != nil {
		return silence.Ack{}, err
	}
	ack, _, err := c.store.Ack(ctx, a, c.by)
	return ack, err
}

// End ends a silence by its id, or an acknowledgement by the id of its alert.
func (c Commands) End(ctx context.Context, id string) error {
	_, err := c.store.Unsilence(ctx, id)
	if !errors.Is(err, silence.ErrUnknown) {
		return err
	}
	_, err = c.store.Unack(ctx, id)
	if errors.Is(err, silence.ErrUnknown) {
		return errors.New("no silence or acknowledgement in force has that id: see tocsin silence --list")
	}
	return err
}

// List returns what is in force, oldest first, with texts that are safe to print. It fails if
// a part can't be read, because a reader would take an incomplete list for a complete one.
func (c Commands) List(ctx context.Context) (silence.Set, error) { return c.store.List(ctx) }
