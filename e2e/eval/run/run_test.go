package run_test

import (
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/eval/nab"
	"github.com/tocsin-bus/tocsin/e2e/eval/run"
	"github.com/tocsin-bus/tocsin/e2e/eval/tcpd"
	"github.com/tocsin-bus/tocsin/e2e/eval/workload"
	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
)

// arrivals returns equal events at equal distances.
func arrivals(from, to, gap time.Duration, a workload.Arrival) (all []workload.Arrival) {
	for at := from; at < to; at += gap {
		a.At = at
		all = append(all, a)
	}
	return all
}

// TestJudge checks that ratio3x finds ten errors at the fifth of them, in an hour with one
// error each 20 s.
func TestJudge(t *testing.T) {
	failure := workload.Arrival{Event: workload.Failure()}
	r := workload.Run{
		Length: time.Hour,
		Arrivals: slices.Concat(
			arrivals(0, 30*time.Minute, 20*time.Second, failure),
			arrivals(30*time.Minute, 30*time.Minute+10*time.Second, time.Second, failure),
			arrivals(31*time.Minute, time.Hour, 20*time.Second, failure),
		),
		Episodes: []workload.Episode{{Kind: workload.Burst, Start: 30 * time.Minute, End: 30*time.Minute + 20*time.Second}},
	}
	got, _ := run.Judge(&workload.Workload{Kind: workload.Errors}, &r, ruleset.Set{})
	if len(got) != 1 || got[0].Found != 1 || got[0].Right != 1 || got[0].False != 0 || !reflect.DeepEqual(got[0].Delays, []float64{4}) {
		t.Fatalf("Judge = %+v, want one tally with Found 1, Right 1, False 0 and Delays [4]", got)
	}
	if math.Abs(got[0].Hours-50.0/60) > 1e-9 {
		t.Errorf("Hours = %v, want %v", got[0].Hours, 50.0/60)
	}
}

// TestJudgeLoads checks that the rule spec finds the first load that is 30% slower, and
// again a single one after the first finding has ended.
func TestJudgeLoads(t *testing.T) {
	usual, slow := workload.Arrival{Event: workload.Load(1000)}, workload.Arrival{Event: workload.Load(1300)}
	const gap = 20 * time.Second
	r := workload.Run{
		Length: 101 * gap,
		Arrivals: slices.Concat(
			arrivals(0, 60*gap, gap, usual), arrivals(60*gap, 70*gap, gap, slow),
			arrivals(70*gap, 90*gap, gap, usual), arrivals(90*gap, 91*gap, gap, slow), arrivals(91*gap, 101*gap, gap, usual),
		),
		Episodes: []workload.Episode{{Kind: workload.Deploy, Start: 60 * gap, End: 69 * gap}},
	}
	got, _ := run.Judge(&workload.Workload{Kind: workload.Loads}, &r, ruleset.Set{})
	if len(got) != 1 || got[0].Found != 1 || got[0].Right != 1 || got[0].False != 1 || !reflect.DeepEqual(got[0].Delays, []float64{1}) {
		t.Fatalf("Judge = %+v, want one tally with Found 1, Right 1, False 1 and Delays [1]", got)
	}
	if want := 101 - 30 - 10; got[0].Loads != want {
		t.Errorf("Loads = %d, want %d", got[0].Loads, want)
	}
}

// TestHide checks that a line that is logged each second is hidden once it is known, and
// that errors never are.
func TestHide(t *testing.T) {
	w := find(t, "noisy 1 lines/s")
	r := w.Run(workload.Tuning, 0)
	got := run.Hide(&r, ruleset.Set{})
	counted := 0
	for _, class := range got.Classes() {
		all, learned := got.All[class], got.Learned[class]
		counted += all.Of
		if all.Hidden > all.Of || learned.Of > all.Of || learned.Hidden > all.Hidden {
			t.Errorf("%s: all %+v, learned %+v; want no more hidden than counted, and no more learned than all", class, all, learned)
		}
	}
	if counted != len(r.Arrivals) {
		t.Errorf("got %d events, want %d", counted, len(r.Arrivals))
	}
	if probes := got.Learned[workload.OfProbes]; probes.Share() < 0.99 {
		t.Errorf("hidden health checks: got %+v, want at least 99%%", probes)
	}
	if errors := got.All[workload.OfErrors]; errors.Hidden != 0 || errors.Of == 0 {
		t.Errorf("hidden errors: got %+v, want none of some", errors)
	}
	var sum run.Lines
	sum.Add(got)
	sum.Add(got)
	once, _ := got.Chatter()
	if twice, _ := sum.Chatter(); once.Of == 0 || twice != once.Plus(once) {
		t.Errorf("chatter of two equal runs = %+v, want twice %+v", twice, once)
	}
}

// TestErrorsAreNeverHidden checks several seeds and all noise rules.
func TestErrorsAreNeverHidden(t *testing.T) {
	for _, name := range []string{"noisy 1 lines/s", "noisy 5 lines/s"} {
		w := find(t, name)
		for seeds := range workload.Seeds(4) {
			r := w.Run(seeds, 0)
			for _, compared := range run.Compared(workload.Lines) {
				lines := run.Hide(&r, compared.Set)
				if errors := lines.All[workload.OfErrors]; errors.Hidden != 0 || errors.Of == 0 {
					t.Errorf("%s, seeds %d, %s: hidden errors: got %+v, want none of some", name, seeds, compared.Name, errors)
				}
			}
		}
	}
}

var small = workload.Size{Hours: 20, Pages: 20, Chatter: 1}

func find(t *testing.T, name string) workload.Workload {
	t.Helper()
	for _, w := range workload.All(small) {
		if w.Name() == name {
			return w
		}
	}
	t.Fatalf("no workload %q", name)
	return workload.Workload{}
}

// TestEvaluateIsTheSame checks that the results follow from the workload and the seeds.
func TestEvaluateIsTheSame(t *testing.T) {
	for _, name := range []string{"bursts 0.1/s", "deploy +30%, cv 0.15", "noisy 1 lines/s"} {
		w := find(t, name)
		first, again := run.Evaluate(w, workload.Tuning), run.Evaluate(w, workload.Tuning)
		for i := range first {
			if !reflect.DeepEqual(first[i].Summary, again[i].Summary) || !reflect.DeepEqual(first[i].Lines, again[i].Lines) {
				t.Errorf("%s: got %+v\nand then %+v, want the same", name, first[i].Summary, again[i].Summary)
			}
		}
		if len(first) != len(run.Compared(w.Kind)) {
			t.Errorf("%s: got %d cells, want %d", name, len(first), len(run.Compared(w.Kind)))
		}
	}
}

// TestSimpleRules checks known properties of the simple rules: on little traffic they find
// most bursts, except during an open false spike, and they raise many false alerts.
func TestSimpleRules(t *testing.T) {
	cell := func(name string) run.Cell { return run.Evaluate(find(t, name), workload.Tuning)[0] }
	if c := cell("bursts 0.1/s"); c.Rules != "ratio3x" || c.Summary.Recall.Value < 0.75 || c.Summary.PerDay.Value < 50 {
		t.Errorf("%s, bursts 0.1/s: recall %+v and %+v false a day, want ratio3x, at least 0.75 and at least 50", c.Rules, c.Summary.Recall, c.Summary.PerDay)
	}
	if c := cell("bursts 2/s"); c.Summary.Recall.Value > 0.3 {
		t.Errorf("bursts 2/s: recall %+v, want at most 0.3", c.Summary.Recall)
	}
	if c := cell("unchanged cv 0.25"); c.Rules != "spec" || c.Summary.Per100.Value < 4 || c.Summary.Total.Episodes != 0 {
		t.Errorf("%s, unchanged: %+v false in 100 loads and %d episodes, want spec, at least 4 and 0", c.Rules, c.Summary.Per100, c.Summary.Total.Episodes)
	}
}

func TestAsLoads(t *testing.T) {
	values := make([]float64, 100)
	for i := range values {
		values[i] = 0.02 // in an unknown unit
		if i >= 60 {
			values[i] = 0.03
		}
	}
	values[10] = math.NaN()
	if got := run.AsLoads(values, 15, ruleset.Set{}); !reflect.DeepEqual(got, []int{60}) {
		t.Errorf("AsLoads = %v, want [60]", got)
	}
	if got := run.AsLoads(make([]float64, 10), 5, ruleset.Set{}); got != nil {
		t.Errorf("AsLoads of zeros = %v, want none", got)
	}
}

func TestAsErrors(t *testing.T) {
	values := make([]float64, 200)
	for i := range values {
		values[i] = 10_000 // far more than usual errors
	}
	values[150] = 90_000
	// For ratio3x the very first errors are a spike, for 15 min.
	if got := run.AsErrors(values, 15, ruleset.Set{}); !reflect.DeepEqual(got, []int{0, 150}) {
		t.Errorf("AsErrors = %v, want [0 150]", got)
	}
	for _, tt := range []struct {
		values []float64
		want   bool
	}{{[]float64{1, 2, 0, math.NaN()}, true}, {[]float64{0, 0}, false}, {[]float64{1, 0.5}, false}, {[]float64{1, -1}, false}, {nil, false}} {
		if got := run.Counts(tt.values); got != tt.want {
			t.Errorf("Counts(%v) = %v, want %v", tt.values, got, tt.want)
		}
	}
}

// TestCorpora checks that a step that is found at once, and nothing else, has the maximum
// score.
func TestCorpora(t *testing.T) {
	step := make([]float64, 100)
	for i := range step {
		step[i] = 2.5
		if i >= 60 {
			step[i] = 5
		}
	}
	scores := run.NAB([]nab.Series{{Name: "step", Values: step, Windows: []nab.Window{{First: 60, Last: 69}}}})
	if len(scores) != 4 || scores[0].As != "page loads" || scores[0].Rules != "spec" || scores[0].Detections != 1 || scores[0].Series != 1 ||
		!reflect.DeepEqual(scores[0].Scores, []float64{100, 100, 100}) {
		t.Fatalf("NAB = %+v, want 4 scores, the first of spec on page loads with 1 detection and 100 in all profiles", scores)
	}
	if scores[2].As != "errors" || scores[2].Series != 0 { // 2.5 is no count
		t.Errorf("NAB of values that are no counts, as errors = %+v, want 0 series", scores[2])
	}
	points := run.TCPD([]tcpd.Series{{Name: "step", Values: [][]float64{step}, Annotations: [][]int{{60}, {62}}}})
	// Covering: of the first person's segments 60/60 and 40/40; of the second's 60/62 of 62
	// and 38/40 of 38.
	want := (1 + (60+38*38.0/40)/100) / 2
	if points[0].F1 != 1 || math.Abs(points[0].Covering-want) > 1e-12 || points[0].ChangePoints != 1 {
		t.Errorf("TCPD = %+v, want F1 1, Covering %v and 1 change point", points[0], want)
	}
}

func TestBounds(t *testing.T) {
	last := 0.0
	for _, b := range run.Bounds(workload.Tuning) {
		if b.P95.Value <= last || b.P95.Value < b.P50.Value || b.Recall.Value < 0.9 {
			t.Errorf("bound %+v, want P95 over %v and P50, and Recall of at least 0.9", b, last)
		}
		last = b.P95.Value
	}
}
