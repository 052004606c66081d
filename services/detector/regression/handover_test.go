package regression_test

import (
	"slices"
	"testing"

	"github.com/tocsin-bus/tocsin/services/detector/regression"
	"github.com/tocsin-bus/tocsin/services/detector/rule"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

func onDevice(v float64, device telemetry.Device) *telemetry.Vitals {
	return &telemetry.Vitals{LCP: &v, Device: device}
}

func tell(found []rule.Finding) (n int) {
	for _, f := range found {
		f.MarkPublished("id")
	}
	return len(found)
}

// TestLearned checks that a rule continues from what the other one has learned, and that
// what is open stays with the rule that raised it.
func TestLearned(t *testing.T) {
	t.Run("confirmed from spec", func(t *testing.T) {
		p := regression.New()
		for range 30 {
			p.Load("web", cart, lcp(1000), noon)
		}
		if n := tell(p.Load("web", cart, lcp(3000), noon)); n != 1 || !p.AnyOpen() {
			t.Fatalf("%d findings, open %v", n, p.AnyOpen())
		}
		if loads, open := p.Loads(cart, "lcp_ms"); loads != 20 || !open {
			t.Errorf("%d loads, open %v", loads, open)
		}
		if loads, open := p.Loads(cart, "fcp_ms"); loads != 0 || open {
			t.Errorf("of another metric: %d loads, open %v", loads, open)
		}
		c := confirmedAgain(t, p.Learned())
		if got := c.BaselinesOf("/cart"); len(got) != 1 || got[0].Median != 1000 || got[0].Loads != 20 || c.AnyOpen() || c.Open(cart, "lcp_ms") {
			t.Errorf("%+v, open %v", got, c.AnyOpen())
		}
		for range 3 {
			if n := tell(c.Load("web", cart, lcp(1000), noon)); n != 0 {
				t.Errorf("%d findings about a page that is as before", n)
			}
		}
		if !p.AnyOpen() {
			t.Error("the rule that raised it has lost it")
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
		if n := tell(c.Load("web", cart, onDevice(9000, telemetry.DeviceMobile), noon)); n != 1 || !c.AnyOpen() || !c.Open(cart, "lcp_ms") || c.Open(cart, "cls") || c.Open("/other", "lcp_ms") {
			t.Fatalf("%d findings, open %v", n, c.AnyOpen())
		}
		p := restored(t, c.Learned())
		if got := p.BaselinesOf("/cart"); len(got) != 1 || got[0].Median != 3000 || got[0].Loads != 20 || p.Len() != 2 || p.AnyOpen() {
			t.Errorf("got %+v, open %v, want the class that loaded last", got, p.AnyOpen())
		}
		if n := tell(p.Load("web", cart, lcp(1000), noon)); n != 0 {
			t.Errorf("%d findings about a page that is as before", n)
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
		if !slices.Equal(again.Baselines(), p.Baselines()) || again.Size() != p.Size() {
			t.Errorf("got %+v, want %+v", again.Baselines(), p.Baselines())
		}
	})
}
