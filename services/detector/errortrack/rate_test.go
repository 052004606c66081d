package errortrack

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
)

// at returns a time in seconds after the start.
func at(s float64) time.Time { return time.UnixMilli(1_770_000_000_000 + int64(1000*s)) }

// TestEscalates checks at which times an error escalates, in seconds.
func TestEscalates(t *testing.T) {
	every := func(from, to, step float64) (all []float64) {
		for s := from; s < to; s += step {
			all = append(all, s)
		}
		return all
	}
	join := func(parts ...[]float64) (all []float64) {
		for _, part := range parts {
			all = append(all, part...)
		}
		return all
	}
	burst := func(from float64, n int) []float64 { return every(from, from+float64(n)*0.2-0.1, 0.2) }
	const hour = 3600
	for _, tt := range []struct {
		name  string
		times []float64
		want  []float64
	}{
		{"at first, few", every(0, 30, 1), nil},
		{"once in 10 s, and then five at once", join(every(0, 600, 10), burst(605, 5)), nil},
		{"once in 10 s, and then ever faster", join(every(0, 600, 10), burst(605, 40)), []float64{607.4}},
		{"rarely, and then 10 within 2 s", join(every(0, 600, 100), burst(605, 10)), []float64{606.8}},
		{"rarely, and then 9 within 2 s", join(every(0, 600, 100), burst(605, 9)), nil},
		{"one that goes on is reported once", join(every(0, 600, 10), burst(605, 1000)), []float64{607.4}},
		{"bursts of five, each minute", join(burst(60, 5), burst(120, 5), burst(180, 5), burst(240, 5), burst(300, 5), burst(360, 5)), nil},
		{"like the burst before it, soon", join(every(0, 600, 100), burst(600, 20), burst(1200, 20)), []float64{601.8}},
		{"twice the burst before it", join(every(0, 600, 100), burst(600, 20), burst(1200, 45)), []float64{601.8, 1207.8}},
		{"like the burst before it, 3 hours later", join(every(0, 600, 100), burst(600, 20), every(700, 4*hour, 100), burst(4*hour, 20)), []float64{601.8, 4*hour + 3.2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRate(at(0))
			var got []float64
			for _, s := range tt.times {
				if found, ok := r.add(at(s)); ok {
					got = append(got, s)
					if found.Count < minEscalation || found.LogP > maxLogP {
						t.Errorf("finding = %+v, want at least %d errors and a LogP of at most %v", found, minEscalation, maxLogP)
					}
				}
			}
			if len(got) != len(tt.want) {
				t.Fatalf("escalates at %v, want %v", got, tt.want)
			}
			for i, s := range got {
				if d := s - tt.want[i]; d > 0.3 || d < -0.3 {
					t.Errorf("escalates at %v, want %v", got, tt.want)
				}
			}
		})
	}
}

// TestChanceIsNoEscalation checks that errors that come by chance, one by one or up to five
// together, hardly ever escalate in a day.
func TestChanceIsNoEscalation(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 11))
	const days, day = 5, 86400.0
	for _, rate := range []float64{0.001, 0.01, 0.1} {
		for _, together := range []int{1, 5} {
			reported := 0
			for range days {
				r := newRate(at(0))
				for s := 0.0; s < day; s += random.ExpFloat64() * float64(1+together) / 2 / rate {
					for range 1 + random.IntN(together) {
						if _, ok := r.add(at(s)); ok {
							reported++
						}
					}
				}
			}
			if reported > 2 {
				t.Errorf("%v/s, up to %d together: %d escalations in %d days, want at most 2", rate, together, reported, days)
			}
		}
	}
}

// TestRateIsRestored checks that a rate with restarts finds the same escalations.
func TestRateIsRestored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		steady, again := newRate(at(0)), newRate(at(0))
		now := 0.0
		for range rapid.IntRange(1, 40).Draw(t, "bursts") {
			now += rapid.SampledFrom([]float64{-5, 0, 1, 9, 10, 60, 600, 4000}).Draw(t, "gap")
			step := rapid.SampledFrom([]float64{0, 0.1, 0.9, 3}).Draw(t, "step")
			for range rapid.IntRange(1, 40).Draw(t, "errors") {
				now += step
				want, wantOK := steady.add(at(now))
				got, ok := again.add(at(now))
				if got != want || ok != wantOK {
					t.Fatalf("add = %+v, %v after restarts, want %+v, %v", got, ok, want, wantOK)
				}
			}
			if rapid.Bool().Draw(t, "advance") {
				want, wantEnded, wantChanged := steady.advance(at(now))
				got, ended, changed := again.advance(at(now))
				if got != want || ended != wantEnded || changed != wantChanged {
					t.Fatalf("advance = %+v, %v, %v after restarts, want %+v, %v, %v", got, ended, changed, want, wantEnded, wantChanged)
				}
			}
			if rapid.Bool().Draw(t, "restart") {
				data := snapshot.Append(nil, again.state)
				again = &rate{}
				if err := snapshot.Read(data, again.state); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

func BenchmarkRate(b *testing.B) {
	b.ReportAllocs()
	r, now := newRate(at(0)), 0.0
	for b.Loop() {
		now += 0.001
		r.add(at(now))
	}
}
