package silence

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
	"github.com/tocsin-bus/tocsin/shared/display"
	"github.com/tocsin-bus/tocsin/shared/redact"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// Bounds of the duration of a silence: at most as long as alerts are kept.
const (
	MinDuration     = time.Minute
	MaxDuration     = retention
	DefaultDuration = time.Hour
)

var (
	// ErrNoAlert is returned when no alert of the history has an id.
	ErrNoAlert = errors.New("no alert of the last 7 days has that id")
	// ErrEnded is returned when an alert can't be acknowledged: it is resolved, or was
	// raised again with a higher severity.
	ErrEnded = errors.New("the alert has ended and can't be acknowledged")
	// ErrTruncated is returned for a dedup key that was truncated where it was shown.
	ErrTruncated = errors.New(`dedup_key is truncated (it ends with "` + ellipsis + `") and would match nothing: use the whole key`)
)

// ellipsis ends a truncated text, see [sanitize.Cut].
const ellipsis = "…"

// Matcher names the alerts that a silence matches: those that have all its fields that are
// not empty.
type Matcher struct {
	DedupKey string
	Category alert.Category
	App      string
}

// Validate returns what is wrong with the matcher, or nil.
func (m Matcher) Validate() error {
	switch {
	case cmp.Or(m.DedupKey, string(m.Category), m.App) == "":
		return errors.New("silence must have one of dedup_key, category, app; alerts must match all that it has")
	case len(m.App) > MaxApp:
		return fmt.Errorf("app must be a text of at most %d bytes", MaxApp)
	case len(m.DedupKey) > MaxKey:
		return fmt.Errorf("dedup_key must be a text of at most %d bytes", MaxKey)
	default:
		return nil
	}
}

// Store creates and ends silences and acknowledgements on the bus, for all clients. Its
// session has [bus.RoleGateway] and belongs to the caller.
type Store struct {
	session *bus.Session
	mask    *redact.Engine
	log     *slog.Logger
}

// NewStore returns a store on a session.
func NewStore(session *bus.Session, mask *redact.Engine, log *slog.Logger) Store {
	return Store{session, mask, log}
}

// Silence suppresses matching alerts for a duration. An active silence with the same matcher
// is prolonged instead. by is the client that asks, as others see it. Errors are also
// [ErrTruncated] and [ErrFull].
func (s Store) Silence(ctx context.Context, m Matcher, duration time.Duration, reason, by string) (added Silence, r Record, err error) {
	if err := m.Validate(); err != nil {
		return added, r, err
	}
	if strings.HasSuffix(m.DedupKey, ellipsis) {
		whole, err := s.hasKey(ctx, m.DedupKey)
		if err != nil {
			return added, r, err
		}
		if !whole {
			return added, r, ErrTruncated
		}
	}
	now := time.Now()
	// Clients know the key as alerts show it.
	shown := display.Alert(alert.Alert{App: m.App, DedupKey: m.DedupKey}, s.mask)
	silence := Silence{
		ID: strings.ToLower(rand.Text()[:12]), DedupKey: shown.DedupKey, Category: m.Category, App: shown.App,
		Reason: s.mask.String(reason), By: s.mask.String(by), Created: now, Until: now.Add(duration),
	}
	r, err = ChangeSilences(ctx, s.session, func(l Silences) (after Silences, err error) {
		after, added, err = l.Add(silence, now)
		return after, err
	})
	return added, r, err
}

// Ack acknowledges an alert, and with it its repetitions.
func (s Store) Ack(ctx context.Context, a alert.Alert, by string) (ack Ack, r Record, err error) {
	now := time.Now()
	ack = Acknowledge(a, s.mask.String(by), now)
	r, err = ChangeAcks(ctx, s.session, func(l Acks) (Acks, error) { return l.Add(ack, now), nil })
	return ack, r, err
}

// Unsilence ends a silence. The error is [ErrUnknown] where no active one has the id.
func (s Store) Unsilence(ctx context.Context, id string) (Record, error) {
	return ChangeSilences(ctx, s.session, func(l Silences) (Silences, error) {
		after, _, err := l.End(id, time.Now())
		return after, err
	})
}

// Unack ends the acknowledgement of an alert. The error is [ErrUnknown] where the alert has
// no active one.
func (s Store) Unack(ctx context.Context, id string) (Record, error) {
	return ChangeAcks(ctx, s.session, func(l Acks) (Acks, error) {
		after, _, err := l.End(id, time.Now())
		return after, err
	})
}

// List returns what is active, oldest first, safe to be shown. A record that can't be read is
// an error: a list without it would claim that nothing is silenced.
func (s Store) List(ctx context.Context) (set Set, err error) {
	records, err := Records(ctx, s.session)
	if err != nil {
		return set, err
	}
	for _, r := range records {
		if err := r.Apply(&set); err != nil {
			return set, err
		}
	}
	now := time.Now()
	set.Silences, set.Acks = set.Silences.Active(now), set.Acks.Active(now)
	show := func(text string) string { return sanitize.Visible(s.mask.String(text)) }
	for i, x := range set.Silences {
		shown := display.Alert(alert.Alert{ID: x.ID, App: x.App, DedupKey: x.DedupKey, Category: x.Category}, s.mask)
		x.ID, x.App, x.DedupKey, x.Category = shown.ID, shown.App, shown.DedupKey, shown.Category
		x.Reason, x.By = show(x.Reason), show(x.By)
		set.Silences[i] = x
	}
	for i, a := range set.Acks {
		shown := display.Alert(alert.Alert{ID: a.AlertID, App: a.App, DedupKey: a.DedupKey}, s.mask)
		a.AlertID, a.App, a.DedupKey, a.By = shown.ID, shown.App, shown.DedupKey, show(a.By)
		set.Acks[i] = a
	}
	return set, nil
}

// Alert finds an alert in the history. The error is [ErrNoAlert] where there is none, and
// [ErrEnded] where the history has it resolved or raised again with a higher severity.
func (s Store) Alert(ctx context.Context, id string) (a alert.Alert, err error) {
	var found bool
	var ended error
	err = s.eachAlert(ctx, func(m bus.Message) {
		var next alert.Alert
		if !found && !bytes.Contains(m.Data, []byte(id)) || json.Unmarshal(m.Data, &next) != nil {
			return
		}
		next = display.Alert(next, s.mask)
		switch {
		case next.ID == id:
			a, found = next, true
		case found && ended == nil && Acknowledge(a, "", a.Timestamp).EndedBy(next):
			ended = &endedError{fmt.Sprintf("alert %s was raised again with a higher severity, as %s: acknowledge that one", id, next.ID)}
			if next.Resolves != "" {
				ended = &endedError{fmt.Sprintf("alert %s is already resolved, by %s", id, next.ID)}
			}
		}
	})
	if err == nil && !found {
		err = ErrNoAlert
	}
	return a, cmp.Or(err, ended)
}

// endedError is ErrEnded with the alert that ended another.
type endedError struct{ text string }

func (e *endedError) Error() string        { return e.text }
func (e *endedError) Is(target error) bool { return target == ErrEnded }

// hasKey reports whether an alert of the history has a dedup key that contains an ellipsis of
// its own: a page may have put it there.
func (s Store) hasKey(ctx context.Context, key string) (found bool, err error) {
	err = s.eachAlert(ctx, func(m bus.Message) {
		var a alert.Alert
		if !found && bytes.Contains(m.Data, []byte(ellipsis)) && json.Unmarshal(m.Data, &a) == nil {
			found = display.Alert(a, s.mask).DedupKey == key
		}
	})
	return found, err
}

// eachAlert calls handle for every alert of the history, oldest first.
func (s Store) eachAlert(ctx context.Context, handle func(bus.Message)) error {
	cfg := bus.FollowConfig{Stream: bus.StreamAlerts, Since: time.Now().Add(-retention), Logger: s.log}
	return s.session.ReadToEnd(ctx, cfg, func(m bus.Message) error { handle(m); return nil })
}
