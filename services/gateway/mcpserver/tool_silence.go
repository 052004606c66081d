package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/busclient"
	"github.com/tocsin-bus/tocsin/services/gateway/delivery"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/display"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
	"github.com/tocsin-bus/tocsin/shared/silence"
)

// maxListedAcks is how many acknowledgements are listed. Beyond it the oldest are left
// out, and the list is marked as truncated.
const maxListedAcks = 100

// silenceArgs select what is silenced or acknowledged.
type silenceArgs struct {
	AlertID   string         `json:"alert_id" max:"2048" jsonschema:"For ack and unack: the id of an alert"`
	DedupKey  string         `json:"dedup_key" max:"1024" jsonschema:"For silence: only alerts with this dedup_key"`
	Category  alert.Category `json:"category" enum:"category" jsonschema:"For silence: only this category"`
	Minutes   int            `json:"minutes" min:"1" max:"10080" default:"60" jsonschema:"For silence: how long"`
	Reason    string         `json:"reason" max:"2048" jsonschema:"For silence: why; others see it"`
	SilenceID string         `json:"silence_id" max:"2048" jsonschema:"For unsilence"`
}

// matcher returns what a silence matches.
func (a silenceArgs) matcher(app string) silence.Matcher {
	return silence.Matcher{DedupKey: a.DedupKey, Category: a.Category, App: app}
}

// check returns an error that names the argument that an action lacks.
func (a silenceArgs) check(action action, app string) error {
	switch {
	case (action == actionAck || action == actionUnack) && a.AlertID == "":
		return errors.New("alert_id must be the id of an alert: every delivered alert has one")
	case action == actionSilence:
		return a.matcher(app).Validate()
	case action == actionUnsilence && a.SilenceID == "":
		return errors.New("silence_id must be the id of a silence: silence_list shows them")
	default:
		return nil
	}
}

// changeSilences acknowledges or silences, undoes that, or lists what is in force.
func (s *server) changeSilences(ctx context.Context, action action, app string, args silenceArgs) (answer, error) {
	if err := args.check(action, app); err != nil {
		return nil, err
	}
	s.alerts.WaitForPast(ctx)
	ctx, cancel := context.WithTimeout(ctx, busclient.RequestTimeout)
	defer cancel()
	session, err := s.bus.Session()
	if err != nil {
		return nil, err
	}
	store := silence.NewStore(session, s.mask, s.log)
	switch action {
	case actionAck:
		return s.ack(ctx, store, args.AlertID)
	case actionUnack:
		return s.unack(ctx, store, args.AlertID)
	case actionSilence:
		return s.silence(ctx, store, app, args)
	case actionUnsilence:
		return s.unsilence(ctx, store, args.SilenceID)
	default:
		return s.listSilences(ctx, session)
	}
}

func (s *server) ack(ctx context.Context, store silence.Store, id string) (answer, error) {
	a, err := s.alertByID(ctx, store, id)
	if err != nil {
		return nil, s.bus.Explain(ctx, err)
	}
	k, d, err := store.Ack(ctx, a, s.alerts.Inbox())
	return encoded(struct {
		Status   string    `json:"status"`
		AlertID  string    `json:"alert_id"`
		DedupKey string    `json:"dedup_key"`
		Until    time.Time `json:"until"`
	}{"acknowledged", k.AlertID, k.DedupKey, k.Until}, s.apply(ctx, d, err))
}

// alertByID finds an alert by its id, first among the pending ones, then in history. A
// pending alert has the severity of its most severe repetition, so acknowledging it
// acknowledges them all.
func (s *server) alertByID(ctx context.Context, store silence.Store, id string) (a alert.Alert, err error) {
	var pending bool
	err = s.alerts.Do(func(state *delivery.State, _ time.Time) { a, pending = state.Inbox.Find(id) })
	switch {
	case err != nil:
		return a, err
	case pending && a.Resolved:
		return a, fmt.Errorf("alert %s is resolved already", a.ID)
	case pending:
		a.ID = id
		return a, nil
	}
	a, err = store.Alert(ctx, id)
	if errors.Is(err, silence.ErrNoAlert) || !s.history.Shows(a) {
		a = alert.Alert{}
		err = errors.New(`alert_id must be the id of an alert of the last 7 days: observe {"what":"alerts","since_seconds":604800} shows them`)
	}
	return a, err
}

func (s *server) unack(ctx context.Context, store silence.Store, id string) (answer, error) {
	d, err := store.Unack(ctx, id)
	if errors.Is(err, silence.ErrUnknown) {
		return nil, errors.New("alert_id must be that of an acknowledgement in force: silence_list shows them")
	}
	return encoded(struct {
		Status  string `json:"status"`
		AlertID string `json:"alert_id"`
	}{"unacknowledged", id}, s.apply(ctx, d, err))
}

func (s *server) silence(ctx context.Context, store silence.Store, app string, args silenceArgs) (answer, error) {
	added, d, err := store.Silence(ctx, args.matcher(app), time.Duration(args.Minutes)*time.Minute, args.Reason, s.alerts.Inbox())
	if errors.Is(err, silence.ErrTruncated) {
		return nil, fmt.Errorf(`%w, observe {"what":"alerts"} shows it`, err)
	}
	return encoded(struct {
		Status  string          `json:"status"`
		Silence silence.Silence `json:"silence"`
	}{"silenced", added}, s.apply(ctx, d, err))
}

func (s *server) unsilence(ctx context.Context, store silence.Store, id string) (answer, error) {
	d, err := store.Unsilence(ctx, id)
	if errors.Is(err, silence.ErrUnknown) {
		return nil, errors.New("silence_id must be that of a silence in force: silence_list shows them")
	}
	return encoded(struct {
		Status    string `json:"status"`
		SilenceID string `json:"silence_id"`
	}{"unsilenced", id}, s.apply(ctx, d, err))
}

// apply applies a stored change to this client at once, so that the next call sees it. It
// does nothing if the change failed with err.
func (s *server) apply(ctx context.Context, d silence.Record, err error) error {
	if err == nil {
		err = s.alerts.Do(func(state *delivery.State, now time.Time) { state.Apply(now, d) })
	}
	return s.bus.Explain(ctx, err)
}

// Entries of the list, with how many alerts each has suppressed here.
type (
	listedSilence struct {
		silence.Silence
		Suppressed uint64 `json:"held_back"`
	}
	listedAck struct {
		silence.Ack
		Suppressed uint64 `json:"held_back"`
	}
)

// listSilences lists what is in force, newest first. It fails if a part can't be read,
// because a reader would take an incomplete list for a complete one.
func (s *server) listSilences(ctx context.Context, session *bus.Session) (answer, error) {
	documents, err := silence.Records(ctx, session)
	if err != nil {
		return nil, s.bus.Explain(ctx, err)
	}
	for _, d := range documents {
		if err := d.Apply(new(silence.Set)); err != nil {
			return nil, err
		}
	}
	reply := struct {
		Silences  []listedSilence `json:"silences"`
		Acks      []listedAck     `json:"acks"`
		Truncated bool            `json:"truncated,omitempty"`
	}{Silences: []listedSilence{}, Acks: []listedAck{}}
	shows := s.cfg.Kubernetes.Namespaces.ShowsKey
	err = s.alerts.Do(func(state *delivery.State, now time.Time) {
		state.Apply(now, documents...) // what is listed is what is in force here
		active := state.Silences.Active(now)
		for _, x := range slices.Backward(active.Silences) {
			if !shows(x.DedupKey) {
				continue
			}
			shown := display.Alert(alert.Alert{App: x.App, DedupKey: x.DedupKey, Category: x.Category}, s.mask)
			x.App, x.DedupKey, x.Category = shown.App, shown.DedupKey, shown.Category
			x.ID, x.Reason, x.By = sanitize.Visible(x.ID), s.mask.String(x.Reason), s.mask.String(x.By)
			reply.Silences = append(reply.Silences, listedSilence{x, state.Silences.Suppressed(silence.Cause{Silence: x.ID})})
		}
		for _, k := range slices.Backward(active.Acks) {
			if len(reply.Acks) == maxListedAcks {
				reply.Truncated = true
				break
			}
			if !shows(k.DedupKey) {
				continue
			}
			shown := display.Alert(alert.Alert{ID: k.AlertID, App: k.App, DedupKey: k.DedupKey}, s.mask)
			k.AlertID, k.App, k.DedupKey, k.By = shown.ID, shown.App, shown.DedupKey, s.mask.String(k.By)
			reply.Acks = append(reply.Acks, listedAck{k, state.Silences.Suppressed(silence.Cause{Ack: k.AlertID})})
		}
	})
	return encoded(reply, err)
}
