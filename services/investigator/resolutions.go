package investigator

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"github.com/tocsin-bus/tocsin/services/investigator/session"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
)

const (
	// resolveTries is the number of tries to change one session. After that the session goes
	// on without knowing that its alert was resolved.
	resolveTries = 3
	// resolveTimeout bounds one try.
	resolveTimeout = 5 * time.Second
)

// openSession is a session of an alert that has not ended.
type openSession struct {
	ID      string
	AlertID string
	// DedupKey is that of the session.
	DedupKey string
	// Created is when it was submitted.
	Created time.Time
}

// resolutions follows alerts that resolve others, and changes the open sessions of those: a
// queued one is cancelled, the agents of one that runs learn of it. Several processes may do so:
// a session learns of it once.
type resolutions struct {
	// open returns the open sessions of alerts, all that were acknowledged before the call.
	open func(ctx context.Context) []openSession
	// change appends what decide returns to a session.
	change func(ctx context.Context, id string, decide func(*session.Session) ([]session.Fact, error)) error
	// mask masks the title of an alert. What can't be masked is withheld.
	mask func(string) (string, error)
	// key returns a dedup_key as sessions store it.
	key func(string) string
	// ended is called for a session that was cancelled.
	ended func(ctx context.Context, s *session.Session) error
	log   *slog.Logger
}

// Run follows the alerts until ctx ends, from the oldest open session on: an alert may have been
// resolved while no investigator ran.
func (r *resolutions) Run(ctx context.Context, s *bus.Session) error {
	cfg := bus.FollowConfig{Stream: bus.StreamAlerts, Since: time.Now(), Logger: r.log}
	for _, o := range r.open(ctx) {
		if o.Created.Before(cfg.Since) {
			cfg.Since = o.Created
		}
	}
	return s.Follow(ctx, cfg, func(m bus.Message) error {
		var a alert.Alert
		if json.Unmarshal(m.Data, &a) == nil && a.IsResolution() {
			r.resolved(ctx, a, m.Time)
		}
		return nil
	})
}

// resolved changes the sessions of the alerts that a resolves.
func (r *resolutions) resolved(ctx context.Context, a alert.Alert, at time.Time) {
	a.DedupKey = r.key(a.DedupKey)
	for _, o := range r.open(ctx) {
		if !concerns(a, o) || o.Created.After(at) {
			continue
		}
		var err error
		for range resolveTries {
			if err = r.resolve(ctx, o.ID, a); err == nil || ctx.Err() != nil {
				break
			}
		}
		if err != nil {
			r.log.Warn("a session does not learn that its alert was resolved", "session", o.ID, "alert", a.ID, "error", err)
		}
	}
}

// concerns reports whether an alert may resolve that of a session: by its id or by the key, which
// may be the session's own.
func concerns(a alert.Alert, o openSession) bool {
	return a.Resolves == o.AlertID || slices.Contains(a.AlsoResolves, o.AlertID) || a.DedupKey != "" && a.DedupKey == o.DedupKey
}

// resolves reports whether an alert resolves another one, as it was published first or revised.
func resolves(a, other alert.Alert) bool {
	other = other.AsOriginal()
	key := other.MergeKey()
	key.Resolution = true
	return a.Resolves == other.ID || slices.Contains(a.AlsoResolves, other.ID) || key.DedupKey != "" && a.MergeKey() == key
}

func (r *resolutions) resolve(ctx context.Context, id string, a alert.Alert) error {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	title, err := r.mask(a.Title)
	if err != nil {
		title = ""
	}
	var cancelled bool
	err = r.change(ctx, id, func(s *session.Session) ([]session.Fact, error) {
		cancelled = false
		if own := s.Submitted().Alert; own == nil || !resolves(a, *own) {
			return nil, nil
		}
		facts := session.Resolve(s, a.ID, title)
		cancelled = slices.ContainsFunc(facts, func(f session.Fact) bool { return f.Ended != nil })
		return facts, nil
	})
	if err != nil || !cancelled {
		return err
	}
	err = r.change(ctx, id, func(s *session.Session) ([]session.Fact, error) { return nil, r.ended(ctx, s) })
	if err != nil {
		r.log.Info("what follows from the cancellation of a session is done by the worker that finds it cancelled", "session", id, "error", err)
	}
	return nil
}

// followResolutions follows alerts that resolve others until ctx ends, once the stored sessions were
// read: the oldest open one decides from where on.
func (b *backend) followResolutions(ctx context.Context, s *bus.Session) error {
	if err := b.index.awaitReady(ctx); err != nil {
		return err
	}
	r := resolutions{open: b.openOfAlerts, change: b.log.change, mask: b.submitter.masked, key: b.submitter.storedKey, ended: b.revisions.Ended, log: b.logger}
	return r.Run(ctx, s)
}

// openOfAlerts returns the open sessions of stored alerts.
func (b *backend) openOfAlerts(ctx context.Context) (open []openSession) {
	if err := b.index.await(ctx); err != nil {
		b.logger.Debug("the index may lack the newest sessions", "error", err)
	}
	for _, it := range b.index.all(func(it *session.Item) bool { return it.CompletedAt == nil && it.AlertID != nil }) {
		o := openSession{ID: it.ID, AlertID: *it.AlertID, Created: time.Time(it.CreatedAt)}
		if it.DedupKey != nil {
			o.DedupKey = *it.DedupKey
		}
		open = append(open, o)
	}
	return open
}
