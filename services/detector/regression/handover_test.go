package regression_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/services/detector/regression"
	"github.com/tocsin-bus/tocsin/services/detector/rule"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

func onDevice(v float64, device telemetry.Device) *telemetry.Vitals {
	return &telemetry.Vitals{LCP: &v, Device: device}
}

// publish marks the findings as published and returns their number.
func publish(found []rule.Finding) (n int) {
	for _, f := range found {
		f.MarkPublished("id")
	}
	return len(found)
}

// TestLearned checks that a rule starts from the loads of the other one, and that open
// alerts stay with the rule that raised them.
func TestLearned(t *testing.T) {
	t.Run("confirmed from spec", func(t *testing.T) {
		p := regression.New()
		for range 30 {
			p.Load("web", cart, lcp(1000), noon)
		}
		if n := publish(p.Load("web", cart, lcp(3000), noon)); n != 1 || !p.AnyOpen() {
			t.Fatalf("%d findings, open %v, want 1, open", n, p.AnyOpen())
		}
		if loads, open := p.Loads(cart, "lcp_ms"); loads != 20 || !open {
			t.Errorf("%d loads of LCP, open %v, want 20, open", loads, open)
		}
		if loads, open := p.Loads(cart, "fcp_ms"); loads != 0 || open {
			t.Errorf("%d loads of FCP, open %v, want none, not open", loads, open)
		}
		c := confirmedAgain(t, p.Learned())
		want := []regression.Baseline{{Page: "/cart", Metric: "lcp_ms", Median: 1000, Loads: 20}}
		if diff := cmp.Diff(want, c.BaselinesOf("/cart")); diff != "" {
			t.Errorf("learned baselines (-want +got):\n%s", diff)
		}
		if c.AnyOpen() || c.Open(cart, "lcp_ms") {
			t.Error("the other rule has an open alert, want none")
		}
		for range 3 {
			if n := publish(c.Load("web", cart, lcp(1000), noon)); n != 0 {
				t.Errorf("%d findings about a page that is as before, want none", n)
			}
		}
		if !p.AnyOpen() {
			t.Error("the rule that raised the alert has none open, want it open")
		}
	})
	t.Run("spec from confirmed", func(t *testing.T) {
		c := regression.NewConfirmed()
		for range 25 {
			c.Load("web", cart, onDevice(500, ""), noon)
			c.Load("web", cart, onDevice(1000, telemetry.DeviceDesktop), noon)
		}
		for range 22 {
			c.Load("web", cart, onDevice(3000, telemetry.DeviceMobile), noon)
			c.Load("web", "/other", onDevice(3000, telemetry.DeviceMobile), noon)
		}
		if n := publish(c.Load("web", cart, onDevice(9000, telemetry.DeviceMobile), noon)); n != 1 || !c.AnyOpen() {
			t.Fatalf("%d findings, open %v, want 1, open", n, c.AnyOpen())
		}
		for _, tt := range []struct {
			url, metric string
			want        bool
		}{{cart, "lcp_ms", true}, {cart, "cls", false}, {"/other", "lcp_ms", false}} {
			if got := c.Open(tt.url, tt.metric); got != tt.want {
				t.Errorf("Open(%s, %s) = %v, want %v", tt.url, tt.metric, got, tt.want)
			}
		}
		p := restored(t, c.Learned())
		want := []regression.Baseline{{Page: "/cart", Metric: "lcp_ms", Median: 3000, Loads: 20}} // the class that loaded last
		if diff := cmp.Diff(want, p.BaselinesOf("/cart")); diff != "" {
			t.Errorf("learned baselines (-want +got):\n%s", diff)
		}
		if p.Len() != 2 || p.AnyOpen() {
			t.Errorf("%d pages, open %v, want 2, not open", p.Len(), p.AnyOpen())
		}
		if n := publish(p.Load("web", cart, lcp(1000), noon)); n != 0 {
			t.Errorf("%d findings about a load that is faster, want none", n)
		}
	})
	t.Run("there and back", func(t *testing.T) {
		p := regression.New()
		for i := range 30 {
			v := 1000 + float64(i)
			p.Load("web", cart, &telemetry.Vitals{LCP: &v, CLS: new(float64)}, noon)
			p.Load("web", "/b", lcp(v), noon)
		}
		again := restored(t, confirmedAgain(t, p.Learned()).Learned())
		if diff := cmp.Diff(p.Baselines(), again.Baselines()); diff != "" {
			t.Errorf("baselines (-want +got):\n%s", diff)
		}
		if again.Size() != p.Size() {
			t.Errorf("size = %d, want %d", again.Size(), p.Size())
		}
	})
}
