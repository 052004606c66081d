package fold_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/fold"
	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// TestEndsOnce: what rate-tail tells of ends once, with the key
// that it was reported with, and no two of a key continue at a time: through restarts with
// other rules, clocks that are set back, streams that stop and others that continue.
func TestEndsOnce(t *testing.T) {
	for seed := range uint64(30) {
		d := &disorder{t: t, r: rand.New(rand.NewPCG(seed, 9)), s: scriptBy(ruleset.RateTail)}
		for range 60 {
			d.step()
			d.s.at(d.now, fold.Message{})
		}
		for range 5000 {
			d.now += 5 * time.Second
			d.s.at(d.now, fold.Message{})
		}
		checkEnds(t, seed, d.s.alerts)
	}
}

// disorder is what happens to a detector.
type disorder struct {
	t   *testing.T
	r   *rand.Rand
	s   *script
	now time.Duration
}

func (d *disorder) step() {
	app := []string{"web", "shop"}[d.r.IntN(2)]
	switch d.r.IntN(10) {
	case 0:
		d.s.restart(d.t, judgedBy([]ruleset.Anomaly{ruleset.Ratio3x, ruleset.RateTail, ruleset.Auto}[d.r.IntN(3)]))
	case 1:
		d.now = max(0, d.now-time.Duration(d.r.IntN(100))*time.Second)
	case 2:
		d.now += time.Duration(d.r.IntN(40)) * time.Minute
	case 3, 4, 5:
		rate, end := []float64{0.1, 1, 5}[d.r.IntN(3)], d.now+time.Duration(1+d.r.IntN(40))*time.Minute
		for d.now < end {
			d.now += time.Duration(d.r.ExpFloat64() / rate * float64(time.Second))
			d.fails(app, logged(telemetry.LevelError, []string{"boom", "other"}[d.r.IntN(2)]))
		}
	default:
		e, gap := logged(telemetry.LevelError, "boom"), time.Duration(d.r.IntN(300))*time.Millisecond
		if d.r.IntN(3) == 0 {
			e = requested("GET", "/x", 500)
		}
		for range 5 + d.r.IntN(100) {
			d.fails(app, e)
			d.now += gap
		}
	}
}

func (d *disorder) fails(app string, e telemetry.Event) {
	e.App = app
	d.s.at(d.now, events(e))
}

func checkEnds(t *testing.T, seed uint64, all []alert.Alert) {
	t.Helper()
	type key struct{ app, key string }
	open, found := map[key]string{}, map[string]bool{}
	for _, a := range all {
		of := key{a.App, a.DedupKey}
		switch {
		case a.Resolves != "" && found[a.Resolves]:
			if open[of] != a.Resolves {
				t.Errorf("seed %d: at %v %q is over again, or was reported elsewhere", seed, a.Timestamp, a.Title)
			}
			delete(open, of)
		case a.Context["rule"] == "rate-tail", a.Context["rule"] == "drift", a.Context["state"] == "escalating":
			if a.Resolves != "" || open[of] != "" {
				t.Errorf("seed %d: at %v %q while another goes on", seed, a.Timestamp, a.Title)
			}
			open[of], found[a.ID] = a.ID, true
		}
	}
	if len(open) > 0 {
		t.Errorf("seed %d: %d never end", seed, len(open))
	}
}
