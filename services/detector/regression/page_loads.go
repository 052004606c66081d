package regression

import (
	"cmp"
	"slices"

	"github.com/tocsin-bus/tocsin/services/detector/template"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// GroupLoads groups page loads by app and page, for the answer to a query. loads are the
// newest first, and so are the returned pages, by their last load; the loads of each page
// are the oldest first. Pages in known that have no load follow. truncated reports whether
// there were more than query.MaxVitalsPages.
func GroupLoads(r query.VitalsRequest, loads []query.StoredEvent, known []string) (pages []query.PageVitals, truncated bool) {
	type appPage struct{ app, page string }
	index := map[appPage]int{}
	pages = []query.PageVitals{}
	// find returns the entry of a page, or nil if it is not asked for or has no room.
	find := func(key appPage) *query.PageVitals {
		if r.Page != "" && key.page != r.Page {
			return nil
		}
		i, ok := index[key]
		if !ok {
			if len(pages) == query.MaxVitalsPages {
				truncated = true
				return nil
			}
			i = len(pages)
			index[key] = i
			pages = append(pages, query.PageVitals{App: key.app, Page: key.page, Baselines: map[string]query.Baseline{}, Loads: []query.Load{}})
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
		if p := find(appPage{cmp.Or(e.App, telemetry.DefaultApp), string(name)}); p != nil {
			p.Loads = append(p.Loads, query.Load{Received: e.Received, Values: values(e.Vitals)})
		}
	}
	for _, page := range known {
		find(appPage{r.App, page})
	}
	for i := range pages {
		slices.Reverse(pages[i].Loads)
	}
	return pages, truncated
}

// values returns the vitals of a load, by the names of their fields.
func values(vitals *telemetry.Vitals) map[string]float64 {
	values := map[string]float64{}
	for i := range metrics {
		if v := metrics[i].of(vitals); v != nil {
			values[metrics[i].key] = *v
		}
	}
	return values
}
