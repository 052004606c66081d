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

// TestEndsOnce checks that each incident of rate-tail ends once, with its own dedup key, and
// that no two incidents with one key are open at a time. There are restarts with other rules,
// clocks that are set back, and pauses.
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

// disorder plays random errors, restarts, pauses and changes of the clock.
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
		id := key{a.App, a.DedupKey}
		switch {
		case a.Resolves != "" && found[a.Resolves]:
			if open[id] != a.Resolves {
				t.Errorf("seed %d, %v: %q resolves %s, want the open alert with its key, %q", seed, a.Timestamp, a.Title, a.Resolves, open[id])
			}
			delete(open, id)
		case a.Context["rule"] == "rate-tail", a.Context["rule"] == "drift", a.Context["state"] == "escalating":
			if a.Resolves != "" || open[id] != "" {
				t.Errorf("seed %d, %v: got %q while %q is open with its key, want none open", seed, a.Timestamp, a.Title, open[id])
			}
			open[id], found[a.ID] = a.ID, true
		}
	}
	if len(open) > 0 {
		t.Errorf("seed %d: %d incidents never end, want all to end", seed, len(open))
	}
}
