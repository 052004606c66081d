package gateway

import (
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/redact"
	"github.com/tocsin-bus/tocsin/shared/untrusted"
)

// clean masks secrets and makes outside text visible, once more: what stands on
// the bus may come from a detector of another version, or from somebody else.
func clean(a alert.Alert, mask *redact.Engine) alert.Alert {
	mask.Alert(&a)
	a.Title = untrusted.Cut(visible(a.Title), alert.MaxTitle)
	a.Detail = untrusted.Cut(visible(a.Detail), alert.MaxDetail)
	a.App, a.URL, a.DedupKey, a.Source = visible(a.App), visible(a.URL), visible(a.DedupKey), visible(a.Source)
	a.ID, a.CorrelationID, a.Revises = visible(a.ID), visible(a.CorrelationID), visible(a.Revises)
	a.Resolves = visible(a.Resolves)
	a.Category = alert.Category(visible(string(a.Category)))
	visibleMembers(a.Context)
	return a
}

func visible(text string) string { return untrusted.Visible(text) }

// visibleValue makes every text in a decoded JSON value visible.
func visibleValue(value any) any {
	switch v := value.(type) {
	case string:
		return visible(v)
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
		shown := visible(name)
		if shown != name {
			delete(m, name)
		}
		m[shown] = visibleValue(value)
	}
}
