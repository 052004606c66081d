package vitals_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/vitals"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

func load(second int, app, url string, lcp float64) query.StoredEvent {
	return query.StoredEvent{
		Received: time.Date(2026, 1, 28, 14, 30, second, 0, time.UTC),
		Event:    telemetry.Event{Kind: telemetry.KindVitals, App: app, URL: url, Vitals: &telemetry.Vitals{LCP: &lcp}},
	}
}

func show(pages []query.PageVitals) string {
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

func TestPages(t *testing.T) {
	loads := []query.StoredEvent{ // the newest first
		load(9, "web", "http://localhost:3000/cart?x=1", 900), load(8, "shop", "/cart", 800),
		load(7, "web", "/items/42", 700), load(6, "web", "/cart", 600), load(5, "", "/items/7", 500), load(4, "web", "/items/43", 400),
	}
	tests := []struct {
		name  string
		r     query.VitalsRequest
		loads []query.StoredEvent
		known []string
		want  string
	}{
		{"nothing", query.VitalsRequest{}, nil, nil, ""},
		{"the page loaded last first, its loads oldest first", query.VitalsRequest{}, loads, nil, "web/cart 6:600 9:900, shop/cart 8:800, web/items/:id 4:400 7:700, default/items/:id 5:500"},
		{"of one page", query.VitalsRequest{Page: "/cart"}, loads, nil, "web/cart 6:600 9:900, shop/cart 8:800"},
		{"pages that are known and have no load", query.VitalsRequest{App: "web"}, loads[:1], []string{"/cart", "/old"}, "web/cart 9:900, web/old"},
		{"one of those", query.VitalsRequest{App: "web", Page: "/old"}, loads[:1], []string{"/cart", "/old"}, "web/old"},
		{"what is no load", query.VitalsRequest{}, []query.StoredEvent{{}}, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, truncated := vitals.Pages(tt.r, tt.loads, tt.known)
			if s := show(got); s != tt.want || truncated || got == nil {
				t.Errorf("got  %s, truncated %v\nwant %s", s, truncated, tt.want)
			}
		})
	}
}

func TestPagesAreBounded(t *testing.T) {
	var loads []query.StoredEvent
	for i := range query.MaxVitalsPages + 1 {
		loads = append(loads, load(1, fmt.Sprint("app", i), "/", 1))
	}
	loads = append(loads, load(0, "app0", "/", 1)) // of one that has its place
	got, truncated := vitals.Pages(query.VitalsRequest{}, loads, nil)
	if len(got) != query.MaxVitalsPages || !truncated || len(got[0].Loads) != 2 {
		t.Errorf("%d pages, truncated %v", len(got), truncated)
	}
}

func TestLast(t *testing.T) {
	p := query.PageVitals{Loads: []query.Load{{Received: time.UnixMilli(1)}, {Received: time.UnixMilli(2)}}}
	if !vitals.Last(p).Equal(time.UnixMilli(2)) || !vitals.Last(query.PageVitals{}).IsZero() {
		t.Error("the time of the last load is another")
	}
}
