// Package vitals groups page loads by page: which pages of which apps were loaded when, and
// how fast. It does not know the baselines.
package vitals

import (
	"slices"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/regression"
	"github.com/tocsin-bus/tocsin/services/detector/template"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// Pages lists the pages of a query, the one loaded last first: those of the loads, which
// are newest first, and then others that are known of the app. truncated reports whether
// there are more than query.MaxVitalsPages.
func Pages(r query.VitalsRequest, loads []query.StoredEvent, known []string) (pages []query.PageVitals, truncated bool) {
	type place struct{ app, page string }
	index := map[place]int{}
	pages = []query.PageVitals{}
	find := func(at place) *query.PageVitals {
		if r.Page != "" && at.page != r.Page {
			return nil
		}
		i, ok := index[at]
		if !ok {
			if len(pages) == query.MaxVitalsPages {
				truncated = true
				return nil
			}
			i = len(pages)
			index[at] = i
			pages = append(pages, query.PageVitals{App: at.app, Page: at.page, Baselines: map[string]query.Baseline{}, Loads: []query.Load{}})
		}
		return &pages[i]
	}
	var name []byte
	for i := range loads {
		e := &loads[i]
		if e.Vitals == nil {
			continue
		}
		name = template.AppendPage(name[:0], e.URL)
		app := e.App
		if app == "" {
			app = telemetry.DefaultApp
		}
		if p := find(place{app, string(name)}); p != nil {
			p.Loads = append(p.Loads, query.Load{Received: e.Received, Values: regression.Values(e.Vitals)})
		}
	}
	for _, page := range known {
		find(place{r.App, page})
	}
	for i := range pages {
		slices.Reverse(pages[i].Loads)
	}
	return pages, truncated
}

// Last returns when a page was loaded last, zero if that is not remembered.
func Last(p query.PageVitals) time.Time {
	if len(p.Loads) == 0 {
		return time.Time{}
	}
	return p.Loads[len(p.Loads)-1].Received
}
