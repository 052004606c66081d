package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/clean"
	"github.com/tocsin-bus/tocsin/shared/redact"
	"github.com/tocsin-bus/tocsin/shared/silence"
	"github.com/tocsin-bus/tocsin/shared/silences"
	"github.com/tocsin-bus/tocsin/shared/untrusted"
)

// Bounds of how long a silence lasts.
const (
	MinSilence = time.Minute
	MaxSilence = maxMinutes * time.Minute
)

// Quieter silences and acknowledges for who is no MCP client, such as a person at
// a shell: as configure does it, for all clients. Its calls end with ctx.
type Quieter struct {
	past past
	by   string
}

// NewQuieter makes a Quieter on a connection as bus.RoleGateway, which stays the
// caller's. By is who asks, as it is shown to others.
func NewQuieter(conn *bus.Conn, by string, log *slog.Logger) Quieter {
	return Quieter{past{conn, redact.New(), log}, by}
}

// Muted is what a silence is to match; not empty, all of it does.
type Muted struct {
	DedupKey string
	Category alert.Category
	App      string
}

// Silence holds back what matches, for a time between MinSilence and MaxSilence.
// One that matches the same already lasts as long then.
func (q Quieter) Silence(ctx context.Context, what Muted, lasts time.Duration, reason string) (silence.Silence, error) {
	w := quiet{dedupKey: what.DedupKey, category: string(what.Category), app: what.App, reason: reason}
	if err := w.check(actSilence); err != nil {
		return silence.Silence{}, err
	}
	if lasts < MinSilence || lasts > MaxSilence {
		return silence.Silence{}, fmt.Errorf("a silence must last between %s and %s", MinSilence, MaxSilence)
	}
	added, _, err := q.past.silence(ctx, w, q.by, lasts)
	switch {
	case errors.Is(err, silence.ErrFull):
		return added, fmt.Errorf("there are %d silences already, which is the most: end one (see tocsin silence --list)", silence.MaxSilences)
	case errors.Is(err, errCut):
		return added, errors.New("the dedup key ends where it was cut (\"…\"), and would match nothing: use the whole key, as tocsin tail --json shows it")
	}
	return added, err
}

// Ack acknowledges an alert of the last 7 days, and with it its repetitions.
func (q Quieter) Ack(ctx context.Context, id string) (silence.Ack, error) {
	a, err := q.past.alert(ctx, id)
	if errors.Is(err, errNotFound) {
		err = fmt.Errorf("%w: tocsin tail --json shows the ids", err)
	}
	if err != nil {
		return silence.Ack{}, err
	}
	k, _, err := q.past.ack(ctx, a, q.by)
	return k, err
}

// End ends a silence by its id, or an acknowledgement by that of its alert.
func (q Quieter) End(ctx context.Context, id string) error {
	_, err := q.past.unsilence(ctx, id)
	if !errors.Is(err, silence.ErrUnknown) {
		return err
	}
	_, err = q.past.unack(ctx, id)
	if errors.Is(err, silence.ErrUnknown) {
		return errors.New("nothing that lasts has that id: tocsin silence --list shows what does")
	}
	return err
}

// List is what lasts, oldest first, fit to be shown. A part that can't be read is
// an error: a list without it would say that nothing lasts.
func (q Quieter) List(ctx context.Context) (set silence.Set, err error) {
	documents, err := silences.Documents(ctx, q.past.conn)
	if err != nil {
		return set, err
	}
	for _, d := range documents {
		if err := d.Into(&set); err != nil {
			return set, err
		}
	}
	now := time.Now()
	set.Silences, set.Acks = set.Silences.Active(now), set.Acks.Active(now)
	show := func(text string) string { return untrusted.Visible(q.past.mask.String(text)) }
	for i, x := range set.Silences {
		shown := clean.Alert(alert.Alert{ID: x.ID, App: x.App, DedupKey: x.DedupKey, Category: x.Category}, q.past.mask)
		x.ID, x.App, x.DedupKey, x.Category = shown.ID, shown.App, shown.DedupKey, shown.Category
		x.Reason, x.By = show(x.Reason), show(x.By)
		set.Silences[i] = x
	}
	for i, k := range set.Acks {
		shown := clean.Alert(alert.Alert{ID: k.AlertID, App: k.App, DedupKey: k.DedupKey}, q.past.mask)
		k.AlertID, k.App, k.DedupKey, k.By = shown.ID, shown.App, shown.DedupKey, show(k.By)
		set.Acks[i] = k
	}
	return set, nil
}
