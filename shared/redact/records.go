package redact

import (
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/external"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// Event masks every string of an event in place, with those in Args and headers. Kinds, levels and
// states are constants and stay.
func (e *Engine) Event(ev *telemetry.Event) {
	e.text(&ev.App, &ev.Session, &ev.Release)
	e.link(&ev.URL)
	if l := ev.Log; l != nil {
		e.text(&l.Message, &l.Stack, &l.Source)
		e.texts(l.Fingerprint)
		e.list(l.Args, 0)
	}
	if n := ev.Network; n != nil {
		e.network(n)
	}
	if a := ev.Action; a != nil {
		e.text(&a.Type, &a.Target)
	}
	if c := ev.Circuit; c != nil {
		e.text(&c.Name, &c.Reason)
	}
	if s := ev.Security; s != nil {
		e.text(&s.Type, &s.Message)
		e.link(&s.BlockedURL)
	}
}

// texts masks a list of texts as list does, which may be names and values.
func (e *Engine) texts(texts []string) {
	if len(texts) == 0 {
		return
	}
	values := make([]any, len(texts))
	for i, text := range texts {
		values[i] = text
	}
	e.list(values, 0)
	for i, value := range values {
		texts[i], _ = value.(string)
	}
}

func (e *Engine) network(n *telemetry.Network) {
	e.text(&n.Method, &n.Error)
	e.link(&n.URL)
	e.headers(n.RequestHeaders)
	e.headers(n.ResponseHeaders)
	n.RequestBody = e.Body(n.RequestBody)
	n.ResponseBody = e.Body(n.ResponseBody)
}

// Result masks every string of a CI result in place.
func (e *Engine) Result(r *ci.Result) {
	e.text(&r.Ref, &r.Commit, &r.Name, &r.Summary)
	e.link(&r.URL)
	for i := range r.Failures {
		e.text(&r.Failures[i].Name, &r.Failures[i].Message)
	}
}

// External masks every text of an alert of another system in place, with those of its labels, whose
// names are considered. Key and Episode have no room for a secret, and stay.
func (e *Engine) External(a *external.Alert) {
	a.EachText(func(s *string, _ int) { e.text(s) })
	a.EachLink(func(s *string, _ int) { e.link(s) })
	for name, value := range a.Labels {
		clean, _ := e.member(name, value, 0).(string)
		if key := e.String(name); key != name {
			delete(a.Labels, name)
			name = key
		} else if clean == value {
			continue
		}
		a.Labels[name] = clean
	}
	for i := range a.GroupBy {
		e.text(&a.GroupBy[i])
	}
}

// Alert masks every text of an alert in place, with those in its Context. Its identifiers are masked
// as well, because a writer to the bus chooses them, but not after a name and a colon:
// ci:custom:abc:refresh-token:failure:1 would lose what distinguishes two alerts.
func (e *Engine) Alert(a *alert.Alert) {
	e.text(&a.Title, &a.Detail, &a.App, &a.Reason)
	e.identifiers.text(&a.DedupKey, &a.Source, &a.ID, &a.CorrelationID, &a.Revises, &a.Resolves, &a.InhibitedBy)
	for i := range a.AlsoResolves {
		e.identifiers.text(&a.AlsoResolves[i])
	}
	a.Category = alert.Category(e.identifiers.String(string(a.Category)))
	e.link(&a.URL)
	e.object(a.Context, 0)
	if a.Investigation != nil {
		a.Investigation = a.Investigation.Clone() // other copies of the alert share it
		a.Investigation.EachText(func(s *string, _ int) { e.text(s) })
		e.identifiers.text(&a.Investigation.SessionID)
		e.link(&a.Investigation.URL)
	}
}

func (e *Engine) text(fields ...*string) {
	for _, s := range fields {
		*s = e.String(*s)
	}
}

func (e *Engine) link(s *string) { *s = e.URL(*s) }
