package detector_test

import (
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
	"github.com/tocsin-bus/tocsin/shared/presence"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

func vitals(url string, lcp, cls float64) telemetry.Event {
	return telemetry.Event{Kind: telemetry.KindVitals, App: "web", URL: url, Vitals: &telemetry.Vitals{LCP: &lcp, CLS: &cls}}
}

// TestVitals checks the recent loads and the baselines of each page, before and after a
// restart.
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
			t.Fatalf("vitals of the app = %+v, want the pages /cart and /items/:id, not truncated", got)
		}
		cart := got.Pages[0]
		if want := (query.Baseline{Median: 1500, Loads: 2}); cart.Baselines["lcp_ms"] != want {
			t.Errorf("LCP baseline of /cart = %+v, want %+v", cart.Baselines["lcp_ms"], want)
		}
		if cart.App != "web" || len(cart.Baselines) != 2 || len(cart.Loads) != 2 {
			t.Fatalf("page = %+v, want app web with 2 baselines and 2 loads", cart)
		}
		first, second := cart.Loads[0], cart.Loads[1]
		if first.Values["lcp_ms"] != 1000 || second.Values["cls"] != 0.2 {
			t.Errorf("loads of /cart = %+v, want LCP 1000 in the first and CLS 0.2 in the second", cart.Loads)
		}
		if !first.Received.Before(second.Received) {
			t.Errorf("loads received at %v and %v, want the oldest first", first.Received, second.Received)
		}
	}
	check()
	if got := ask[query.VitalsReply](t, r, query.SubjectVitals, query.VitalsRequest{Page: "/cart"}); len(got.Pages) != 1 || len(got.Pages[0].Loads) != 2 {
		t.Errorf("vitals of /cart = %+v, want one page with 2 loads", got)
	}
	if got := ask[query.VitalsReply](t, r, query.SubjectVitals, query.VitalsRequest{App: "shop"}); len(got.Pages) != 0 || got.Pages == nil {
		t.Errorf("vitals of an unknown app = %+v, want an empty list", got)
	}
	stop()
	r.detect(t, time.Hour) // reads again the events that the snapshot contains
	check()
}

// TestHealth checks that a detector answers query.health.
func TestHealth(t *testing.T) {
	r := newRig(t)
	r.detect(t, 0)
	var all []query.Health
	bustest.Eventually(t, "answer", func() bool {
		var err error
		all, err = presence.Collect(t.Context(), r.gateway, time.Second)
		return err == nil && len(all) == 1
	})
	h := all[0]
	if h.Service != "detector" || !h.OK || h.Reason != "" {
		t.Errorf("health = %+v, want a healthy detector", h)
	}
	if h.Detector == nil || !h.Detector.Ready || h.Detector.PartitionCount != 1 || len(h.Detector.Partitions) != 1 {
		t.Errorf("detector health = %+v, want ready with 1 partition of 1", h.Detector)
	}
}
