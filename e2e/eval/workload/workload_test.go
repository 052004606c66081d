package workload_test

import (
	"bytes"
	"flag"
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/e2e/eval/workload"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

var update = flag.Bool("update", false, "write the golden files")

var (
	small = workload.Size{Hours: 60, Pages: 40, Chatter: 1}
	brief = workload.Size{Hours: 20, Pages: 2, Chatter: 2}
)

// named returns a workload of the small size.
func named(t *testing.T, name string) workload.Workload {
	t.Helper()
	for _, w := range workload.All(small) {
		if w.Name() == name {
			return w
		}
	}
	t.Fatalf("no workload %q", name)
	return workload.Workload{}
}

// runs returns all runs of a workload.
func runs(w workload.Workload) (all []workload.Run) {
	for i := range w.Runs {
		all = append(all, w.Run(workload.Tuning, i))
	}
	return all
}

// TestRunsAreSound checks every workload: its events are in order, valid and on whole
// milliseconds, and its episodes lie within the run.
func TestRunsAreSound(t *testing.T) {
	names := map[string]bool{}
	for _, w := range workload.All(small) {
		if names[w.Name()] {
			t.Errorf("got two workloads named %s, want unique names", w.Name())
		}
		names[w.Name()] = true
		r := w.Run(workload.Tuning, 0)
		if len(r.Arrivals) == 0 {
			t.Errorf("%s: got no events, want some", w.Name())
		}
		last := time.Duration(0)
		for i, a := range r.Arrivals {
			if a.At < last || a.At > r.Length || a.At%time.Millisecond != 0 {
				t.Fatalf("%s: event %d is at %v, want it on whole milliseconds from %v to %v", w.Name(), i, a.At, last, r.Length)
			}
			last = a.At
			if err := a.Event.Validate(); err != nil {
				t.Fatalf("%s: %v", w.Name(), err)
			}
		}
		until := time.Duration(0)
		for _, e := range r.Episodes {
			if e.Start < until || e.End <= e.Start || e.Grace < 0 || e.End+e.Grace > r.Length {
				t.Errorf("%s: got episode %+v, want it within %v and %v", w.Name(), e, until, r.Length)
			}
			until = e.End + e.Grace
		}
	}
}

// TestRunsFollowFromSeeds checks that equal seeds and numbers give equal runs, and others give
// others.
func TestRunsFollowFromSeeds(t *testing.T) {
	for _, w := range workload.All(brief) {
		if w.Kind == workload.Lines && w.Cell != "1 lines/s" {
			continue // the other cells differ in their rate only
		}
		first := checksum(w.Run(workload.Frozen, 0))
		if again := checksum(w.Run(workload.Frozen, 0)); again != first {
			t.Errorf("%s: the second run of the same seeds has checksum %x, want %x", w.Name(), again, first)
		}
		if checksum(w.Run(workload.Tuning, 0)) == first || w.Runs > 1 && checksum(w.Run(workload.Frozen, 1)) == first {
			t.Errorf("%s: got the same run for other seeds or another number, want another", w.Name())
		}
	}
}

// TestFrozen pins the streams of the published figures.
func TestFrozen(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("another architecture may round a draw in another way")
	}
	var b bytes.Buffer
	for _, w := range workload.All(workload.Full) {
		fmt.Fprintf(&b, "%016x %s\n", checksum(w.Run(workload.Frozen, 0)), w.Name())
	}
	golden := filepath.Join("testdata", "frozen.golden")
	if *update {
		if err := os.WriteFile(golden, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("the frozen streams have changed, so no figure can be compared with an earlier one (-want +got):\n%s", diff)
	}
}

func checksum(r workload.Run) uint64 {
	h := fnv.New64a()
	var b []byte
	for _, a := range r.Arrivals {
		b = strconv.AppendInt(b[:0], int64(a.At), 10)
		b = append(b, a.Class...)
		switch e := a.Event; {
		case e.Log != nil:
			b = append(append(append(b, e.Log.Level...), e.Log.Message...), e.Log.Source...)
		case e.Vitals != nil:
			b = strconv.AppendFloat(append(b, e.URL...), *e.Vitals.LCP, 'g', -1, 64)
		default:
			b = append(append(b, e.Network.Method...), e.Network.URL...)
		}
		_, _ = h.Write(append(b, '\n')) // it never fails
	}
	fmt.Fprintln(h, r.Length, r.Episodes, r.Learning)
	return h.Sum64()
}

// during counts the arrivals from one time to another, without the latter.
func during(r *workload.Run, from, to time.Duration) (n int) {
	for _, a := range r.Arrivals {
		if a.At >= from && a.At < to {
			n++
		}
	}
	return n
}

// near reports whether a count is within 5 standard deviations of a count with that mean. The
// dispersion is the variance by the mean: 1 for Poisson.
func near(n int, want, dispersion float64) bool {
	d := float64(n) - want
	return d*d <= 25*want*dispersion
}

func TestRates(t *testing.T) {
	for _, tt := range []struct {
		name string
		// rate is the rate outside of episodes, in errors a second.
		rate       float64
		inEpisode  int // errors that each episode adds
		dispersion float64
	}{
		{"steady 0.02/s", 0.02, 0, 1},
		{"steady 2/s", 2, 0, 1},
		{"bursts 0.5/s", 0.5, 30, 1},
		{"clustered 0.5/s", 0.5, 0, 9}, // the mean square of a geometric size over its mean
		{"clustered+bursts 0.1/s", 0.1, 30, 9},
		{"cron 12 each 1 min", 0.1 + 12.0/60, 0, 1},
		{"cron+bursts 60 each 60 min", 0.1 + 60.0/3600, 60, 1},
		{"diurnal 0.1/s to 0.5/s in 24 h", 0.3, 0, 1},
	} {
		n, episodes, seconds := 0, 0, 0.0
		for _, r := range runs(named(t, tt.name)) {
			n += len(r.Arrivals)
			episodes += len(r.Episodes)
			seconds += r.Length.Seconds()
		}
		if !near(n-episodes*tt.inEpisode, tt.rate*seconds, tt.dispersion) {
			t.Errorf("%s: got %d errors in %.0f s with %d episodes, want %g/s outside of episodes", tt.name, n, seconds, episodes, tt.rate)
		}
		if seconds < 60*3600 || (episodes > 0) != (tt.inEpisode > 0) {
			t.Errorf("%s: got %d episodes in %.0f s, want at least 60 h, with episodes: %v", tt.name, episodes, seconds, tt.inEpisode > 0)
		}
	}
}

func TestBurstsAreWhereTheyAreDeclared(t *testing.T) {
	for _, tt := range []struct {
		name   string
		errors int
		rate   float64 // of the usual errors
	}{{"bursts 0.02/s", 30, 0.02}, {"bursts 2/s", 30, 2}, {"silence 1 h, then +30 in 10 s", 30, 0.1}, {"cron+bursts 20 each 5 min", 60, 0.1}} {
		within, episodes := 0, 0
		for _, r := range runs(named(t, tt.name)) {
			last := -time.Hour
			for _, e := range r.Episodes {
				if e.Kind != workload.Burst || e.Start < 20*time.Minute || e.Start-last < 14*time.Minute {
					t.Errorf("%s: got %s at %v, want a burst after 20 min, and 14 min after the one at %v", tt.name, e.Kind, e.Start, last)
				}
				last = e.Start
				within += during(&r, e.Start, e.Start+10*time.Second)
				episodes++
			}
		}
		usual := 10 * tt.rate * float64(episodes)
		if episodes < 20 || !near(within-tt.errors*episodes, usual, 1) {
			t.Errorf("%s: got %d errors in %d bursts, want at least 20 bursts of %d and the usual errors", tt.name, within, episodes, tt.errors)
		}
	}
}

// TestCronRecurs checks that twelve errors a minute occur within a few seconds of the same
// second, and that the bursts that are episodes do not.
func TestCronRecurs(t *testing.T) {
	r := named(t, "cron+bursts 12 each 1 min").Run(workload.Tuning, 0)
	if len(r.Learning) != 3 {
		t.Fatalf("Learning = %v, want 3 stretches", r.Learning)
	}
	due := r.Learning[0].From + time.Second
	on, off := 0, 0
	for _, a := range r.Arrivals {
		if phase := (a.At - due + time.Second + time.Minute) % time.Minute; phase < 5*time.Second {
			on++
		} else {
			off++
		}
	}
	minutes := r.Length.Minutes()
	if !near(on, minutes*(12+0.5), 1) || !near(off-60*len(r.Episodes), minutes*5.5, 1) {
		t.Errorf("in %.0f minutes with %d bursts: got %d errors on schedule and %d off, want 12.5 and 5.5 a minute, and 60 a burst", minutes, len(r.Episodes), on, off)
	}
	for _, e := range r.Episodes {
		if phase := (e.Start - due) % time.Minute; phase < 15*time.Second || phase > 35*time.Second {
			t.Errorf("got a burst %v after the schedule, want 15 to 35 s", phase)
		}
	}
}

func TestDrift(t *testing.T) {
	before, early, late, after, episodes := 0, 0, 0, 0, 0
	for _, r := range runs(named(t, "drift 0.2/s to 0.6/s in 1 h")) {
		for _, e := range r.Episodes {
			if e.End-e.Start != 2*time.Hour {
				t.Errorf("a drift has to be found within %v, want 2 h", e.End-e.Start)
			}
			before += during(&r, e.Start-time.Hour, e.Start)
			early += during(&r, e.Start, e.Start+30*time.Minute)
			late += during(&r, e.Start+30*time.Minute, e.Start+time.Hour)
			after += during(&r, e.Start+time.Hour, e.Start+3*time.Hour)
			episodes++
		}
	}
	n := float64(episodes)
	if episodes < 20 || !near(before, n*3600*0.2, 1) || !near(early, n*1800*0.3, 1) || !near(late, n*1800*0.5, 1) || !near(after, n*7200*0.6, 1) {
		t.Errorf("%d drifts: got %d, %d, %d and %d errors, want rates of 0.2, 0.3, 0.5 and 0.6/s in at least 20 drifts", episodes, before, early, late, after)
	}
}

func TestSilence(t *testing.T) {
	for _, name := range []string{"silence 1 h, then +30 in 10 s", "silence 1 h, then as before"} {
		gone := 0
		for _, r := range runs(named(t, name)) {
			last := time.Duration(0)
			for _, a := range r.Arrivals {
				if a.At-last > 59*time.Minute {
					gone++
				}
				last = a.At
			}
		}
		if gone < 20 {
			t.Errorf("%s: got %d hours without an error, want at least 20", name, gone)
		}
	}
}

// TestLoads checks how slow pages are, how much they vary and how they change.
func TestLoads(t *testing.T) {
	for _, tt := range []struct {
		name            string
		cv, slower      float64
		atLeast, atMost int
	}{
		{"unchanged cv 0.1", 0.1, 0, 150, 150},
		{"unchanged cv 0.4", 0.4, 0, 150, 150},
		{"deploy +10%, cv 0.15", 0.15, 0.1, 90, 130},
		{"deploy +50%, cv 0.25", 0.25, 0.5, 90, 130},
	} {
		var cvs, slower []float64
		for _, r := range runs(named(t, tt.name)) {
			if n := len(r.Arrivals); n < tt.atLeast || n > tt.atMost {
				t.Errorf("%s: got %d loads, want %d to %d", tt.name, n, tt.atLeast, tt.atMost)
			}
			deploy := r.Length + 1
			for _, e := range r.Episodes {
				deploy = e.Start
				if inTime, late := during(&r, e.Start, e.End+1), during(&r, e.Start, e.End+e.Grace+1); inTime != 10 || late != 20 {
					t.Errorf("%s: in time within %d loads and late within %d, want 10 and 20", tt.name, inTime, late)
				}
			}
			before, after := values(&r, 0, deploy), values(&r, deploy, r.Length+1)
			if (len(after) == 30) != (tt.slower > 0) || len(before) < 60 {
				t.Errorf("%s: got %d loads before and %d after, want at least 60, and 30 after a deploy", tt.name, len(before), len(after))
			}
			mean, deviation := moments(before)
			cvs = append(cvs, deviation/mean)
			if len(after) > 0 {
				slower = append(slower, median(after)/median(before)-1)
			}
			if m := median(before); m < 700 || m > 3500 {
				t.Errorf("%s: got a median of %.0f ms, want 700 to 3500", tt.name, m)
			}
		}
		if cv := median(cvs); cv < 0.9*tt.cv || cv > 1.1*tt.cv {
			t.Errorf("%s: got cv %.3f, want %.3f", tt.name, cv, tt.cv)
		}
		if len(slower) > 0 && (median(slower) < tt.slower-0.05 || median(slower) > tt.slower+0.05) {
			t.Errorf("%s: slower by %.2f, want %.2f", tt.name, median(slower), tt.slower)
		}
	}
}

// TestCorrelation checks that neighbouring loads are correlated only in workloads that declare
// it.
func TestCorrelation(t *testing.T) {
	for name, want := range map[string]float64{"unchanged cv 0.15": 0, "correlated cv 0.15": 0.7, "correlated cv 0.4": 0.7} {
		var together []float64
		for _, r := range runs(named(t, name)) {
			logs := values(&r, 0, r.Length+1)
			for i := range logs {
				logs[i] = math.Log(logs[i])
			}
			mean, deviation := moments(logs)
			sum := 0.0
			for i := range logs[1:] {
				sum += (logs[i] - mean) * (logs[i+1] - mean)
			}
			together = append(together, sum/float64(len(logs)-1)/deviation/deviation)
		}
		if got := median(together); math.Abs(got-want) > 0.1 {
			t.Errorf("%s: got an autocorrelation of %.2f, want %.2f", name, got, want)
		}
	}
}

func TestCached(t *testing.T) {
	slow, all := 0, 0
	for _, r := range runs(named(t, "cached cv 0.1, 30% x3")) {
		loads := values(&r, 0, r.Length+1)
		usual := median(loads)
		for _, v := range loads {
			if v > 2*usual {
				slow++
			}
		}
		all += len(loads)
	}
	if share := float64(slow) / float64(all); share < 0.25 || share > 0.35 {
		t.Errorf("got a share of %.3f slow loads, want 0.3", share)
	}
}

func TestOutliersAreSingle(t *testing.T) {
	out, loads := 0, 0
	for _, r := range runs(named(t, "outliers cv 0.1")) {
		all := values(&r, 0, r.Length+1)
		m := median(all)
		for _, v := range all {
			loads++
			if v > 2*m {
				out++
			}
		}
	}
	if !near(out, float64(loads)/50, 1) {
		t.Errorf("got %d outliers in %d loads, want 1 in 50", out, loads)
	}
}

// TestDevices checks that loads on phones take twice as long as others.
func TestDevices(t *testing.T) {
	var ratios []float64
	phones, loads := 0, 0
	for _, r := range runs(named(t, "devices cv 0.1, phones x2")) {
		var slow, fast []float64
		for _, a := range r.Arrivals {
			switch a.Event.Vitals.Device {
			case telemetry.DeviceMobile:
				slow = append(slow, *a.Event.Vitals.LCP)
			case telemetry.DeviceDesktop:
				fast = append(fast, *a.Event.Vitals.LCP)
			default:
				t.Fatalf("got a load on %q, want mobile or desktop", a.Event.Vitals.Device)
			}
		}
		phones, loads = phones+len(slow), loads+len(r.Arrivals)
		ratios = append(ratios, median(slow)/median(fast))
	}
	if !near(phones, 0.3*float64(loads), 1) || math.Abs(median(ratios)-2) > 0.1 {
		t.Errorf("got %d of %d loads on phones, which take %.2f times as long, want 30%% and 2 times", phones, loads, median(ratios))
	}
}

func values(r *workload.Run, from, to time.Duration) (all []float64) {
	for _, a := range r.Arrivals {
		if a.At >= from && a.At < to {
			all = append(all, *a.Event.Vitals.LCP)
		}
	}
	return all
}

func median(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

func moments(all []float64) (mean, deviation float64) {
	for _, v := range all {
		mean += v / float64(len(all))
	}
	for _, v := range all {
		deviation += (v - mean) * (v - mean) / float64(len(all))
	}
	return mean, math.Sqrt(deviation)
}

// TestLines checks that lines that must not be hidden have level error and are not from a
// tool, and that chatter is below level error.
func TestLines(t *testing.T) {
	for _, w := range workload.All(small) {
		if w.Kind != workload.Lines {
			continue
		}
		r := w.Run(workload.Tuning, 0)
		lines, shapes := 0, map[string]bool{}
		counts := map[workload.Class]int{}
		for _, a := range r.Arrivals {
			counts[a.Class]++
			log := a.Event.Log
			switch {
			case a.Class.Chatter():
				lines++
				shapes[a.Class.Shape()] = true
				if log.Level == telemetry.LevelError {
					t.Errorf("got chatter of level error, want it below: %s", log.Message)
				}
			case a.Class == workload.OfErrors:
				if log.Level != telemetry.LevelError || strings.Contains(log.Message+log.Source, "extension") {
					t.Errorf("got %s, want an error of the app: %s", log.Level, log.Message)
				}
			case a.Class == workload.OfRare:
				if log.Level == telemetry.LevelError {
					t.Errorf("got a rare line of level error, want it below: %s", log.Message)
				}
			}
		}
		var rate float64
		if _, err := fmt.Sscanf(w.Cell, "%g lines/s", &rate); err != nil || !near(lines, rate*r.Length.Seconds(), 1) {
			t.Errorf("%s: got %d lines of chatter in %v, want %g a second (%v)", w.Name(), lines, r.Length, rate, err)
		}
		if len(shapes) < 6 {
			t.Errorf("%s: got chatter in %d shapes, want at least 6", w.Name(), len(shapes))
		}
		for _, c := range []workload.Class{workload.OfErrors, workload.OfRare, workload.OfTools, workload.OfProbes} {
			if counts[c] == 0 {
				t.Errorf("%s: got no events of class %s, want some", w.Name(), c)
			}
		}
	}
}
