package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/display"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
	"github.com/tocsin-bus/tocsin/shared/silence"
)

const (
	maxMinutes     = int(silence.MaxDuration / time.Minute)
	defaultMinutes = int(silence.DefaultDuration / time.Minute)
	// maxListed is how many acknowledgements are listed. Past it the oldest are
	// left out, and the list says so.
	maxListed = 100
)

// The actions of configure that change who is told of what.
const (
	actAck         = "ack"
	actUnack       = "unack"
	actSilence     = "silence"
	actSilenceList = "silence_list"
	actUnsilence   = "unsilence"
)

// quiet is what is to be told no more.
type quiet struct {
	alertID, silenceID string
	// dedupKey, category and app are what a silence matches; not empty, all do.
	dedupKey, category, app string
	minutes                 int
	reason                  string
}

// readQuiet reads all but the app, which other actions have too.
func readQuiet(a *arguments, app string) quiet {
	categories := make([]string, 0, len(alert.Categories()))
	for _, c := range alert.Categories() {
		categories = append(categories, string(c))
	}
	return quiet{
		alertID: a.text("alert_id", maxText), silenceID: a.text("silence_id", maxText), app: app,
		dedupKey: a.text("dedup_key", silence.MaxKey), category: a.optional("category", categories...),
		minutes: a.whole("minutes", defaultMinutes, 1, maxMinutes), reason: a.text("reason", maxText),
	}
}

// check says which argument an action lacks.
func (q quiet) check(action string) error {
	switch {
	case (action == actAck || action == actUnack) && q.alertID == "":
		return errors.New("alert_id must be the id of an alert: it stands in each alert that you are told")
	case action == actSilence:
		return q.muted().Validate()
	case action == actUnsilence && q.silenceID == "":
		return errors.New("silence_id must be the id of a silence: silence_list shows them")
	default:
		return nil
	}
}

// muted is what a silence of it matches.
func (q quiet) muted() silence.Matcher {
	return silence.Matcher{DedupKey: q.dedupKey, Category: alert.Category(q.category), App: q.app}
}

// quieten acknowledges or silences, takes that back, or lists it.
func (g *gateway) quieten(ctx context.Context, action string, q quiet) (answer, error) {
	if err := q.check(action); err != nil {
		return nil, err
	}
	g.settle(ctx)
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	if err := g.connected(); err != nil {
		return nil, err
	}
	switch action {
	case actAck:
		return g.ack(ctx, q)
	case actUnack:
		return g.unack(ctx, q.alertID)
	case actSilence:
		return g.silence(ctx, q)
	case actUnsilence:
		return g.unsilence(ctx, q.silenceID)
	default:
		return g.listSilences(ctx)
	}
}

func (g *gateway) ack(ctx context.Context, q quiet) (answer, error) {
	a, err := g.alertNamed(ctx, q.alertID)
	if err != nil {
		return nil, g.explain(err)
	}
	k, d, err := g.silences().Ack(ctx, a, g.link.client())
	return encoded(struct {
		Status   string    `json:"status"`
		AlertID  string    `json:"alert_id"`
		DedupKey string    `json:"dedup_key"`
		Until    time.Time `json:"until"`
	}{"acknowledged", k.AlertID, k.DedupKey, k.Until}, g.learn(d, err))
}

func (g *gateway) unack(ctx context.Context, id string) (answer, error) {
	d, err := g.silences().Unack(ctx, id)
	if errors.Is(err, silence.ErrUnknown) {
		return nil, errors.New("alert_id must be that of an acknowledgement that lasts: silence_list shows them")
	}
	return encoded(struct {
		Status  string `json:"status"`
		AlertID string `json:"alert_id"`
	}{"unacknowledged", id}, g.learn(d, err))
}

func (g *gateway) silence(ctx context.Context, q quiet) (answer, error) {
	added, d, err := g.silences().Silence(ctx, q.muted(), time.Duration(q.minutes)*time.Minute, q.reason, g.link.client())
	if errors.Is(err, silence.ErrTruncated) {
		return nil, fmt.Errorf(`%w, observe {"what":"alerts"} shows it`, err)
	}
	return encoded(struct {
		Status  string          `json:"status"`
		Silence silence.Silence `json:"silence"`
	}{"silenced", added}, g.learn(d, err))
}

func (g *gateway) unsilence(ctx context.Context, id string) (answer, error) {
	d, err := g.silences().Unsilence(ctx, id)
	if errors.Is(err, silence.ErrUnknown) {
		return nil, errors.New("silence_id must be that of a silence that lasts: silence_list shows them")
	}
	return encoded(struct {
		Status    string `json:"status"`
		SilenceID string `json:"silence_id"`
	}{"unsilenced", id}, g.learn(d, err))
}

// learn makes the own session obey a change that was made: before the answer is
// read. Of one that failed it says why.
func (g *gateway) learn(d silence.Record, err error) error {
	if err == nil {
		err = g.session.do(g.life, func(s *session, now time.Time) { s.learn(now, d) })
	}
	return g.explain(err)
}

// explain says what is wrong with the bus in words for a client.
func (g *gateway) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case g.connected() != nil:
		return errAway
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return errSilent
	default:
		return err
	}
}

// listed is what lasts, with how much of it this gateway held back.
type (
	listedSilence struct {
		silence.Silence
		HeldBack uint64 `json:"held_back"`
	}
	listedAck struct {
		silence.Ack
		HeldBack uint64 `json:"held_back"`
	}
)

// listSilences shows what lasts, newest first. Where a part of that can't be read
// it says so: a list without it would say that nothing lasts.
func (g *gateway) listSilences(ctx context.Context) (answer, error) {
	documents, err := silence.Records(ctx, g.link.conn.Load())
	if err != nil {
		return nil, g.explain(err)
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
	err = g.session.do(g.life, func(s *session, now time.Time) {
		s.learn(now, documents...) // what is listed is what holds here
		set := s.hush.set
		for _, x := range slices.Backward(set.Silences.Active(now)) {
			if !g.cfg.Kubernetes.Namespaces.ShowsKey(x.DedupKey) {
				continue
			}
			shown := display.Alert(alert.Alert{App: x.App, DedupKey: x.DedupKey, Category: x.Category}, g.mask)
			x.App, x.DedupKey, x.Category = shown.App, shown.DedupKey, shown.Category
			x.ID, x.Reason, x.By = sanitize.Visible(x.ID), g.mask.String(x.Reason), g.mask.String(x.By)
			reply.Silences = append(reply.Silences, listedSilence{x, s.hush.held[silence.Cause{Silence: x.ID}]})
		}
		for _, k := range slices.Backward(set.Acks.Active(now)) {
			if len(reply.Acks) == maxListed {
				reply.Truncated = true
				break
			}
			if !g.cfg.Kubernetes.Namespaces.ShowsKey(k.DedupKey) {
				continue
			}
			shown := display.Alert(alert.Alert{ID: k.AlertID, App: k.App, DedupKey: k.DedupKey}, g.mask)
			k.AlertID, k.App, k.DedupKey, k.By = shown.ID, shown.App, shown.DedupKey, g.mask.String(k.By)
			reply.Acks = append(reply.Acks, listedAck{k, s.hush.held[silence.Cause{Ack: k.AlertID}]})
		}
	})
	return encoded(reply, err)
}
