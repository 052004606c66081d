package investigator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tocsin-bus/tocsin/services/investigator/config"
	"github.com/tocsin-bus/tocsin/services/investigator/recent"
	"github.com/tocsin-bus/tocsin/services/investigator/trigger"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/display"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
	"github.com/tocsin-bus/tocsin/shared/redact"
	"github.com/tocsin-bus/tocsin/shared/silence"
)

const (
	// circumstancesTimeout bounds what is asked of the bus about one alert, and triggerTimeout its
	// submission. After that the reader starts again with the alert.
	circumstancesTimeout = 5 * time.Second
	triggerTimeout       = 30 * time.Second
	// maxUnsaved is how many alerts in a row that start nothing are read again at most after a
	// crash.
	maxUnsaved = 100
	// maxEndedAcks is how many acknowledgements that an alert has ended are remembered until the
	// bus has stored that. Beyond it the oldest is forgotten.
	maxEndedAcks = 64
	// maxPosition bounds the stored position, in bytes.
	maxPosition = 1 << 10
)

// triggersKey is the key of the document with the position of the triggers.
const triggersKey = "triggers"

// triggerReader reads alerts and submits those that match a trigger. One process does so at a
// time, under a lease. Two may for a moment: the id of an alert is the Idempotency-Key of its
// submission, and the position is written by compare-and-set.
type triggerReader struct {
	*backend
	session *bus.Session
	// window knows what else happened to an alert.
	window *busWindow
	// mask masks an alert as its readers see it: silences name what they see.
	mask    *redact.Engine
	metrics *triggerMetrics
	now     func() time.Time
	log     *slog.Logger
}

// triggerRun is a reader that holds the lease. One goroutine uses it.
type triggerRun struct {
	*triggerReader
	triggers *trigger.Triggers
	// configured is the configuration that the triggers have.
	configured *config.Config
	// endedAcks are acknowledgements that an alert has ended.
	endedAcks silence.Acks
	// start is the position after which alerts are decided on. Older ones are only remembered.
	start bus.Position
	// stored is the stored position, and unsaved counts the alerts since.
	stored  *triggerPosition
	unsaved int
	// tooOld counts alerts that were too old when they were read, until that is logged.
	tooOld int
}

// run reads alerts until ctx ends. It returns an error where one can't be decided on, or submitted,
// right now: the next run begins with that alert.
func (r *triggerReader) run(ctx context.Context) error {
	// The window and the index have what happened while no reader ran.
	err := r.session.Await(ctx, bus.AwaitConfig{Logger: r.log}, func(ctx context.Context) error {
		return r.window.await(ctx, bus.StreamAlerts)
	})
	if err != nil {
		return fmt.Errorf("read the alerts for triggers: %w", err)
	}
	if err := r.index.awaitReady(ctx); err != nil {
		return fmt.Errorf("read the sessions for triggers: %w", err)
	}
	stored, err := openTriggerPosition(ctx, r.session, r.log)
	if err != nil {
		return err
	}
	run := &triggerRun{triggerReader: r, start: stored.Position, stored: stored}
	if err := run.forget(); err != nil {
		return err
	}
	before := run.start.At(run.start.Seq - min(run.start.Seq, trigger.MaxKnown))
	cfg := bus.FollowConfig{Stream: bus.StreamAlerts, After: before, Logger: r.log, Recreated: run.recreated}
	return r.session.Follow(ctx, cfg, func(m bus.Message) error { return run.handle(ctx, m) })
}

// forget makes triggers that know no alert.
func (r *triggerRun) forget() error {
	cfg := r.config()
	triggers, err := trigger.New(triggerRules(cfg)...)
	if err != nil {
		return err
	}
	r.triggers, r.configured = triggers, cfg
	return nil
}

// recreated begins at the beginning of another stream.
func (r *triggerRun) recreated(beginning bus.Position) {
	r.start = beginning
	if err := r.forget(); err != nil { // the configuration was checked
		r.log.Warn("the triggers keep what they know of a stream that is gone", "error", err)
	}
}

// triggerPosition is the stored position of the triggers. It is written by compare-and-set.
type triggerPosition struct {
	bus.Position
	document bus.Document
	revision uint64
}

// openTriggerPosition reads the position of the triggers. Without one they begin with the next
// alert, and that is stored: from then on they miss no alert of a downtime.
func openTriggerPosition(ctx context.Context, s *bus.Session, log *slog.Logger) (*triggerPosition, error) {
	p := &triggerPosition{document: s.Document(bus.BucketInvestigator, triggersKey)}
	stored, err := p.document.Get(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the position of the triggers: %w", err)
	}
	p.revision = stored.Revision
	if stored.Exists() {
		if p.Position, err = decodeTriggerPosition(stored.Data); err == nil {
			return p, nil
		}
		log.Warn("the stored position of the triggers can't be read: they begin with the next alert", "error", err)
	}
	state, err := s.State(ctx, bus.StreamAlerts)
	if err != nil {
		return nil, fmt.Errorf("read the position of the triggers: %w", err)
	}
	if err := p.save(ctx, state.End()); err != nil {
		return nil, err
	}
	return p, nil
}

func decodeTriggerPosition(data []byte) (p bus.Position, err error) {
	if len(data) > maxPosition {
		return p, fmt.Errorf("it has %d bytes, at most %d are allowed", len(data), maxPosition)
	}
	if err := json.Unmarshal(data, &p); err != nil {
		return bus.Position{}, err
	}
	if p.Created.IsZero() {
		return bus.Position{}, errors.New("it names no stream")
	}
	return p, nil
}

func (p *triggerPosition) save(ctx context.Context, at bus.Position) error {
	data, err := json.Marshal(at)
	if err == nil {
		p.revision, err = p.document.Write(ctx, data, p.revision)
	}
	if err != nil {
		return fmt.Errorf("store the position of the triggers: %w", err)
	}
	p.Position = at
	return nil
}

// handle decides on a message, and stores the position after it where the decision has an effect, or
// no other message waits.
func (r *triggerRun) handle(ctx context.Context, m bus.Message) error {
	a, closed, err := decodeAlert(m)
	if m.Position().SameStream(r.start) && m.Seq <= r.start.Seq {
		if err == nil {
			r.triggers.Remember(a)
		}
		return nil
	}
	hasEffect := false
	if err == nil { // the window logs what is no alert
		if hasEffect, err = r.decide(ctx, m, a, closed); err != nil {
			return err
		}
	}
	r.unsaved++
	if !hasEffect && m.Pending > 0 && r.unsaved < maxUnsaved {
		return nil
	}
	if r.tooOld > 0 && m.Pending == 0 {
		r.log.Info("alerts were too old to start a session when they were read", "alerts", r.tooOld, "limit", trigger.MaxAge)
		r.tooOld = 0
	}
	r.unsaved = 0
	return r.stored.save(ctx, m.Position())
}

// decodeAlert reads an alert, and whether it says of itself that it is closed: detectors may note
// that in a revision.
func decodeAlert(m bus.Message) (a alert.Alert, closed bool, err error) {
	var more struct {
		ClosedAt json.RawMessage `json:"closed_at"`
	}
	if err = json.Unmarshal(m.Data, &a); err == nil {
		err = json.Unmarshal(m.Data, &more)
	}
	a.Seq = m.Seq
	return a, !isNull(more.ClosedAt), err
}

// decide decides on an alert, and does what follows. It reports whether that has an effect.
func (r *triggerRun) decide(ctx context.Context, m bus.Message, a alert.Alert, closed bool) (hasEffect bool, err error) {
	c := trigger.Circumstances{Stored: m.Time, Closed: closed}
	now := r.now()
	if a.Investigation == nil && now.Sub(m.Time) <= trigger.MaxAge { // others start nothing anyway
		if err := r.learn(ctx, m, a, &c); err != nil {
			return false, fmt.Errorf("decide whether alert %s starts a session: %w", a.ID, err)
		}
	}
	if cfg := r.config(); cfg != r.configured {
		if err := r.triggers.Configure(triggerRules(cfg)...); err != nil { // the configuration was checked
			r.log.Warn("the changed triggers are not used", "error", err)
		}
		r.configured = cfg
	}
	d := r.triggers.Decide(a, c, now)
	if d.Action == trigger.Start {
		if d.Reason, err = r.submit(ctx, a, d.Chain); err != nil {
			return false, fmt.Errorf("submit alert %s: %w", a.ID, err)
		}
		hasEffect = true
	}
	if d.Reason != "" {
		r.metrics.skipped.WithLabelValues(string(d.Reason)).Inc()
		r.log.Debug("an alert starts no session", "alert", a.ID, "reason", d.Reason)
	}
	if d.Reason == trigger.ReasonTooOld {
		r.tooOld++
	}
	return hasEffect, nil
}

// learn finds the circumstances of an alert, all that was acknowledged before the call.
func (r *triggerRun) learn(ctx context.Context, m bus.Message, a alert.Alert, c *trigger.Circumstances) error {
	ctx, cancel := context.WithTimeout(ctx, circumstancesTimeout)
	defer cancel()
	var shown alert.Alert // it is masked in place, and may not share its context with a
	if err := json.Unmarshal(m.Data, &shown); err != nil {
		return err
	}
	shown = display.Alert(shown, r.mask)
	if err := r.learnSilences(ctx, shown, c); err != nil {
		return err
	}
	if err := r.window.await(ctx, bus.StreamAlerts); err != nil {
		return err
	}
	id := shown.AsOriginal().ID
	r.window.view(func(alerts *recent.Alerts, _ *recent.Clusters, _ *recent.Results) {
		if known, ok := alerts.ByID(id); ok && known.ResolvedBy != "" {
			c.Closed = true
		}
		group := alerts.GroupOf(shown)
		c.Inhibited = group.Cause != nil && group.Cause.ID != id
	})
	if err := r.index.await(ctx); err != nil {
		return err
	}
	key := trigger.Key(a)
	open, end := r.index.lastOf(r.submitter.storedKey(key)) // as sessions have it
	c.SessionOpen = open
	if !end.IsZero() {
		r.triggers.Ended(key, end)
	}
	return nil
}

// learnSilences finds out whether an alert is silenced or acknowledged. An acknowledgement that it
// ends is ended for later alerts too, whether or not a gateway stores that.
func (r *triggerRun) learnSilences(ctx context.Context, shown alert.Alert, c *trigger.Circumstances) error {
	set, err := silence.Read(ctx, r.session)
	if err != nil {
		return err
	}
	set.Acks, _ = set.Acks.MarkEnded(r.endedAcks...)
	after, ended := set.Acks.Apply(shown)
	set.Acks = after
	r.endedAcks = append(r.endedAcks, ended...)
	r.endedAcks = r.endedAcks[max(len(r.endedAcks)-maxEndedAcks, 0):]
	by, suppressed := set.Suppresses(shown, r.now())
	c.Silenced = suppressed && by.Silence != ""
	c.Acknowledged = suppressed && by.Ack != ""
	return nil
}

// submit submits an alert, or joins it to an open session. One that a limit refuses is marked. It
// returns why no session has the alert, and an error where a later try may succeed.
func (r *triggerRun) submit(ctx context.Context, a alert.Alert, chain string) (trigger.Reason, error) {
	ctx, cancel := context.WithTimeout(ctx, triggerTimeout)
	defer cancel()
	original := a.AsOriginal()
	digest := digestOf([]byte(a.ID))
	request := Request{
		Chain: chain, Alert: &original, Author: AuthorTrigger,
		IdempotencyKey: digest, BodyDigest: digest, byTrigger: true, // the alert's id may be long
	}
	if a.DedupKey == "" { // else the submission takes it
		request.DedupKey = trigger.Key(a)
	}
	// The category is the alert's type where the chain has such a type.
	if c := r.config().Chains[chain]; c != nil && slices.Contains(c.AlertTypes, string(a.Category)) {
		request.AlertType = string(a.Category)
	}
	answer, err := r.submitter.Submit(ctx, request)
	var limited *limitError
	refusal := httpserve.AsRefusal(err)
	switch {
	case err == nil && answer.Joined():
		r.metrics.joined.Inc()
		r.log.Info("an alert joined an open session", "alert", a.ID, "session", answer.SessionID)
		return "", nil
	case err == nil:
		r.metrics.started.Inc()
		r.log.Info("an alert started a session", "alert", a.ID, "session", answer.SessionID, "chain", chain)
		return "", nil
	case errors.As(err, &limited):
		if err := r.revisions.Skipped(ctx, original, limited.Message); err != nil {
			return "", err
		}
		r.log.Info("an alert was not investigated", "alert", a.ID, "reason", limited.Message)
		return limited.reason, nil
	case refusal == nil || refusal.Status == http.StatusServiceUnavailable:
		return "", err
	default: // another try has the same answer
		r.log.Warn("an alert that matches a trigger was refused", "alert", a.ID, "error", err)
		return trigger.ReasonRefused, nil
	}
}

// triggerRules returns the rules of a configuration.
func triggerRules(cfg *config.Config) []trigger.Rule {
	rules := make([]trigger.Rule, len(cfg.Triggers))
	for i, t := range cfg.Triggers {
		rules[i] = trigger.Rule{
			Match: trigger.Match{
				Category: t.Match.Category, SeverityMin: alert.Severity(t.Match.SeverityMin), App: t.Match.App, Cluster: t.Match.Cluster,
				Namespace: t.Match.Namespace, Source: t.Match.Source, Title: t.Match.Title,
			},
			Chain: t.Chain, Cooldown: time.Duration(t.Cooldown),
		}
	}
	return rules
}

// triggerMetrics counts what the triggers of this process did.
type triggerMetrics struct {
	started, joined prometheus.Counter
	skipped         *prometheus.CounterVec
}

func newTriggerMetrics(m httpserve.Metrics) *triggerMetrics {
	t := &triggerMetrics{
		started: m.Counter("trigger_sessions_total", "Sessions that triggers started."),
		joined:  m.Counter("trigger_joined_total", "Alerts that triggers joined to an open session."),
		skipped: m.CounterVec("trigger_skipped_total", "Alerts that started no session, by reason.", "reason"),
	}
	for _, reason := range trigger.Reasons() {
		t.skipped.WithLabelValues(string(reason))
	}
	return t
}
