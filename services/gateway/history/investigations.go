package history

import (
	"context"
	"slices"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/busclient"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/presence"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

const (
	// investigatorTimeout bounds the wait for the health of an investigator, and
	// nextInvestigatorTimeout that for another one, on an external bus: their number is unknown.
	investigatorTimeout     = 300 * time.Millisecond
	nextInvestigatorTimeout = 25 * time.Millisecond
	// maxDown is how many models or servers that are down a health names.
	maxDown = 20
)

// Bounds of the texts of a session, in characters.
const (
	maxInvestigationError = 600
	maxInvestigationURL   = 2000
	maxInvestigatedKey    = 1024
)

// investigations asks an investigator for its sessions, newest first: those that are open, and
// those that ended in the period. The investigator leaves out what this gateway may not show, so
// that pages are full and their number is right; what it sends all the same is dropped.
func (r *Reader) investigations(ctx context.Context, q Query) (p page, err error) {
	reply, err := busclient.AskInvestigator[query.SessionsReply](ctx, r.bus, bus.SubjectInvestigateList, query.SessionsRequest{
		App: q.App, Namespaces: r.namespaces.Names(), Since: q.From, Before: q.Before.Name, Limit: q.Limit,
	})
	p.older = reply.Older
	for _, e := range reply.Sessions {
		if !r.showsInvestigated(e.Alert) {
			continue
		}
		position := entryPosition{Name: e.SessionID}
		e.SessionID, e.Status, e.Chain, e.Author = r.name(e.SessionID), r.name(e.Status), r.name(e.Chain), r.name(e.Author)
		e.Summary, e.Error = r.line(e.Summary, alert.MaxInvestigationSummary), r.line(e.Error, maxInvestigationError)
		e.URL = r.line(e.URL, maxInvestigationURL)
		e.Alert = r.investigated(e.Alert)
		p.entries = append(p.entries, entry{e, position})
	}
	return p, err
}

// showsInvestigated reports whether a list may show the session of an alert. Where some namespaces
// are not shown, a session without an alert may be about any of them.
func (r *Reader) showsInvestigated(a *query.InvestigatedAlert) bool {
	if a == nil {
		return !r.namespaces.Limited()
	}
	return r.namespaces.ShowsKey(a.DedupKey)
}

// ShowsSession reports whether a session may be shown to a reader that knows its id.
func (r *Reader) ShowsSession(i query.Investigation) bool {
	return i.Alert == nil || r.namespaces.ShowsKey(i.Alert.DedupKey)
}

// investigated returns what identifies the alert of a session, without secrets and hidden
// characters, or nil for nil.
func (r *Reader) investigated(a *query.InvestigatedAlert) *query.InvestigatedAlert {
	if a == nil {
		return nil
	}
	return &query.InvestigatedAlert{ID: r.name(a.ID), App: r.name(a.App), Title: r.line(a.Title, alert.MaxTitle), DedupKey: r.line(a.DedupKey, maxInvestigatedKey)}
}

// line returns a text without secrets and hidden characters, in at most limit characters.
func (r *Reader) line(text string, limit int) string {
	return sanitize.Cut(sanitize.Visible(r.mask.String(text)), limit)
}

// InvestigatorHealth is what the investigators of the bus report together.
type InvestigatorHealth struct {
	// OK means that one of them works; Reason is why none does.
	OK     bool   `json:"ok"`
	Reason string `json:"reason,omitempty"`
	query.InvestigatorHealth
}

// Investigators asks the investigators for their health in the background, and sends their answer:
// nil if it is unknown, because the bus is unreachable or they are too slow.
func (r *Reader) Investigators(ctx context.Context) <-chan *InvestigatorHealth {
	answer := make(chan *InvestigatorHealth, 1)
	go func() { answer <- r.investigators(ctx) }()
	return answer
}

func (r *Reader) investigators(ctx context.Context) *InvestigatorHealth {
	session, err := r.bus.Session()
	if err != nil {
		return nil
	}
	q := presence.Request{Service: "investigator", First: investigatorTimeout, Next: nextInvestigatorTimeout}
	if !r.bus.External() { // tocsin up has at most one
		q.Expected = 1
	}
	all, answered, err := presence.CollectService(ctx, session, q)
	switch {
	case err != nil:
		r.log.Debug("cannot ask the investigators for their health", "error", err)
		return nil
	case !answered:
		return &InvestigatorHealth{Reason: "no investigator answers: no alert is investigated"}
	case len(all) == 0:
		return nil
	}
	return r.mergeInvestigators(all)
}

// mergeInvestigators returns the health of several investigators as one. Each counts the sessions
// of all.
func (r *Reader) mergeInvestigators(all []query.Health) *InvestigatorHealth {
	merged := &InvestigatorHealth{}
	for _, h := range all {
		switch {
		case h.OK:
			merged.OK, merged.Reason = true, ""
		case !merged.OK && merged.Reason == "":
			merged.Reason = r.line(h.Reason, maxInvestigationError)
		}
		i := h.Investigator
		if i == nil {
			continue
		}
		merged.Queued, merged.Running = max(merged.Queued, i.Queued), max(merged.Running, i.Running)
		merged.ModelsDown = r.addNames(merged.ModelsDown, i.ModelsDown)
		merged.ServersDown = r.addNames(merged.ServersDown, i.ServersDown)
	}
	return merged
}

// addNames adds the names that a list lacks, up to maxDown.
func (r *Reader) addNames(list, names []string) []string {
	for _, name := range names {
		if name = r.name(name); len(list) < maxDown && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}
