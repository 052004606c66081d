package silences

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/clean"
	"github.com/tocsin-bus/tocsin/shared/redact"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
	"github.com/tocsin-bus/tocsin/shared/silence"
)

// Bounds of how long a silence lasts: at most as long as alerts are kept.
const (
	MinLasts = time.Minute
	MaxLasts = kept
	// Usual is how long one lasts where nothing is said.
	Usual = time.Hour

	kept = 7 * 24 * time.Hour
)

var (
	// ErrNotFound says that no alert of the history has an id.
	ErrNotFound = errors.New("no alert of the last 7 days has that id")
	// ErrEnded says that an alert is over, or worse by now: it can't be acknowledged.
	ErrEnded = errors.New("not to be acknowledged any more")
	// ErrCut refuses a dedup key that was cut where it was shown.
	ErrCut = errors.New(`dedup_key ends where it was cut ("` + cutMark + `"), and would match nothing: use the whole key`)
)

// cutMark ends a text that was cut, see package untrusted.
const cutMark = "…"

// Muted is what a silence is to match; not empty, all of it does.
type Muted struct {
	DedupKey string
	Category alert.Category
	App      string
}

// Check says what is wrong with it, or nil.
func (m Muted) Check() error {
	switch {
	case cmp.Or(m.DedupKey, string(m.Category), m.App) == "":
		return errors.New("silence must have one of dedup_key, category, app, or several, which all must match then")
	case len(m.App) > silence.MaxApp:
		return fmt.Errorf("app must be a text of at most %d bytes", silence.MaxApp)
	case len(m.DedupKey) > silence.MaxKey:
		return fmt.Errorf("dedup_key must be a text of at most %d bytes", silence.MaxKey)
	default:
		return nil
	}
}

// Keeper silences and acknowledges for all clients, in the name of whoever asks. Its
// connection is one as bus.RoleGateway, and stays its maker's.
type Keeper struct {
	conn *bus.Conn
	mask *redact.Engine
	log  *slog.Logger
}

// NewKeeper makes a keeper on a connection.
func NewKeeper(conn *bus.Conn, mask *redact.Engine, log *slog.Logger) Keeper {
	return Keeper{conn, mask, log}
}

// Silence holds back what matches, for a while. One that matches the same already
// lasts as long then. By is who asks, as it is shown to others. The errors are also
// ErrCut and silence.ErrFull.
func (k Keeper) Silence(ctx context.Context, what Muted, lasts time.Duration, reason, by string) (added silence.Silence, d Document, err error) {
	if err := what.Check(); err != nil {
		return added, d, err
	}
	if strings.HasSuffix(what.DedupKey, cutMark) {
		whole, err := k.isKey(ctx, what.DedupKey)
		if err != nil {
			return added, d, err
		}
		if !whole {
			return added, d, ErrCut
		}
	}
	now := time.Now()
	// As alerts are when they are told: the key that a client knows is that.
	shown := clean.Alert(alert.Alert{App: what.App, DedupKey: what.DedupKey}, k.mask)
	s := silence.Silence{
		ID: strings.ToLower(rand.Text()[:12]), DedupKey: shown.DedupKey, Category: what.Category, App: shown.App,
		Reason: k.mask.String(reason), By: k.mask.String(by), Created: now, Until: now.Add(lasts),
	}
	d, err = Change(ctx, k.conn, func(l silence.Silences) (after silence.Silences, err error) {
		after, added, err = l.Add(s, now)
		return after, err
	})
	return added, d, err
}

// Ack acknowledges an alert, and with it its repetitions.
func (k Keeper) Ack(ctx context.Context, a alert.Alert, by string) (ack silence.Ack, d Document, err error) {
	now := time.Now()
	ack = silence.Acknowledge(a, k.mask.String(by), now)
	d, err = ChangeAcks(ctx, k.conn, func(l silence.Acks) (silence.Acks, error) { return l.Add(ack, now), nil })
	return ack, d, err
}

// Unsilence ends a silence. The error is silence.ErrUnknown where there is none that
// lasts.
func (k Keeper) Unsilence(ctx context.Context, id string) (Document, error) {
	return Change(ctx, k.conn, func(l silence.Silences) (silence.Silences, error) {
		after, _, err := l.End(id, time.Now())
		return after, err
	})
}

// Unack ends the acknowledgement of an alert. The error is silence.ErrUnknown where
// there is none that lasts.
func (k Keeper) Unack(ctx context.Context, id string) (Document, error) {
	return ChangeAcks(ctx, k.conn, func(l silence.Acks) (silence.Acks, error) {
		after, _, err := l.End(id, time.Now())
		return after, err
	})
}

// List is what lasts, oldest first, fit to be shown. A part that can't be read is an
// error: a list without it would say that nothing lasts.
func (k Keeper) List(ctx context.Context) (set silence.Set, err error) {
	documents, err := Documents(ctx, k.conn)
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
	show := func(text string) string { return sanitize.Visible(k.mask.String(text)) }
	for i, x := range set.Silences {
		shown := clean.Alert(alert.Alert{ID: x.ID, App: x.App, DedupKey: x.DedupKey, Category: x.Category}, k.mask)
		x.ID, x.App, x.DedupKey, x.Category = shown.ID, shown.App, shown.DedupKey, shown.Category
		x.Reason, x.By = show(x.Reason), show(x.By)
		set.Silences[i] = x
	}
	for i, a := range set.Acks {
		shown := clean.Alert(alert.Alert{ID: a.AlertID, App: a.App, DedupKey: a.DedupKey}, k.mask)
		a.AlertID, a.App, a.DedupKey, a.By = shown.ID, shown.App, shown.DedupKey, show(a.By)
		set.Acks[i] = a
	}
	return set, nil
}

// Alert finds an alert in the history, unless there it is told already that it is
// over or worse by now: then the error is ErrEnded. It is ErrNotFound where there is
// none.
func (k Keeper) Alert(ctx context.Context, id string) (a alert.Alert, err error) {
	var found bool
	var ended error
	err = k.each(ctx, func(m bus.Message) {
		var next alert.Alert
		if !found && !bytes.Contains(m.Data, []byte(id)) || json.Unmarshal(m.Data, &next) != nil {
			return
		}
		next = clean.Alert(next, k.mask)
		switch {
		case next.ID == id:
			a, found = next, true
		case found && ended == nil && silence.Acknowledge(a, "", a.Timestamp).EndedBy(next):
			ended = &endedError{fmt.Sprintf("alert %s came back worse, as %s: acknowledge that one", id, next.ID)}
			if next.Resolves != "" {
				ended = &endedError{fmt.Sprintf("alert %s is over already: %s says so", id, next.ID)}
			}
		}
	})
	if err == nil && !found {
		err = ErrNotFound
	}
	return a, cmp.Or(err, ended)
}

// endedError is ErrEnded in words for people.
type endedError struct{ text string }

func (e *endedError) Error() string        { return e.text }
func (e *endedError) Is(target error) bool { return target == ErrEnded }

// isKey says whether an alert of the history has that dedup key, which holds a
// cutMark: a page may have put it there.
func (k Keeper) isKey(ctx context.Context, key string) (found bool, err error) {
	err = k.each(ctx, func(m bus.Message) {
		var a alert.Alert
		if !found && bytes.Contains(m.Data, []byte(cutMark)) && json.Unmarshal(m.Data, &a) == nil {
			found = clean.Alert(a, k.mask).DedupKey == key
		}
	})
	return found, err
}

// each hands over every alert of the history.
func (k Keeper) each(ctx context.Context, handle func(bus.Message)) error {
	return bus.ReadSince(ctx, k.conn, bus.StreamAlerts, time.Now().Add(-kept), k.log, handle)
}
