// Package clean makes what came from the bus fit to be told, an alert or a CI
// result: without secrets, and with every character in sight.
//
// It decides that for each alone, whatever its category. It knows nothing of who
// is told.
package clean

import (
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/redact"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// Alert masks secrets and makes outside text visible, once more: what stands on
// the bus may come from a detector of another version, or from somebody else. What
// it resolves and the maps and lists of the context are changed in place.
func Alert(a alert.Alert, mask *redact.Engine) alert.Alert {
	return cleaned(a, mask, sanitize.Visible)
}

// Page is Alert for who shows text in several lines, as a web page does: line feeds
// and tabs stay.
func Page(a alert.Alert, mask *redact.Engine) alert.Alert {
	return cleaned(a, mask, sanitize.Strip)
}

func cleaned(a alert.Alert, mask *redact.Engine, text func(string) string) alert.Alert {
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
	members(a.Context, text)
	return a
}

// Result does the same of a CI result, whose failures are changed in place. How
// long its texts are is up to the reader.
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

// Value cleans every text of a decoded JSON value for a web page, names of members
// included: lists and maps in place. Secrets in it are for others to mask.
func Value(value any) any { return cleanValue(value, sanitize.Strip) }

func cleanValue(value any, text func(string) string) any {
	switch v := value.(type) {
	case string:
		return text(v)
	case []any:
		for i := range v {
			v[i] = cleanValue(v[i], text)
		}
	case map[string]any:
		members(v, text)
	}
	return value
}

// members cleans names and values, in place.
func members(m map[string]any, text func(string) string) {
	for name, value := range m {
		shown := text(name)
		if shown != name {
			delete(m, name)
		}
		m[shown] = cleanValue(value, text)
	}
}
