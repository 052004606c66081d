// Package history reads what the bus and the detector keep: stored alerts, events, CI
// results, Kubernetes messages, noise rules and the status of all parts.
//
// It decides which entries an answer of observe has and how they fit in its bytes. It knows
// nothing of inboxes: reading takes no alert out of one.
package history

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/busclient"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/display"
	"github.com/tocsin-bus/tocsin/shared/namespaces"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/redact"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// Config is what a reader needs; all of it is required.
type Config struct {
	Bus *busclient.Client
	// Namespaces are the Kubernetes namespaces whose messages and alerts are shown.
	Namespaces namespaces.Set
	Mask       *redact.Engine
	Logger     *slog.Logger
}

// Reader reads history for one client.
type Reader struct {
	bus        *busclient.Client
	namespaces namespaces.Set
	mask       *redact.Engine
	log        *slog.Logger
}

// New returns a reader.
func New(cfg Config) *Reader {
	return &Reader{bus: cfg.Bus, namespaces: cfg.Namespaces, mask: cfg.Mask, log: cfg.Logger}
}

// Shows reports whether this gateway may show an alert. Others are treated as if they did not
// exist.
func (r *Reader) Shows(a alert.Alert) bool { return r.namespaces.ShowsAlert(a) }

// Block reads a list and returns it as the first block of an answer. If the list can't be
// read, the block has the reason.
func (r *Reader) Block(ctx context.Context, q Query) (string, error) {
	p, err := r.read(ctx, q)
	if err != nil {
		return q.failureBlock(err)
	}
	return q.block(p)
}

func (r *Reader) read(ctx context.Context, q Query) (page, error) {
	switch q.What {
	case Alerts:
		return r.alerts(ctx, q)
	case CI:
		return r.ciResults(ctx, q)
	case Kubernetes:
		return r.kubernetes(ctx, q)
	case Investigations:
		return r.investigations(ctx, q)
	case Noise:
		return r.noiseRules(ctx, q)
	default:
		return r.events(ctx, q)
	}
}

// alerts reads the alerts as they were published, newest first. A revision without an
// investigation has that of the alert that it replaces, as far as that was read too. When the bus does not
// answer in time, the page has those that were read by then, with a note.
func (r *Reader) alerts(ctx context.Context, q Query) (p page, err error) {
	state, err := r.bus.State(ctx, bus.StreamAlerts)
	if err != nil {
		return p, r.explain(ctx, "read the alerts", err)
	}
	last := state.Last
	if q.Before.Seq > 0 {
		last = min(last, q.Before.Seq-1)
	}
	read := 0
	var listed []alert.Alert
	err = r.bus.Range(ctx, bus.Range{Stream: bus.StreamAlerts, First: state.First, Last: last, Since: q.From, Backwards: true}, func(m bus.Message) bool {
		read++
		var a alert.Alert
		if json.Unmarshal(m.Data, &a) != nil { // logged when the inbox received it
			return true
		}
		a.Seq = m.Seq
		keepInvestigation(listed, a)
		if q.matches(a) && r.Shows(a) {
			if len(listed) == q.Limit {
				p.older++
			} else {
				listed = append(listed, a)
			}
		}
		return p.older < maxLeftOut
	})
	for _, a := range listed {
		p.entries = append(p.entries, entry{display.Alert(a, r.mask), entryPosition{Seq: a.Seq}})
	}
	notes, err := incompleteNotes(r.explain(ctx, "read the alerts", err), read)
	p.incomplete = strings.Join(notes, "; ")
	return p, err
}

// keepInvestigation gives the revisions in a list, all newer than an alert, the investigation of
// the alert if they revise the same one and have none.
func keepInvestigation(newer []alert.Alert, a alert.Alert) {
	if a.Investigation == nil {
		return
	}
	id := a.AsOriginal().ID
	for i := range newer {
		if newer[i].Revises == id {
			newer[i] = newer[i].KeepInvestigation(a.Investigation)
		}
	}
}

// incompleteNotes returns notes for a list that was not read to its end. If nothing was read
// it returns err; otherwise the newest entries were read, which are worth an answer.
func incompleteNotes(err error, read int) (notes []string, none error) {
	switch {
	case err == nil:
		return nil, nil
	case read == 0:
		return nil, err
	case errors.Is(err, busclient.ErrNoAnswer):
		return []string{fmt.Sprintf("only the newest %d messages could be read within %s: ask for less with since_seconds", read, busclient.RequestTimeout)}, nil
	default:
		return []string{fmt.Sprintf("only the newest %d messages could be read: %s", read, sanitize.Visible(err.Error()))}, nil
	}
}

// explain returns [busclient.ErrUnreachable] or [busclient.ErrNoAnswer] if that is why
// something failed. Otherwise it wraps err with what was being done.
func (r *Reader) explain(ctx context.Context, doing string, err error) error {
	if err == nil {
		return nil
	}
	why := r.bus.Explain(ctx, err)
	if errors.Is(why, busclient.ErrUnreachable) || errors.Is(why, busclient.ErrNoAnswer) {
		return why
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// events asks the detector for events, newest first.
func (r *Reader) events(ctx context.Context, q Query) (page, error) {
	reply, err := busclient.Ask[query.EventsReply](ctx, r.bus, query.SubjectEvents, query.EventsRequest{
		Kinds: []telemetry.Kind{eventKinds[q.What]}, App: q.App, URL: q.URL, MinRank: q.MinRank, Since: q.From, Limit: q.Limit,
		Paged: true, Before: query.EventPosition{Seq: q.Before.Seq, Index: q.Before.Index},
	})
	p := page{older: reply.Older, incomplete: reply.Incomplete()}
	for _, e := range reply.Events {
		position := entryPosition{Seq: e.Position.Seq, Index: e.Position.Index}
		e.Position = query.EventPosition{}
		r.mask.Event(&e.Event)
		p.entries = append(p.entries, entry{e, position})
	}
	return p, err
}

// noiseRules asks the detector for the noise rules: those added by hand first, then by
// app and pattern.
func (r *Reader) noiseRules(ctx context.Context, q Query) (page, error) {
	reply, err := busclient.Ask[query.NoiseReply](ctx, r.bus, query.SubjectNoise, query.NoiseRequest{Action: query.NoiseList, App: q.App})
	p := page{incomplete: reply.Incomplete(), hidden: reply.HiddenTotal}
	if reply.Truncated {
		p.incomplete = strings.TrimPrefix(p.incomplete+"; the detector has more rules than it can list: name an app", "; ")
	}
	var all []entry
	for _, rule := range reply.Rules {
		all = append(all, entry{rule, entryPosition{Name: ruleKey(rule)}})
	}
	return q.pageByName(p, all), err
}

const (
	// stateManual is the state of rules that were added by hand.
	stateManual = "manual"
	// maxRuleKey is how much of a pattern a cursor has, in bytes.
	maxRuleKey = 100
)

// ruleKey sorts rules: those added by hand first, then by app, pattern and id.
func ruleKey(r query.NoiseRule) string {
	state := "1"
	if r.State == stateManual {
		state = "0"
	}
	return strings.Join([]string{state, r.App, r.Pattern[:min(len(r.Pattern), maxRuleKey)], r.ID}, "\x00")
}

// storedResult is a CI result with the time at which the bus received it.
type storedResult struct {
	ci.Result
	Received time.Time `json:"received"`
	seq      uint64
}

// ciResults reads the newest CI results, newest first.
func (r *Reader) ciResults(ctx context.Context, q Query) (p page, err error) {
	all, err := r.storedResults(ctx, q)
	for _, s := range all {
		switch {
		case q.Before.Seq > 0 && s.seq >= q.Before.Seq:
		case len(p.entries) == q.Limit:
			p.older++
		default:
			p.entries = append(p.entries, entry{s, entryPosition{Seq: s.seq}})
		}
	}
	return p, err
}

// storedResults reads all stored CI results that match, newest first.
func (r *Reader) storedResults(ctx context.Context, q Query) ([]storedResult, error) {
	session, err := r.bus.Session()
	if err != nil {
		return nil, err
	}
	var stored []storedResult
	err = session.ReadToEnd(ctx, bus.FollowConfig{Stream: bus.StreamCI, Since: q.From, Logger: r.log}, func(m bus.Message) error {
		result, err := ci.Decode(m.Data)
		if err != nil {
			r.log.Warn("skipped a message that is not a CI result", "subject", m.Subject, "error", err)
			return nil
		}
		stored = append(stored, storedResult{Result: result, Received: m.Time, seq: m.Seq})
		return nil
	})
	switch {
	case errors.Is(err, bus.ErrIncomplete):
		err = fmt.Errorf("read the CI results: not all within %s: ask for less with since_seconds", busclient.RequestTimeout)
	case errors.Is(err, context.DeadlineExceeded):
		err = busclient.ErrNoAnswer
	}
	kept, _ := ci.Newest(stored, func(s storedResult) ci.Result { return s.Result })
	newest := []storedResult{}
	for _, s := range slices.Backward(kept) {
		if q.matchesResult(s.Result) {
			s.Result = display.Result(s.Result, r.mask)
			newest = append(newest, s)
		}
	}
	return newest, err
}
