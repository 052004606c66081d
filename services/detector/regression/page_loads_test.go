package regression_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/services/detector/regression"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// storedLoad returns a page load at a second of a fixed minute.
func storedLoad(second int, app, url string, lcp float64) query.StoredEvent {
	return query.StoredEvent{
		Received: time.Date(2026, 1, 28, 14, 30, second, 0, time.UTC),
		Event:    telemetry.Event{Kind: telemetry.KindVitals, App: app, URL: url, Vitals: &telemetry.Vitals{LCP: &lcp}},
	}
}

// formatPages shows each page with the second and the LCP of its loads.
func formatPages(pages []query.PageVitals) string {
	var out []string
	for _, p := range pages {
		text := p.App + p.Page
		for _, l := range p.Loads {
			text += fmt.Sprintf(" %d:%v", l.Received.Second(), l.Values["lcp_ms"])
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

func TestGroupLoads(t *testing.T) {
	loads := []query.StoredEvent{ // the newest first
		storedLoad(9, "web", "http://localhost:3000/cart?x=1", 900), storedLoad(8, "shop", "/cart", 800),
		storedLoad(7, "web", "/items/42", 700), storedLoad(6, "web", "/cart", 600), storedLoad(5, "", "/items/7", 500), storedLoad(4, "web", "/items/43", 400),
	}
	tests := []struct {
		name  string
		r     query.VitalsRequest
		loads []query.StoredEvent
		known []string
		want  string
	}{
		{"no loads", query.VitalsRequest{}, nil, nil, ""},
		{"the page loaded last first, its loads oldest first", query.VitalsRequest{}, loads, nil, "web/cart 6:600 9:900, shop/cart 8:800, web/items/:id 4:400 7:700, default/items/:id 5:500"},
		{"one page only", query.VitalsRequest{Page: "/cart"}, loads, nil, "web/cart 6:600 9:900, shop/cart 8:800"},
		{"known pages without a load", query.VitalsRequest{App: "web"}, loads[:1], []string{"/cart", "/old"}, "web/cart 9:900, web/old"},
		{"one known page", query.VitalsRequest{App: "web", Page: "/old"}, loads[:1], []string{"/cart", "/old"}, "web/old"},
		{"an event that is no load", query.VitalsRequest{}, []query.StoredEvent{{}}, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, truncated := regression.GroupLoads(tt.r, tt.loads, tt.known)
			if got == nil {
				t.Error("pages = nil, want a list: nil is null in JSON")
			}
			if s := formatPages(got); s != tt.want {
				t.Errorf("pages = %s\nwant    %s", s, tt.want)
			}
			if truncated {
				t.Error("truncated = true, want false")
			}
		})
	}
}

func TestGroupLoadsIsBounded(t *testing.T) {
	var loads []query.StoredEvent
	for i := range query.MaxVitalsPages + 1 {
		loads = append(loads, storedLoad(1, fmt.Sprint("app", i), "/", 1))
	}
	loads = append(loads, storedLoad(0, "app0", "/", 1)) // a page that is in the list already
	got, truncated := regression.GroupLoads(query.VitalsRequest{}, loads, nil)
	if len(got) != query.MaxVitalsPages || !truncated {
		t.Fatalf("%d pages, truncated %v, want %d, truncated", len(got), truncated, query.MaxVitalsPages)
	}
	if n := len(got[0].Loads); n != 2 {
		t.Errorf("first page has %d loads, want 2", n)
	}
}

func TestGroupLoadsNamesEachMetric(t *testing.T) {
	ttfb, cls := 1.5, 0.0
	load := query.StoredEvent{Event: telemetry.Event{URL: "/", Vitals: &telemetry.Vitals{TTFB: &ttfb, CLS: &cls}}}
	got, _ := regression.GroupLoads(query.VitalsRequest{}, []query.StoredEvent{load}, nil)
	want := []query.PageVitals{{
		App: telemetry.DefaultApp, Page: "/", Baselines: map[string]query.Baseline{},
		Loads: []query.Load{{Values: map[string]float64{"ttfb_ms": 1.5, "cls": 0}}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pages (-want +got):\n%s", diff)
	}
}
