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

	"github.com/tocsin-bus/tocsin/e2e/eval/workload"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

var update = flag.Bool("update", false, "write the golden files")

var (
	small = workload.Size{Hours: 60, Pages: 40, Chatter: 1}
	brief = workload.Size{Hours: 20, Pages: 2, Chatter: 2}
)

// named is a workload of the small size.
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

// runs are all runs of a workload.
func runs(w workload.Workload) (all []workload.Run) {
	for i := range w.Runs {
		all = append(all, w.Run(workload.Tuning, i))
	}
	return all
}

// TestRunsAreSound holds for every workload: what goes to the detector is in
// order, valid and on whole milliseconds, and the truth lies within the run.
func TestRunsAreSound(t *testing.T) {
	names := map[string]bool{}
	for _, w := range workload.All(small) {
		if names[w.Name()] {
			t.Errorf("two workloads are called %s", w.Name())
		}
		names[w.Name()] = true
		r := w.Run(workload.Tuning, 0)
		if len(r.Arrivals) == 0 {
			t.Errorf("%s: nothing comes", w.Name())
		}
		last := time.Duration(0)
		for i, a := range r.Arrivals {
			if a.At < last || a.At > r.Length || a.At%time.Millisecond != 0 {
				t.Fatalf("%s: event %d comes at %v, after %v, of %v", w.Name(), i, a.At, last, r.Length)
			}
			last = a.At
			if err := a.Event.Validate(); err != nil {
				t.Fatalf("%s: %v", w.Name(), err)
			}
		}
		until := time.Duration(0)
		for _, e := range r.Episodes {
			if e.Start < until || e.End <= e.Start || e.Grace < 0 || e.End+e.Grace > r.Length {
				t.Errorf("%s: episode %+v, the one before ended at %v, the run at %v", w.Name(), e, until, r.Length)
			}
			until = e.End + e.Grace
		}
	}
}

// TestRunsFollowFromSeeds: the same run is the same, and every other is another.
func TestRunsFollowFromSeeds(t *testing.T) {
	for _, w := range workload.All(brief) {
		if w.Kind == workload.Lines && w.Cell != "1 lines/s" {
			continue // more of the same
		}
		first := checksum(w.Run(workload.Frozen, 0))
		if again := checksum(w.Run(workload.Frozen, 0)); again != first {
			t.Errorf("%s: the second time it is another", w.Name())
		}
		if checksum(w.Run(workload.Tuning, 0)) == first || w.Runs > 1 && checksum(w.Run(workload.Frozen, 1)) == first {
			t.Errorf("%s: other seeds, the same run", w.Name())
		}
	}
}

// TestFrozen pins the streams that figures are reported of.
func TestFrozen(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("others may round a draw elsewhere")
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
	if b.String() != string(want) {
		t.Errorf("the frozen streams have changed, so that no figure can be set beside an earlier one:\n%s\nwant\n%s", b.String(), want)
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

// during counts the arrivals from one time until before another.
func during(r *workload.Run, from, to time.Duration) (n int) {
	for _, a := range r.Arrivals {
		if a.At >= from && a.At < to {
			n++
		}
	}
	return n
}

// near reports whether a count is within 5 standard deviations of a Poisson count,
// or as many times that as the counts are over-dispersed.
func near(n int, want, dispersion float64) bool {
	d := float64(n) - want
	return d*d <= 25*want*dispersion
}

func TestRates(t *testing.T) {
	for _, tt := range []struct {
		name string
		// rate is that of what belongs to no episode, in errors a second.
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
			t.Errorf("%s: %d errors in %.0f s, of which %d episodes; want %g/s", tt.name, n, seconds, episodes, tt.rate)
		}
		if seconds < 60*3600 || (episodes > 0) != (tt.inEpisode > 0) {
			t.Errorf("%s: %d episodes in %.0f s", tt.name, episodes, seconds)
		}
	}
}

func TestBurstsAreWhereTheyAreDeclared(t *testing.T) {
	for _, tt := range []struct {
		name   string
		errors int
		rate   float64 // of what continues beside them
	}{{"bursts 0.02/s", 30, 0.02}, {"bursts 2/s", 30, 2}, {"silence 1 h, then +30 in 10 s", 30, 0.1}, {"cron+bursts 20 each 5 min", 60, 0.1}} {
		within, episodes := 0, 0
		for _, r := range runs(named(t, tt.name)) {
			last := -time.Hour
			for _, e := range r.Episodes {
				if e.Kind != workload.Burst || e.Start < 20*time.Minute || e.Start-last < 14*time.Minute {
					t.Errorf("%s: %s at %v, the one before at %v", tt.name, e.Kind, e.Start, last)
				}
				last = e.Start
				within += during(&r, e.Start, e.Start+10*time.Second)
				episodes++
			}
		}
		usual := 10 * tt.rate * float64(episodes)
		if episodes < 20 || !near(within-tt.errors*episodes, usual, 1) {
			t.Errorf("%s: %d errors in %d bursts", tt.name, within, episodes)
		}
	}
}

// TestCronRecurs: twelve errors a minute come within a few seconds of the same
// second, and the bursts that count don't.
func TestCronRecurs(t *testing.T) {
	r := named(t, "cron+bursts 12 each 1 min").Run(workload.Tuning, 0)
	if len(r.Learning) != 3 {
		t.Fatalf("learned from %v", r.Learning)
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
		t.Errorf("in %.0f minutes with %d bursts %d errors on schedule, %d off", minutes, len(r.Episodes), on, off)
	}
	for _, e := range r.Episodes {
		if phase := (e.Start - due) % time.Minute; phase < 15*time.Second || phase > 35*time.Second {
			t.Errorf("a burst %v after the schedule's", phase)
		}
	}
}

func TestDrift(t *testing.T) {
	before, early, late, after, episodes := 0, 0, 0, 0, 0
	for _, r := range runs(named(t, "drift 0.2/s to 0.6/s in 1 h")) {
		for _, e := range r.Episodes {
			if e.End-e.Start != 2*time.Hour {
				t.Errorf("a drift has to be found within %v", e.End-e.Start)
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
		t.Errorf("%d drifts: %d, %d, %d, %d errors", episodes, before, early, late, after)
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
			t.Errorf("%s: %d hours without an error", name, gone)
		}
	}
}

// TestLoads: pages are as slow, vary as much and change as declared.
func TestLoads(t *testing.T) {
	for _, tt := range []struct {
		name           string
		cv, slower     float64
		least, longest int
	}{
		{"unchanged cv 0.1", 0.1, 0, 150, 150},
		{"unchanged cv 0.4", 0.4, 0, 150, 150},
		{"deploy +10%, cv 0.15", 0.15, 0.1, 90, 130},
		{"deploy +50%, cv 0.25", 0.25, 0.5, 90, 130},
	} {
		var cvs, slower []float64
		for _, r := range runs(named(t, tt.name)) {
			if n := len(r.Arrivals); n < tt.least || n > tt.longest {
				t.Errorf("%s: %d loads", tt.name, n)
			}
			deploy := r.Length + 1
			for _, e := range r.Episodes {
				deploy = e.Start
				if inTime, late := during(&r, e.Start, e.End+1), during(&r, e.Start, e.End+e.Grace+1); inTime != 10 || late != 20 {
					t.Errorf("%s: in time within %d loads, late within %d", tt.name, inTime, late)
				}
			}
			before, after := values(&r, 0, deploy), values(&r, deploy, r.Length+1)
			if (len(after) == 30) != (tt.slower > 0) || len(before) < 60 {
				t.Errorf("%s: %d loads before, %d after", tt.name, len(before), len(after))
			}
			mean, deviation := moments(before)
			cvs = append(cvs, deviation/mean)
			if len(after) > 0 {
				slower = append(slower, median(after)/median(before)-1)
			}
			if m := median(before); m < 700 || m > 3500 {
				t.Errorf("%s: a page of %.0f ms", tt.name, m)
			}
		}
		if cv := median(cvs); cv < 0.9*tt.cv || cv > 1.1*tt.cv {
			t.Errorf("%s: cv %.3f", tt.name, cv)
		}
		if len(slower) > 0 && (median(slower) < tt.slower-0.05 || median(slower) > tt.slower+0.05) {
			t.Errorf("%s: slower by %.2f", tt.name, median(slower))
		}
	}
}

// TestLoadsHangTogether: only where they are said to, and as much.
func TestLoadsHangTogether(t *testing.T) {
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
			t.Errorf("%s: an autocorrelation of %.2f, want %.2f", name, got, want)
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
		t.Errorf("%.3f of the loads are slow", share)
	}
}

func TestOutliersAreSingle(t *testing.T) {
	out, of := 0, 0
	for _, r := range runs(named(t, "outliers cv 0.1")) {
		all := values(&r, 0, r.Length+1)
		m := median(all)
		for _, v := range all {
			of++
			if v > 2*m {
				out++
			}
		}
	}
	if !near(out, float64(of)/50, 1) {
		t.Errorf("%d of %d loads", out, of)
	}
}

// TestDevices: loads on phones take twice as long as the others.
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
				t.Fatalf("a load on %q", a.Event.Vitals.Device)
			}
		}
		phones, loads = phones+len(slow), loads+len(r.Arrivals)
		ratios = append(ratios, median(slow)/median(fast))
	}
	if !near(phones, 0.3*float64(loads), 1) || math.Abs(median(ratios)-2) > 0.1 {
		t.Errorf("%d of %d loads on phones, which take %.2f times as long", phones, loads, median(ratios))
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

// TestLines: what must not be hidden is of level error and not from a tool, and
// the chatter is below it.
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
					t.Errorf("chatter of level error: %s", log.Message)
				}
			case a.Class == workload.OfErrors:
				if log.Level != telemetry.LevelError || strings.Contains(log.Message+log.Source, "extension") {
					t.Errorf("%s is no error of the app: %s", log.Level, log.Message)
				}
			case a.Class == workload.OfRare:
				if log.Level == telemetry.LevelError {
					t.Errorf("rare, of level error: %s", log.Message)
				}
			}
		}
		var rate float64
		if _, err := fmt.Sscanf(w.Cell, "%g lines/s", &rate); err != nil || !near(lines, rate*r.Length.Seconds(), 1) {
			t.Errorf("%s: %d lines of chatter, %v", w.Name(), lines, err)
		}
		if len(shapes) < 6 {
			t.Errorf("%s: chatter in %d shapes only", w.Name(), len(shapes))
		}
		for _, c := range []workload.Class{workload.OfErrors, workload.OfRare, workload.OfTools, workload.OfProbes} {
			if counts[c] == 0 {
				t.Errorf("%s: no %s", w.Name(), c)
			}
		}
	}
}
