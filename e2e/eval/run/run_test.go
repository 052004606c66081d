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

// arrivals are equal events at equal distances.
func arrivals(from, to, gap time.Duration, a workload.Arrival) (all []workload.Arrival) {
	for at := from; at < to; at += gap {
		a.At = at
		all = append(all, a)
	}
	return all
}

// TestJudge: the contract's rule tells ten errors at once in an hour in which one
// comes each 20 s, at the fifth of them.
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
		t.Errorf("%+v", got)
	}
	if math.Abs(got[0].Hours-50.0/60) > 1e-9 {
		t.Errorf("watched for %v h", got[0].Hours)
	}
}

// TestJudgeLoads: the contract's rule tells the first load that is 30% slower, and
// again a single one that comes later, when the first finding is over.
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
		t.Errorf("%+v", got)
	}
	if got[0].Loads != 101-30-10 {
		t.Errorf("%d loads", got[0].Loads)
	}
}

// TestHide: a line that is said each second is hidden once it is known, and errors
// never are.
func TestHide(t *testing.T) {
	w := find(t, "noisy 1 lines/s")
	r := w.Run(workload.Tuning, 0)
	got := run.Hide(&r, ruleset.Set{})
	of := 0
	for _, class := range got.Classes() {
		all, learned := got.All[class], got.Learned[class]
		of += all.Of
		if all.Hidden > all.Of || learned.Of > all.Of || learned.Hidden > all.Hidden {
			t.Errorf("%s: %+v, learned %+v", class, all, learned)
		}
	}
	if of != len(r.Arrivals) {
		t.Errorf("%d of %d events are counted", of, len(r.Arrivals))
	}
	if probes := got.Learned[workload.OfProbes]; probes.Share() < 0.99 {
		t.Errorf("health checks: %+v", probes)
	}
	if errors := got.All[workload.OfErrors]; errors.Hidden != 0 || errors.Of == 0 {
		t.Errorf("errors: %+v", errors)
	}
	var sum run.Lines
	sum.Add(got)
	sum.Add(got)
	once, _ := got.Chatter()
	if twice, _ := sum.Chatter(); once.Of == 0 || twice != once.Plus(once) {
		t.Errorf("chatter once %+v, twice %+v", once, twice)
	}
}

// TestErrorsAreNeverHidden: on no seeds, by no rules.
func TestErrorsAreNeverHidden(t *testing.T) {
	for _, name := range []string{"noisy 1 lines/s", "noisy 5 lines/s"} {
		w := find(t, name)
		for seeds := range workload.Seeds(4) {
			r := w.Run(seeds, 0)
			for _, compared := range run.Compared(workload.Lines) {
				lines := run.Hide(&r, compared.Set)
				if errors := lines.All[workload.OfErrors]; errors.Hidden != 0 || errors.Of == 0 {
					t.Errorf("%s, seeds %d, %s: %+v", name, seeds, compared.Name, errors)
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

// TestEvaluateIsTheSame: what is measured follows from the workload and the seeds.
func TestEvaluateIsTheSame(t *testing.T) {
	for _, name := range []string{"bursts 0.1/s", "deploy +30%, cv 0.15", "noisy 1 lines/s"} {
		w := find(t, name)
		first, again := run.Evaluate(w, workload.Tuning), run.Evaluate(w, workload.Tuning)
		for i := range first {
			if !reflect.DeepEqual(first[i].Summary, again[i].Summary) || !reflect.DeepEqual(first[i].Lines, again[i].Lines) {
				t.Errorf("%s: %+v\nthen %+v", name, first[i].Summary, again[i].Summary)
			}
		}
		if len(first) != len(run.Compared(w.Kind)) {
			t.Errorf("%s: by %d rules", name, len(first))
		}
	}
}

// TestContract: on the streams of the tuning seeds the contract's rules do what
// they are known to: they find most bursts on little traffic, but for those that come
// while a false spike is open, and raise many false alerts.
func TestContract(t *testing.T) {
	cell := func(name string) run.Cell { return run.Evaluate(find(t, name), workload.Tuning)[0] }
	if c := cell("bursts 0.1/s"); c.Rules != "ratio3x" || c.Summary.Recall.Value < 0.75 || c.Summary.PerDay.Value < 50 {
		t.Errorf("%s: recall %+v, false %+v a day", c.Rules, c.Summary.Recall, c.Summary.PerDay)
	}
	if c := cell("bursts 2/s"); c.Summary.Recall.Value > 0.3 {
		t.Errorf("2/s: recall %+v", c.Summary.Recall)
	}
	if c := cell("unchanged cv 0.25"); c.Rules != "spec" || c.Summary.Per100.Value < 4 || c.Summary.Total.Episodes != 0 {
		t.Errorf("%s: false %+v in 100 loads", c.Rules, c.Summary.Per100)
	}
}

func TestAsLoads(t *testing.T) {
	values := make([]float64, 100)
	for i := range values {
		values[i] = 0.02 // in no unit of ours
		if i >= 60 {
			values[i] = 0.03
		}
	}
	values[10] = math.NaN()
	if got := run.AsLoads(values, 15, ruleset.Set{}); !reflect.DeepEqual(got, []int{60}) {
		t.Errorf("found at %v", got)
	}
	if got := run.AsLoads(make([]float64, 10), 5, ruleset.Set{}); got != nil {
		t.Errorf("of nothing but 0, at %v", got)
	}
}

func TestAsErrors(t *testing.T) {
	values := make([]float64, 200)
	for i := range values {
		values[i] = 10_000 // far more than errors come
	}
	values[150] = 90_000
	// To the contract's rule the very first errors are a spike, for 15 min.
	if got := run.AsErrors(values, 15, ruleset.Set{}); !reflect.DeepEqual(got, []int{0, 150}) {
		t.Errorf("found at %v", got)
	}
	for _, tt := range []struct {
		values []float64
		want   bool
	}{{[]float64{1, 2, 0, math.NaN()}, true}, {[]float64{0, 0}, false}, {[]float64{1, 0.5}, false}, {[]float64{1, -1}, false}, {nil, false}} {
		if got := run.Counts(tt.values); got != tt.want {
			t.Errorf("%v are counts: %v", tt.values, got)
		}
	}
}

// TestCorpora: a step up, found at once and nothing else, is worth all that there
// is to have.
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
		t.Errorf("%+v", scores)
	}
	if scores[2].As != "errors" || scores[2].Series != 0 { // 2.5 is no count
		t.Errorf("%+v", scores[2])
	}
	points := run.TCPD([]tcpd.Series{{Name: "step", Values: [][]float64{step}, Annotations: [][]int{{60}, {62}}}})
	// Covering: 60/60 and 40/40 of one's segments; of the other's 60/62 of 62 and 38/40 of 38.
	want := (1 + (60+38*38.0/40)/100) / 2
	if points[0].F1 != 1 || math.Abs(points[0].Covering-want) > 1e-12 || points[0].ChangePoints != 1 {
		t.Errorf("%+v, want covering %v", points[0], want)
	}
}

func TestBounds(t *testing.T) {
	last := 0.0
	for _, b := range run.Bounds(workload.Tuning) {
		if b.P95.Value <= last || b.P95.Value < b.P50.Value || b.Recall.Value < 0.9 {
			t.Errorf("%+v, after a p95 of %v", b, last)
		}
		last = b.P95.Value
	}
}
