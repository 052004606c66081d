package ratetail_test

import (
	"bytes"

	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/detector/ratetail"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot/snapshottest"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

func at(ms int64) time.Time { return time.UnixMilli(1_770_000_000_000 + ms) }

const (
	sec  = int64(1000)
	min  = 60 * sec
	hour = 60 * min
)

// stream has the times of errors, in milliseconds.
type stream []int64

// drawn is a source of random streams that are the same each time.
type drawn struct{ *rand.Rand }

func seeded(n uint64) drawn { return drawn{rand.New(rand.NewPCG(n, 6))} }

// poisson returns errors that come one by one, at a rate in errors a second that may change
// and is never over most.
func (r drawn) poisson(from, to int64, most float64, rate func(ms float64) float64) (s stream) {
	for t := float64(from); ; {
		t += r.ExpFloat64() / most * float64(sec)
		if t >= float64(to) {
			return s
		}
		if r.Float64()*most < rate(t) {
			s = append(s, int64(t))
		}
	}
}

func (r drawn) steady(from, to int64, rate float64) stream {
	return r.poisson(from, to, rate, func(float64) float64 { return rate })
}

// burst returns n errors within a time.
func (r drawn) burst(from, within int64, n int) (s stream) {
	for range n {
		s = append(s, from+r.Int64N(within))
	}
	return s
}

func (r drawn) clusters(to int64, rate float64) (s stream) {
	for _, t := range r.steady(0, to, rate/5) {
		s = append(s, r.burst(t, 2*sec, 1+int(r.ExpFloat64()/-math.Log(0.8)))...)
	}
	return s
}

func together(all ...stream) stream {
	s := slices.Concat(all...)
	slices.Sort(s)
	return s
}

// reported is a finding of a counter and its time, in milliseconds.
type reported struct {
	at      int64
	finding ratetail.Finding
}

var names = map[ratetail.Kind]string{
	ratetail.Spike: "spike", ratetail.SpikeOver: "over", ratetail.SpikeStayed: "stays", ratetail.Recurring: "recurs", ratetail.RecurringOver: "recurs over",
	ratetail.Drift: "drift", ratetail.DriftOver: "drift over", ratetail.DriftStayed: "drift stays",
}

// watch gives a stream to a counter and checks each second whether an open finding is over.
func watch(c *ratetail.Counter, s stream, until int64) (all []reported) {
	spike, drift := false, false
	ask := func(t int64) {
		if end, over, _ := c.Over(at(t)); spike && over {
			spike, all = false, append(all, reported{t, end})
		}
		if end, over, _ := c.DriftOver(at(t)); drift && over {
			drift, all = false, append(all, reported{t, end})
		}
	}
	next := int64(0)
	for _, t := range s {
		for ; next < t; next += sec {
			ask(next)
		}
		if found, ok := c.Add(at(t), false); ok {
			all = append(all, reported{t, found})
			spike, drift = spike || found.Kind == ratetail.Spike || found.Kind == ratetail.Recurring, drift || found.Kind == ratetail.Drift
		}
	}
	for ; next <= until; next += sec {
		ask(next)
	}
	return all
}

func (t reported) String() string { return fmt.Sprintf("%d:%s", t.at/sec, names[t.finding.Kind]) }

func kinds(all []reported) string {
	var words []string
	for _, t := range all {
		words = append(words, names[t.finding.Kind])
	}
	return strings.Join(words, ", ")
}

func of(all []reported, kind ratetail.Kind) (n int) {
	for _, t := range all {
		if t.finding.Kind == kind {
			n++
		}
	}
	return n
}

// every returns the times from first to last, step apart.
func every(first, last, step int64) (s stream) {
	for t := first; t <= last; t += step {
		s = append(s, t)
	}
	return s
}

// comesAndGoes returns half a minute of ten errors a second and half a minute of none, by
// turns.
func comesAndGoes(from, to int64) (s stream) {
	for ; from < to; from += min {
		s = append(s, every(from, from+30*sec, 100)...)
	}
	return s
}

// TestTimelines plays streams. want has the findings with their seconds.
func TestTimelines(t *testing.T) {
	for _, tt := range []struct {
		name   string
		errors stream
		until  int64
		want   string
	}{
		{"nothing is known at the beginning", every(0, 900, 50), min, "[]"},
		{"but 60 errors at once are a spike", every(0, 59, 1), 3 * min, "[0:spike 130:over]"},
		{"and so are 20 after 20 s of none", every(20*sec, 20*sec+190, 10), 3 * min, "[20:spike 150:over]"},
		{"but 10 are not", every(20*sec, 20*sec+90, 10), min, "[]"},
		{"four errors after 10 min of none are no spike", every(10*min, 10*min+300, 100), 11 * min, "[]"},
		{"the fifth is, over when 10 s and 120 s have passed", every(10*min, 10*min+400, 100), 13 * min, "[600:spike 730:over]"},
		{"one finding per spike", every(10*min, 12*min, 100), 15 * min, "[600:spike 849:over]"},
		// Errors that return within 120 s belong to the same alert.
		{"a spike that returns within 120 s is the same", together(every(10*min, 10*min+900, 100), every(11*min, 11*min+900, 100)), 14 * min,
			"[600:spike 790:over]"},
		{"a spike ends, and the next begins", together(every(10*min, 10*min+900, 100), every(13*min, 13*min+900, 100)), 16 * min,
			"[600:spike 730:over 780:spike 910:over]"},
		{"it comes and goes for 20 min: one incident until that is the new level", comesAndGoes(10*min, 30*min), 33 * min, "[600:spike 1505:stays 1560:recurs 1899:recurs over]"},
		{"a few errors each 10 s go on, too few to be found again", together(every(10*min, 10*min+400, 100), every(10*min+12*sec, 15*min, 4*sec)), 18 * min, "[600:spike 1020:over]"},
		{"a steady rate is learned from the beginning", every(0, hour, 500), hour, "[]"},
		{"it ends when it is back at what is usual", together(every(0, 20*min, 2000), every(10*min, 10*min+20*sec, 100)), 20 * min, "[600:spike 750:over]"},
		{"what stays for 15 min is usual from then on", together(every(0, 10*min, 2000), every(10*min, hour, 200)), hour, "[601:spike 1502:stays]"},
		{"one finding also where half as many more are a spike", together(every(0, 14*min, 100), every(10*min, 11*min, 166)), 14 * min, "[607:spike 788:over]"},
		{"a clock that is set back starts again", append(every(10*min, 10*min+300, 100), every(0, 300, 100)...), 10 * min, "[]"},
		{"and ends what went on", append(every(10*min, 10*min+900, 100), every(sec, 9*sec, 4*sec)...), 10 * min, "[600:spike]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := fmt.Sprint(watch(ratetail.New(at(0)), tt.errors, tt.until)); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// TestExplains checks the figures of findings.
func TestExplains(t *testing.T) {
	s := together(every(0, 13*min, 10*sec), every(10*min+5*sec, 10*min+6*sec, 100))
	all := watch(ratetail.New(at(0)), s, 13*min)
	if len(all) != 2 {
		t.Fatalf("findings = %v, want a spike and its end", all)
	}
	f := all[0].finding
	if f.Count != 6 || f.Seconds != 2 || math.Abs(f.Expected-0.2) > 0.01 || f.LogP > math.Log(7e-7) || f.LogP < math.Log(1e-8) {
		t.Errorf("spike = %+v, want 6 errors in 2 s, about 0.2 expected, p from 1e-8 to 7e-7", f)
	}
	if end := all[1].finding; end.Kind != ratetail.SpikeOver || end.Seconds != 10 || end.Count > 2 || math.Abs(end.Expected-1) > 0.1 {
		t.Errorf("end = %+v, want kind %d, at most 2 errors in 10 s, about 1 expected", end, ratetail.SpikeOver)
	}
}

// TestFigures plays random streams with known spikes. The bounds leave room for chance:
// e2e/eval measures the figures themselves.
func TestFigures(t *testing.T) {
	const day = 24 * hour
	for _, rate := range []float64{0.02, 0.1, 0.5, 2} {
		r := seeded(uint64(1000 * rate))
		s, bursts := r.steady(0, 3*day, rate), 0
		for start := hour; start < 3*day; start += 25*min + r.Int64N(20*min) {
			s = append(s, r.burst(start, 10*sec, 30)...)
			bursts++
		}
		all := watch(ratetail.New(at(0)), together(s), 3*day)
		found := of(all, ratetail.Spike) + of(all, ratetail.Recurring)
		if found < bursts*93/100 || found > bursts+8 || of(all, ratetail.Drift) > 0 {
			t.Errorf("at %v/s: %d bursts and %d drifts found, want %d to %d bursts and no drift", rate, found, of(all, ratetail.Drift), bursts*93/100, bursts+8)
		}
	}
	r := seeded(1)
	for name, s := range map[string]stream{
		"steady": r.steady(0, 5*day, 0.3),
		"with the day": r.poisson(0, 5*day, 0.5, func(ms float64) float64 {
			return 0.3 + 0.2*math.Sin(2*math.Pi*ms/float64(day))
		}),
	} {
		if all := watch(ratetail.New(at(0)), s, 5*day); len(all) > 12 || of(all, ratetail.Drift) > 0 {
			t.Errorf("%s: %d findings in 5 days: %v, want at most 12 and no drift", name, len(all), all)
		}
	}
	if all := watch(ratetail.New(at(0)), together(r.clusters(3*day, 0.3)), 3*day); of(all, ratetail.Spike) > 72 {
		t.Errorf("clustered: %d spikes in 3 days, want at most 72", of(all, ratetail.Spike))
	}
}

// wander returns a stream whose rate, in errors a second, wanders: its logarithm is an
// Ornstein-Uhlenbeck process with a deviation and a time constant in seconds. For 60 s from
// each rise on the rate is four times as high.
func (r drawn) wander(to int64, rate, deviation, constant float64, rises []int64) (s stream) {
	keep, x := math.Exp(-1/constant), deviation*r.NormFloat64()
	for from := int64(0); from < to; from += sec {
		now := rate * math.Exp(x)
		for _, rise := range rises {
			if from >= rise && from < rise+min {
				now *= 4
			}
		}
		s = append(s, r.steady(from, from+sec, now)...)
		x = x*keep + deviation*math.Sqrt(1-keep*keep)*r.NormFloat64()
	}
	return s
}

// TestWander checks that a rate that wanders within minutes is no spike, and that four times
// as much of it is. The bounds leave room for chance.
func TestWander(t *testing.T) {
	const day = 24 * hour
	var rises []int64
	for at := hour; at < day; at += 30*min + seeded(uint64(at)).Int64N(20*min) { // by no schedule
		rises = append(rises, at)
	}
	for _, tt := range []struct {
		rate, deviation, constant, recall float64
	}{{1, 0.5, 300, 0.7}, {1, 0.5, 30, 0}, {5, 0.3, 60, 0.85}, {2, 0.5, 10, 0}} {
		wrong, found := 0, 0
		for seed := range uint64(2) {
			r := seeded(seed)
			all := watch(ratetail.New(at(0)), r.wander(day, tt.rate, tt.deviation, tt.constant, nil), day)
			wrong += of(all, ratetail.Spike) + of(all, ratetail.Drift)
			all = watch(ratetail.New(at(0)), r.wander(day, tt.rate, tt.deviation, tt.constant, rises), day)
			for _, rise := range rises {
				if slices.ContainsFunc(all, func(f reported) bool {
					return f.finding.Kind == ratetail.Spike && f.at >= rise && f.at <= rise+15*sec
				}) {
					found++
				}
			}
		}
		if wrong > 10 {
			t.Errorf("%+v: %d spikes and drifts in 2 days, want 10 at most", tt, wrong)
		}
		if recall := float64(found) / float64(2*len(rises)); recall < tt.recall {
			t.Errorf("%+v: %.2f of the rises found within 15 s, want %.2f", tt, recall, tt.recall)
		}
	}
}

// TestOneSpike checks that a higher rate for some minutes is mostly one spike, although by
// chance fewer errors come for a while.
func TestOneSpike(t *testing.T) {
	for _, tt := range []struct{ usual, now float64 }{{0.5, 3}, {1, 3}, {2, 5}, {5, 10}, {20, 30}, {100, 150}} {
		spikes, found := 0, 0
		for seed := range uint64(10) {
			r := seeded(seed)
			s := r.poisson(0, 40*min, tt.now, func(ms float64) float64 {
				if ms > float64(30*min) && ms < float64(35*min) {
					return tt.now
				}
				return tt.usual
			})
			n := 0
			for _, reported := range watch(ratetail.New(at(0)), s, 40*min) {
				if reported.at > 30*min && reported.finding.Kind == ratetail.Spike {
					n++
				}
			}
			spikes += n
			if n > 0 {
				found++
			}
		}
		if found < 9 || spikes > 15 {
			t.Errorf("%v/s for 5 min where %v/s are usual, 10 times: %d found with %d spikes, want at least 9 with at most 15", tt.now, tt.usual, found, spikes)
		}
	}
}

// TestRecurring checks that bursts by a schedule are reported as recurring from the fourth
// on, and as a spike if they are larger or off the schedule.
func TestRecurring(t *testing.T) {
	for _, period := range []int64{10 * min, 17 * min, hour} {
		r := seeded(uint64(period))
		s := r.steady(0, 12*period, 0.1)
		s = append(s, r.burst(10*period+170*sec, 10*sec, 60)...) // off the schedule
		for i := range int64(12) {
			n := 20
			if i == 8 {
				n = 90
			}
			s = append(s, r.burst(15*sec+i*period+r.Int64N(sec), 3*sec, n)...)
		}
		c := ratetail.New(at(-10 * min))
		all := watch(c, together(s), 12*period)
		recurs := ", recurs, recurs over"
		want := "spike, over, spike, over, spike, over" + strings.Repeat(recurs, 5) + ", recurs, spike, over" + strings.Repeat(recurs, 2) + ", spike, over" + recurs
		if got := kinds(all); got != want {
			t.Errorf("every %d s: findings %v\nwant %s", period/sec, all, want)
			continue
		}
		first, larger, off := all[6], all[17], all[23]
		if p := first.finding.Period * float64(sec); math.Abs(p-float64(period)) > 3*float64(sec) || first.finding.Usual < 15 || first.finding.Usual > 25 {
			t.Errorf("every %d s: %+v, want that period within 3 s, and 15 to 25 errors", period/sec, first)
		}
		if d := larger.at - 8*period; d < 0 || d > 25*sec || larger.finding.Expected < 15 || !larger.finding.Upgrades {
			t.Errorf("larger than usual, every %d s: %v %+v, want within 25 s of %d s, at least 15 expected, an upgrade", period/sec, larger, larger.finding, 8*period/sec)
		}
		if d := off.at - 10*period; d < 170*sec || d > 175*sec || off.finding.Expected > 5 || off.finding.Upgrades {
			t.Errorf("off the schedule, every %d s: %v %+v, want 170 to 175 s after %d s, at most 5 expected, no upgrade", period/sec, off, off.finding, 10*period/sec)
		}
		if c.Recurred() != 8 {
			t.Errorf("every %d s: %d recurred, want 8", period/sec, c.Recurred())
		}
	}
}

// TestRecurringEachMinute checks that bursts within the quiet period of the one before are
// one incident, which a burst off the schedule raises to an error.
func TestRecurringEachMinute(t *testing.T) {
	r := seeded(1)
	s := together(r.steady(0, 30*min, 0.1), r.burst(20*min+40*sec, 10*sec, 60))
	for i := range int64(30) {
		s = append(s, r.burst(15*sec+i*min+r.Int64N(sec), 3*sec, 20)...)
	}
	all := watch(ratetail.New(at(-10*min)), together(s), 33*min)
	if got, want := kinds(all), "spike, stays, recurs, spike, over, recurs, recurs over"; got != want {
		t.Fatalf("findings %v\nwant %s", all, want)
	}
	if !all[3].finding.Upgrades || all[3].at < 20*min+40*sec || all[3].at > 20*min+45*sec {
		t.Errorf("off the schedule: got %v %+v, want an upgrade from second 1240 to 1245", all[3], all[3].finding)
	}
}

// TestRecurringBounds checks that a burst by a schedule becomes an error after 60 s, at
// twice its usual size, and at once if requests fail.
func TestRecurringBounds(t *testing.T) {
	for _, tt := range []struct {
		name    string
		last    stream // the fifth burst
		failing bool
		want    string
	}{
		{"as usual", every(20*min, 20*min+sec, 50), false, "recurs at 1200, over"},
		{"1.9 times as many", every(20*min, 20*min+sec, 26), false, "recurs at 1200, over"},
		{"2.1 times as many", every(20*min, 20*min+sec, 23), false, "recurs at 1200, raised at 1200, over"},
		{"it goes on", every(20*min, 23*min, 400), false, "recurs at 1201, raised at 1231, over"},
		{"requests fail", every(20*min, 20*min+sec, 50), true, "spike at 1200, over"},
	} {
		c := ratetail.New(at(-10 * min))
		for i := range int64(4) {
			for _, ms := range every(i*5*min, i*5*min+sec, 50) {
				c.Add(at(ms), false)
			}
		}
		got, open := "", false
		for _, ms := range append(tt.last, 30*min) {
			if _, over, _ := c.Over(at(ms)); open && over {
				got, open = got+", over", false
			}
			if found, ok := c.Add(at(ms), tt.failing); ok {
				word := names[found.Kind]
				if found.Upgrades {
					word = "raised"
				}
				got, open = got+fmt.Sprintf(", %s at %d", word, ms/sec), true
			}
		}
		if got = strings.TrimPrefix(got, ", "); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestOutagesRecur checks that an outage is an error each time, although it comes by a
// schedule.
func TestOutagesRecur(t *testing.T) {
	var s stream
	for i := range int64(6) {
		s = append(s, every(i*3*hour, i*3*hour+10*min, 40)...)
	}
	all := watch(ratetail.New(at(-20*min)), together(s), 18*hour)
	if got, want := kinds(all), "spike, over, spike, over, spike, over"+strings.Repeat(", recurs, spike, over", 3); got != want {
		t.Fatalf("findings %v\nwant %s", all, want)
	}
	for i := 6; i < len(all); i += 3 {
		if took := all[i+1].at - all[i].at; took > 61*sec {
			t.Errorf("the outage at %d s became an error after %d s, want at most 61 s", all[i].at/sec, took/sec)
		}
	}
}

// TestRecurringGoesOn checks that a burst that begins on schedule and does not end becomes a
// spike, marked as longer, although it is no larger than usual.
func TestRecurringGoesOn(t *testing.T) {
	s := every(20*min, 25*min-10*sec, 500)
	for i := range int64(4) {
		s = append(s, every(i*5*min, i*5*min+sec, 50)...)
	}
	all := watch(ratetail.New(at(-10*min)), together(s), hour)
	if got, want := kinds(all), "spike, over, spike, over, spike, over, recurs, recurs over, recurs, spike, over"; got != want {
		t.Fatalf("findings %v\nwant %s", all, want)
	}
	if f := all[9].finding; !f.Longer || !f.Upgrades || f.Expected > 0.1 || f.LogP > math.Log(1e-6) || all[9].at > 20*min+40*sec {
		t.Errorf("spike = %v %+v, want it longer, an upgrade, at most 0.1 expected, p under 1e-6, by second 1240", all[9], f)
	}
}

// TestRecurringForgets checks that a burst is a spike if it is due by a schedule that has
// ended.
func TestRecurringForgets(t *testing.T) {
	var s stream
	for _, i := range []int64{0, 1, 2, 3, 4, 12} {
		s = append(s, every(i*5*min, i*5*min+sec, 50)...)
	}
	const recurs = ", recurs, recurs over"
	if got, want := kinds(watch(ratetail.New(at(-10*min)), s, 2*hour)), "spike, over, spike, over, spike, over"+recurs+recurs+", spike, over"; got != want {
		t.Errorf("findings %s\nwant %s", got, want)
	}
}

func TestDrift(t *testing.T) {
	for _, tt := range []struct {
		name string
		rate func(hours float64) float64
		last int64
		want string
	}{
		{"up within an hour, and back", func(h float64) float64 {
			if h > 7 {
				return 0.2
			}
			return 0.2 + 0.4*math.Min(1, math.Max(0, h-4))
		}, 12 * hour, "drift, drift over"},
		{"up, and then none at all", func(h float64) float64 {
			if h > 6 {
				return 0
			}
			return 0.2 + 0.4*math.Min(1, math.Max(0, h-4))
		}, 12 * hour, "drift, drift over"},
		{"up, to stay", func(h float64) float64 { return 0.2 + 0.4*math.Min(1, math.Max(0, h-4)) }, 24 * hour, "drift, drift stays"},
		{"twice as many in 12 hours are of the day", func(h float64) float64 { return 0.2 + 0.2*math.Min(1, h/12) }, 24 * hour, ""},
	} {
		r := seeded(7)
		s := r.poisson(0, tt.last, 0.6, func(ms float64) float64 { return tt.rate(ms / float64(hour)) })
		all := slices.DeleteFunc(watch(ratetail.New(at(0)), s, tt.last), func(t reported) bool {
			return t.finding.Kind == ratetail.Spike || t.finding.Kind == ratetail.SpikeOver
		})
		if got := kinds(all); got != tt.want {
			t.Errorf("%s: findings %v, want %s", tt.name, all, tt.want)
			continue
		}
		if len(all) == 0 {
			continue
		}
		f := all[0].finding
		if all[0].at < 4*hour || all[0].at > 5*hour || f.Over < 600 || f.Over > 3600 {
			t.Errorf("%s: drift %v over %d s, want it in the 5th hour, over 600 to 3600 s", tt.name, all[0], f.Over)
		}
		if f.From > 0.35 || f.From < 0.18 || f.To < 0.35 || f.To > 0.65 || f.To < 1.5*f.From {
			t.Errorf("%s: drift from %v to %v, want from 0.18-0.35 to 0.35-0.65, at least 1.5 times as much", tt.name, f.From, f.To)
		}
		switch end := all[1]; {
		case end.finding.Kind == ratetail.DriftStayed && (end.finding.To < 0.5 || end.finding.To > 0.7):
			t.Errorf("%s: the new level is %v, want 0.5 to 0.7", tt.name, end.finding.To)
		case end.finding.Kind == ratetail.DriftOver && (end.finding.To > 0.35 || end.at > 8*hour):
			t.Errorf("%s: over at %v with %v/s, want by the 8th hour with at most 0.35/s", tt.name, end, end.finding.To)
		}
	}
}

// TestOneAlertAMorning checks that the rise at the beginning of office hours is a spike, and
// not also a drift.
func TestOneAlertAMorning(t *testing.T) {
	const first = 5 * hour
	spikes := 0
	for n := range uint64(20) {
		r := seeded(n)
		all := watch(ratetail.New(at(0)), together(r.steady(0, first, 0.005), r.steady(first, 8*hour, 0.3)), 8*hour)
		open := false
		for _, one := range all {
			switch one.finding.Kind {
			case ratetail.Spike:
				open = true
			case ratetail.SpikeOver, ratetail.SpikeStayed:
				open = false
			case ratetail.Drift:
				if open {
					t.Errorf("morning %d: %v, want no drift while a spike is open", n, all)
				}
			default: // nothing that opens or ends a spike
			}
		}
		spikes += of(all, ratetail.Spike)
	}
	if spikes < 20 || spikes > 24 {
		t.Errorf("%d spikes in 20 mornings, want 20 to 24", spikes)
	}
}

// TestSilence checks that the usual rate is kept during a silence.
func TestSilence(t *testing.T) {
	alerts := 0
	for n := range uint64(20) {
		r := seeded(n)
		alerts += len(watch(ratetail.New(at(0)), together(r.steady(0, hour, 0.1), r.steady(2*hour, 3*hour, 0.1)), 3*hour))
	}
	if alerts > 2 {
		t.Errorf("%d alerts after 20 silences, want at most 2", alerts)
	}
}

func TestAlerts(t *testing.T) {
	spike := ratetail.Finding{Kind: ratetail.Spike, Count: 14, Seconds: 10, Expected: 1.30042, LogP: math.Log(2e-9)}
	larger := spike
	larger.Period = 900
	longer := larger
	longer.Longer = true
	drift := ratetail.Finding{Kind: ratetail.Drift, From: 0.2, To: 0.5, Over: 2400}
	for _, tt := range []struct {
		a                  alert.Alert
		severity           alert.Severity
		title, detail, key string
		context            string
	}{
		{spike.Alert("web", "logs"), alert.Error, "Error spike in logs: far more than expected", "14 errors in 10 s; expected 1.3; p = 2e-9",
			"anomaly:web:logs", "map[average:1.3 count:14 expected:1.3 p:2e-09 rule:rate-tail signal:logs window_s:10]"},
		{larger.Alert("web", "requests"), alert.Error, "Error spike in requests: far more than expected",
			"14 errors in 10 s; expected 1.3; p = 2e-9; larger than the burst that recurs every 15 min",
			"anomaly:web:requests", "map[average:1.3 count:14 expected:1.3 p:2e-09 rule:rate-tail signal:requests window_s:10]"},
		{longer.Alert("web", "requests"), alert.Error, "Error spike in requests: far more than expected",
			"14 errors in 10 s; expected 1.3; p = 2e-9; goes on for longer than the burst that recurs every 15 min",
			"anomaly:web:requests", "map[average:1.3 count:14 expected:1.3 p:2e-09 rule:rate-tail signal:requests window_s:10]"},
		{ratetail.Finding{Kind: ratetail.SpikeOver, Count: 2, Seconds: 10, Expected: 1.3}.Resolution("web", "logs", "id"), alert.Info,
			"Resolved: Error spike in logs", "2 errors in the last 10 s; expected 1.3",
			"anomaly:web:logs", "map[average:1.3 count:2 expected:1.3 rule:rate-tail signal:logs window_s:10]"},
		{ratetail.Finding{Kind: ratetail.SpikeStayed, Count: 30, Seconds: 10, Expected: 31}.Resolution("web", "logs", "id"), alert.Info,
			"Error rate in logs stays at the spike's level, now treated as normal", "After 15 min, 31 errors in 10 s are what is expected",
			"anomaly:web:logs", "map[average:31 count:30 expected:31 outcome:new_level rule:rate-tail signal:logs window_s:10]"},
		{ratetail.Finding{Kind: ratetail.Recurring, Count: 9, Seconds: 2, Expected: 0.2, LogP: math.Log(1e-9), Period: 900, Usual: 20.5}.Alert("web", "logs"), alert.Info,
			"Error burst in logs recurs by a schedule", "every 15 min, with about 20 errors each time; it becomes an error over 60 s, over 2 times that size, or when over 30% of the app's requests fail",
			"anomaly:web:logs", "map[average:0.2 count:9 expected:0.2 p:1e-09 period_s:900 rule:recurring signal:logs usual:20.5 window_s:2]"},
		{ratetail.Finding{Kind: ratetail.RecurringOver, Count: 2, Seconds: 10, Expected: 1.3}.Resolution("web", "logs", "id"), alert.Info,
			"Resolved: Error burst in logs", "2 errors in the last 10 s; expected 1.3",
			"anomaly:web:logs", "map[average:1.3 count:2 expected:1.3 rule:rate-tail signal:logs window_s:10]"},
		{drift.Alert("web", "logs"), alert.Warning, "Errors in logs have drifted upwards", "from 0.2/s to 0.5/s over 40 min",
			"anomaly:web:logs:drift", "map[from_per_s:0.2 rule:drift signal:logs to_per_s:0.5]"},
		{ratetail.Finding{Kind: ratetail.DriftOver, From: 0.2, To: 0.21}.Resolution("web", "logs", "id"), alert.Info,
			"Resolved: Errors in logs have drifted upwards", "back at 0.21/s; the drift had begun at 0.2/s",
			"anomaly:web:logs:drift", "map[from_per_s:0.2 rule:drift signal:logs to_per_s:0.21]"},
		{ratetail.Finding{Kind: ratetail.DriftStayed, From: 0.2, To: 0.6}.Resolution("web", "logs", "id"), alert.Info,
			"Error rate in logs stays higher, now treated as normal", "0.6/s is what is expected from now on; the drift had begun at 0.2/s",
			"anomaly:web:logs:drift", "map[from_per_s:0.2 outcome:new_level rule:drift signal:logs to_per_s:0.6]"},
	} {
		want := alert.Alert{
			Severity: tt.severity, Title: tt.title, Detail: tt.detail, DedupKey: tt.key, Category: alert.Anomaly, Source: alert.SourceAnomaly,
			Context: tt.a.Context, Resolves: tt.a.Resolves,
		}
		if diff := cmp.Diff(want, tt.a); diff != "" {
			t.Errorf("%s: alert (-want +got):\n%s", tt.title, diff)
		}
		if got, want := tt.a.OnlyResolves(), strings.HasPrefix(tt.title, "Resolved: "); got != want {
			t.Errorf("%s: only resolves = %v, want %v", tt.title, got, want)
		}
		if got := fmt.Sprint(tt.a.Context); got != tt.context {
			t.Errorf("%s: context %s, want %s", tt.title, got, tt.context)
		}
	}
}

func restored(t interface{ Fatal(...any) }, c *ratetail.Counter) *ratetail.Counter {
	other := &ratetail.Counter{}
	snapshottest.Copy(t, c, other)
	return other
}

// TestRestoredGoesOn checks that writing and reading the state makes no difference to the
// findings.
func TestRestoredGoesOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := seeded(rapid.Uint64().Draw(t, "seed"))
		one, other := ratetail.New(at(0)), ratetail.New(at(0))
		small, again := ratetail.NewSmall(at(0)), ratetail.NewSmall(at(0))
		now := int64(0)
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			now = max(0, now+rapid.SampledFrom([]int64{0, 700, 11 * sec, 50 * sec, 2 * min, 11 * min, 5 * hour, -3 * sec}).Draw(t, "gap"))
			s := stream{}
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				s = r.burst(now, 3*sec, rapid.IntRange(1, 40).Draw(t, "errors"))
			case 1:
				s = r.steady(now, now+hour, 0.3)
			case 2:
				for i := range int64(5) {
					s = append(s, r.burst(now+i*5*min, 2*sec, 20)...)
				}
			}
			slices.Sort(s)
			if rapid.Bool().Draw(t, "restart") {
				other = restored(t, other)
				data := snapshottest.Write(&again)
				again = ratetail.Small{}
				snapshottest.Read(t, data, &again)
			}
			for _, ms := range s {
				got, ok := one.Add(at(ms), false)
				if same, sameOK := other.Add(at(ms), false); got != same || ok != sameOK {
					t.Fatalf("at %d ms the restored counter found %v, %+v, want %v, %+v", ms, sameOK, same, ok, got)
				}
				got, ok = small.Add(at(ms))
				if same, sameOK := again.Add(at(ms)); got != same || ok != sameOK {
					t.Fatalf("at %d ms the restored Small found %v, %+v, want %v, %+v", ms, sameOK, same, ok, got)
				}
				now = ms
			}
			end, over, _ := one.Over(at(now))
			if same, sameOver, _ := other.Over(at(now)); end != same || over != sameOver {
				t.Fatalf("at %d ms: Over = %v, %+v after a restart, want %v, %+v", now, sameOver, same, over, end)
			}
			end, over, _ = one.DriftOver(at(now))
			if same, sameOver, _ := other.DriftOver(at(now)); end != same || over != sameOver {
				t.Fatalf("at %d ms: DriftOver = %v, %+v after a restart, want %v, %+v", now, sameOver, same, over, end)
			}
		}
	})
}

// TestSmall checks that a Small finds spikes of errors that otherwise come one by one.
func TestSmall(t *testing.T) {
	r := seeded(3)
	s := r.steady(0, 6*hour, 0.2)
	for start := hour; start < 6*hour; start += 40 * min {
		s = append(s, r.burst(start, 10*sec, 30)...)
	}
	small := ratetail.NewSmall(at(0))
	found, over := 0, 0
	for _, ms := range together(s) {
		if f, spike := small.Add(at(ms)); spike {
			found++
			if f.Kind != ratetail.Spike || f.Count < 5 || f.Expected <= 0 {
				t.Errorf("finding = %+v, want a spike of 5 errors or more, and some expected", f)
			}
		}
	}
	if found != 8 {
		t.Errorf("%d spikes, want 8", found)
	}
	if end, over, moved := small.Over(at(7 * hour)); !over || !moved || end.Kind != ratetail.SpikeOver {
		t.Errorf("Over = %+v, %v, %v, want kind %d, over and moved", end, over, moved, ratetail.SpikeOver)
	}
	small = ratetail.NewSmall(at(0))
	for _, ms := range every(10*min, hour, 200) {
		if _, spike := small.Add(at(ms)); spike {
			over++
		}
	}
	if end, isOver, _ := small.Over(at(hour)); over != 1 || !isOver || end.Kind != ratetail.SpikeStayed || math.Abs(end.Expected-50) > 5 {
		t.Errorf("a rate that stays: %d spikes, over %v, %+v, want 1, over, the new level of about 50", over, isOver, end)
	}
	small = ratetail.NewSmall(at(0))
	over = 0
	for _, ms := range every(10*min, 30*min, 20) {
		if _, spike := small.Add(at(ms)); spike {
			over++
		}
	}
	if end, isOver, _ := small.Over(at(30 * min)); over != 1 || !isOver || end.Kind != ratetail.SpikeStayed || math.Abs(end.Expected-500) > 5 {
		t.Errorf("a high rate that stays: %d spikes, over %v, %+v, want 1, over, the new level of about 500", over, isOver, end)
	}
}

// spikyCounter returns a counter after an hour with two spikes.
func spikyCounter() *ratetail.Counter {
	c := ratetail.New(at(0))
	for _, ms := range together(every(0, hour, 2000), every(30*min, 30*min+2*sec, 40), every(40*min, 40*min+2*sec, 40)) {
		c.Add(at(ms), false)
	}
	return c
}

// TestRestoreRefuses checks that a state with a value out of its bounds is refused, and
// one that was cut off at any byte.
func TestRestoreRefuses(t *testing.T) {
	for name, count := range map[string]float64{"not a number": math.NaN(), "negative": -1, "infinite": math.Inf(1)} {
		var c ratetail.Counter
		err := snapshot.Read(snapshot.Append(nil, func(s *snapshot.Codec) {
			part := func(v *float64, s *snapshot.Codec) { s.Float(1, v, 0, 0) }
			core := func(v *float64, s *snapshot.Codec) { snapshot.Message(s, 1, v, part) }
			snapshot.Message(s, 1, &count, core)
		}), c.State)
		if !errors.Is(err, snapshot.ErrDamaged) {
			t.Errorf("a count that is %s: error = %v, want %v", name, err, snapshot.ErrDamaged)
		}
	}
	whole := snapshottest.Write(spikyCounter())
	for n := range whole {
		var c ratetail.Counter
		if err := snapshot.Read(whole[:n], c.State); !errors.Is(err, snapshot.ErrDamaged) {
			t.Errorf("the first %d of %d bytes: error = %v, want %v", n, len(whole), err, snapshot.ErrDamaged)
		}
	}
}

// TestReadsStateWithoutEnd reads the state of the counter of TestRestoreRefuses that was
// written before a state had a field that ends it.
func TestReadsStateWithoutEnd(t *testing.T) {
	data, err := os.ReadFile("testdata/counter-without-end.bin")
	if err != nil {
		t.Fatal(err)
	}
	var got ratetail.Counter
	snapshottest.Read(t, data, &got)
	if got, want := snapshottest.Write(&got), snapshottest.Write(spikyCounter()); !bytes.Equal(got, want) {
		t.Errorf("the restored counter writes\n%x\nwant\n%x", got, want)
	}
}

func FuzzRestore(f *testing.F) {
	c := ratetail.New(at(0))
	for i := range int64(4) {
		for _, ms := range every(i*5*min, i*5*min+2*sec, 40) {
			c.Add(at(20*min+ms), false)
		}
	}
	f.Add(snapshottest.Write(c))
	f.Fuzz(func(_ *testing.T, data []byte) {
		// An accepted state can be used.
		var c ratetail.Counter
		if snapshot.Read(data, c.State) == nil {
			for _, ms := range []int64{0, 0, 0, 0, 0, 0, 0, 11 * sec, hour, 24 * hour} {
				c.Add(at(ms), false)
			}
		}
		var s ratetail.Small
		if snapshot.Read(data, s.State) == nil {
			s.Add(at(0))
			s.Add(at(hour))
		}
	})
}

func BenchmarkAdd(b *testing.B) {
	for _, gap := range []time.Duration{100 * time.Microsecond, 500 * time.Millisecond, 20 * time.Second} {
		b.Run(fmt.Sprint("every ", gap), func(b *testing.B) {
			b.ReportAllocs()
			c, now := ratetail.New(at(0)), at(0)
			for b.Loop() {
				now = now.Add(gap)
				c.Add(now, false)
			}
		})
	}
}

func BenchmarkSmall(b *testing.B) {
	b.ReportAllocs()
	s, now := ratetail.NewSmall(at(0)), at(0)
	for b.Loop() {
		now = now.Add(500 * time.Millisecond)
		s.Add(now)
	}
}
