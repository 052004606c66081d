package detector_test

import (
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/shared/presence"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

func vitals(url string, lcp, cls float64) telemetry.Event {
	return telemetry.Event{Kind: telemetry.KindVitals, App: "web", URL: url, Vitals: &telemetry.Vitals{LCP: &lcp, CLS: &cls}}
}

// TestVitals: the loads that are remembered, and what is usual, of each page, after a
// restart too.
func TestVitals(t *testing.T) {
	r := newRig(t)
	stop := r.detect(t, time.Hour)
	r.send(t, vitals("/cart?a=1", 1000, 0.1), vitals("/items/7", 500, 0))
	r.send(t, vitals("/cart?a=2", 2000, 0.2), boom("boom at the end"))
	r.alerts(t, 1)
	check := func() {
		t.Helper()
		got := ask[query.VitalsReply](t, r, query.SubjectVitals, query.VitalsRequest{App: "web"})
		if len(got.Pages) != 2 || got.Pages[0].Page != "/cart" || got.Pages[1].Page != "/items/:id" || got.Truncated {
			t.Fatalf("%+v", got)
		}
		cart := got.Pages[0]
		if cart.App != "web" || cart.Baselines["lcp_ms"] != (query.Baseline{Median: 1500, Loads: 2}) || len(cart.Baselines) != 2 || len(cart.Loads) != 2 {
			t.Fatalf("%+v", cart)
		}
		if cart.Loads[0].Values["lcp_ms"] != 1000 || cart.Loads[1].Values["cls"] != 0.2 || !cart.Loads[0].Received.Before(cart.Loads[1].Received) {
			t.Errorf("%+v", cart.Loads)
		}
	}
	check()
	if got := ask[query.VitalsReply](t, r, query.SubjectVitals, query.VitalsRequest{Page: "/cart"}); len(got.Pages) != 1 || len(got.Pages[0].Loads) != 2 {
		t.Errorf("of one page: %+v", got)
	}
	if got := ask[query.VitalsReply](t, r, query.SubjectVitals, query.VitalsRequest{App: "shop"}); len(got.Pages) != 0 || got.Pages == nil {
		t.Errorf("of another app: %+v", got)
	}
	stop()
	r.detect(t, time.Hour) // what is folded in is read again, to be remembered
	check()
}

// TestHealth: a detector says how it is to whoever asks all services.
func TestHealth(t *testing.T) {
	r := newRig(t)
	r.detect(t, 0)
	var all []query.Health
	eventually(t, "answer", func() bool {
		var err error
		all, err = presence.Collect(t.Context(), r.gateway, time.Second)
		return err == nil && len(all) == 1
	})
	h := all[0]
	if h.Service != "detector" || !h.OK || h.Reason != "" || h.Detector == nil || !h.Detector.Ready || h.Detector.Of != 1 || len(h.Detector.Partitions) != 1 {
		t.Errorf("%+v %+v", h, h.Detector)
	}
}
