// Package display makes what is read from the bus safe to show to a reader: alerts, CI
// results and messages of Kubernetes, without secrets (package redact) and without hidden
// characters (package sanitize).
//
// Ingest masks and sanitizes what it accepts. This package does it again on the way
// out, because a message on the bus may come from another version or another program.
package display

import (
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/redact"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// Alert returns an alert for a reader that shows each text in one line. The list AlsoResolves
// and the maps and lists of the context are changed in place.
func Alert(a alert.Alert, mask *redact.Engine) alert.Alert {
	return safeAlert(a, mask, sanitize.Visible)
}

// PageAlert is [Alert] for a web page: line feeds and tabs stay.
func PageAlert(a alert.Alert, mask *redact.Engine) alert.Alert {
	return safeAlert(a, mask, sanitize.Strip)
}

func safeAlert(a alert.Alert, mask *redact.Engine, text func(string) string) alert.Alert {
	mask.Alert(&a)
	a.Title = sanitize.Cut(text(a.Title), alert.MaxTitle)
	a.Detail = sanitize.Cut(text(a.Detail), alert.MaxDetail)
	a.App, a.URL, a.DedupKey, a.Source = text(a.App), text(a.URL), text(a.DedupKey), text(a.Source)
	a.ID, a.CorrelationID, a.Revises = text(a.ID), text(a.CorrelationID), text(a.Revises)
	a.Resolves, a.InhibitedBy = text(a.Resolves), text(a.InhibitedBy)
	a.Reason = sanitize.Cut(text(a.Reason), alert.MaxDetail)
	for i, id := range a.AlsoResolves {
		a.AlsoResolves[i] = text(id)
	}
	a.Category = alert.Category(text(string(a.Category)))
	sanitizeMembers(a.Context, text)
	if i := a.Investigation; i != nil { // a copy: see [redact.Engine.Alert]
		i.SessionID, i.URL = text(i.SessionID), text(i.URL)
		i.EachText(func(s *string, limit int) { *s = sanitize.Cut(text(*s), limit) })
	}
	return a
}

// Result returns a CI result with each text in one line. Its failures are changed in place,
// and its texts are not truncated.
func Result(r ci.Result, mask *redact.Engine) ci.Result {
	mask.Result(&r)
	for _, text := range []*string{&r.Status, &r.Source, &r.Ref, &r.Commit, &r.Name, &r.Summary, &r.URL} {
		*text = sanitize.Visible(*text)
	}
	for i := range r.Failures {
		f := &r.Failures[i]
		f.Name, f.Message = sanitize.Visible(f.Name), sanitize.Visible(f.Message)
	}
	return r
}

// Value masks and sanitizes every text of a decoded JSON value for a reader that shows each text in
// one line, names of members included. Lists and maps are changed in place.
func Value(value any, mask *redact.Engine) any {
	return safeValue(value, func(text string) string { return sanitize.Visible(mask.String(text)) })
}

// PageValue sanitizes every text of a decoded JSON value for a web page, names of members
// included. Lists and maps are changed in place. It masks no secrets.
func PageValue(value any) any { return safeValue(value, sanitize.Strip) }

func safeValue(value any, text func(string) string) any {
	switch v := value.(type) {
	case string:
		return text(v)
	case []any:
		for i := range v {
			v[i] = safeValue(v[i], text)
		}
	case map[string]any:
		sanitizeMembers(v, text)
	}
	return value
}

// sanitizeMembers sanitizes names and values, in place.
func sanitizeMembers(m map[string]any, text func(string) string) {
	for name, value := range m {
		shown := text(name)
		if shown != name {
			delete(m, name)
		}
		m[shown] = safeValue(value, text)
	}
}
