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
	"github.com/tocsin-bus/tocsin/shared/untrusted"
)

// Alert masks secrets and makes outside text visible, once more: what stands on
// the bus may come from a detector of another version, or from somebody else. What
// it resolves and the maps and lists of the context are changed in place.
func Alert(a alert.Alert, mask *redact.Engine) alert.Alert {
	mask.Alert(&a)
	a.Title = untrusted.Cut(untrusted.Visible(a.Title), alert.MaxTitle)
	a.Detail = untrusted.Cut(untrusted.Visible(a.Detail), alert.MaxDetail)
	a.App, a.URL, a.DedupKey, a.Source = untrusted.Visible(a.App), untrusted.Visible(a.URL), untrusted.Visible(a.DedupKey), untrusted.Visible(a.Source)
	a.ID, a.CorrelationID, a.Revises = untrusted.Visible(a.ID), untrusted.Visible(a.CorrelationID), untrusted.Visible(a.Revises)
	a.Resolves = untrusted.Visible(a.Resolves)
	for i, id := range a.AlsoResolves {
		a.AlsoResolves[i] = untrusted.Visible(id)
	}
	a.Category = alert.Category(untrusted.Visible(string(a.Category)))
	visibleMembers(a.Context)
	return a
}

// Result does the same of a CI result, whose failures are changed in place. How
// long its texts are is up to the reader.
func Result(r ci.Result, mask *redact.Engine) ci.Result {
	mask.Result(&r)
	for _, text := range []*string{&r.Status, &r.Source, &r.Ref, &r.Commit, &r.Name, &r.Summary, &r.URL} {
		*text = untrusted.Visible(*text)
	}
	for i := range r.Failures {
		f := &r.Failures[i]
		f.Name, f.Message = untrusted.Visible(f.Name), untrusted.Visible(f.Message)
	}
	return r
}

// visibleValue makes every text in a decoded JSON value visible.
func visibleValue(value any) any {
	switch v := value.(type) {
	case string:
		return untrusted.Visible(v)
	case []any:
		for i := range v {
			v[i] = visibleValue(v[i])
		}
	case map[string]any:
		visibleMembers(v)
	}
	return value
}

// visibleMembers makes names and values visible, in place.
func visibleMembers(m map[string]any) {
	for name, value := range m {
		shown := untrusted.Visible(name)
		if shown != name {
			delete(m, name)
		}
		m[shown] = visibleValue(value)
	}
}
