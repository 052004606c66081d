package score_test

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/e2e/eval/score"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

var start = time.UnixMilli(1_770_000_000_000).UTC()

// said is an alert at a number of minutes.
func said(minutes float64, id, key string) alert.Alert {
	return alert.Alert{
		ID: id, DedupKey: key, Category: alert.Regression, Severity: alert.Warning,
		Timestamp: start.Add(at(minutes)),
	}
}

func at(minutes float64) time.Duration { return time.Duration(minutes * float64(time.Minute)) }

func over(minutes float64, id, key, resolves string, also ...string) alert.Alert {
	a := said(minutes, id, key)
	a.Severity, a.Resolves, a.AlsoResolves = alert.Info, resolves, also
	return a
}

func sure(a alert.Alert, confidence string) alert.Alert {
	a.Context = map[string]any{"confidence": confidence}
	return a
}

func revises(a alert.Alert, id string) alert.Alert {
	a.Revises = id
	return a
}

func TestFindings(t *testing.T) {
	one := func(minutes ...float64) (found score.Finding) {
		for _, m := range minutes {
			found.Alerts = append(found.Alerts, score.Report{At: at(m)})
		}
		return found
	}
	until := func(minutes float64, found score.Finding) score.Finding {
		found.Over, found.Ended = at(minutes), true
		return found
	}
	for _, tt := range []struct {
		name   string
		alerts []alert.Alert
		want   []score.Finding
	}{
		{"none", nil, nil},
		{"repeated while open", []alert.Alert{said(1, "a", "k"), said(2, "b", "k")}, []score.Finding{one(1, 2)}},
		{"other keys are other findings", []alert.Alert{said(1, "a", "k"), said(2, "b", "l")}, []score.Finding{one(1), one(2)}},
		{"over and found again", []alert.Alert{said(1, "a", "k"), over(2, "b", "k", "a"), said(3, "c", "k")}, []score.Finding{until(2, one(1)), one(3)}},
		{
			"over by the newest alert of several",
			[]alert.Alert{said(1, "a", "k"), said(2, "b", "k"), over(3, "c", "k", "b"), said(4, "d", "k")},
			[]score.Finding{until(3, one(1, 2)), one(4)},
		},
		{
			"one end of two findings",
			[]alert.Alert{said(1, "a", "k"), said(2, "b", "l"), over(3, "c", "m", "a", "b"), said(4, "d", "k"), said(5, "e", "l")},
			[]score.Finding{until(3, one(1)), until(3, one(2)), one(4), one(5)},
		},
		{"the end of something else", []alert.Alert{said(1, "a", "k"), over(2, "b", "k", "x"), said(3, "c", "k")}, []score.Finding{one(1, 3)}},
		{"a revision under another key", []alert.Alert{said(1, "a", "k"), revises(said(2, "b", "l"), "a")}, []score.Finding{one(1, 2)}},
		{"a revision of what is over", []alert.Alert{said(1, "a", "k"), over(2, "b", "k", "a"), revises(said(3, "c", "k"), "a")}, []score.Finding{until(2, one(1))}},
		{
			"confidences",
			[]alert.Alert{sure(said(1, "a", "k"), "single"), sure(said(2, "b", "k"), "confirmed"), sure(said(3, "c", "l"), "probable"), sure(said(4, "d", "l"), "certain")},
			[]score.Finding{
				{Alerts: []score.Report{{At: at(1), Confidence: score.Single}, {At: at(2), Confidence: score.Confirmed}}},
				{Alerts: []score.Report{{At: at(3), Confidence: score.Probable}, {At: at(4)}}},
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, notes := score.Findings(tt.alerts, start); !reflect.DeepEqual(got, tt.want) || notes != nil {
				t.Errorf("%+v and %v\nwant %+v", got, notes, tt.want)
			}
		})
	}
}

// TestTellRaisedNotes: a note becomes a finding when it is raised, unless it is over.
func TestTellRaisedNotes(t *testing.T) {
	note, raised := said(1, "a", "k"), revises(said(3, "c", "k"), "a")
	note.Severity = alert.Info
	if found, _ := score.Findings([]alert.Alert{note, raised, over(4, "d", "k", "a")}, start); len(found) != 1 || found[0].Opened() != at(3) || found[0].Over != at(4) {
		t.Errorf("a note that is raised: got %+v, want one finding from 3 to 4 min", found)
	}
	if found, _ := score.Findings([]alert.Alert{note, over(2, "b", "k", "a"), raised}, start); len(found) != 0 {
		t.Errorf("a note that is over: got %+v, want no finding", found)
	}
}

// TestTellNotes: what reports whether something is so opens nothing, also under the key
// of what reports whether something is wrong.
func TestTellNotes(t *testing.T) {
	note := said(1, "a", "k")
	note.Severity = alert.Info
	found, notes := score.Findings([]alert.Alert{note, said(2, "b", "k"), over(3, "c", "k", "b")}, start)
	if len(found) != 1 || found[0].Opened() != at(2) || !reflect.DeepEqual(notes, []time.Duration{at(1)}) {
		t.Errorf("%+v, %v", found, notes)
	}
	got := score.Judge(found, notes, score.Truth{Length: time.Hour}, 0)[0]
	if got.Notes != 1 || got.Cold != 1 || got.False != 0 {
		t.Errorf("%+v", got)
	}
}

// TestJudge: an hour with two episodes, 20 to 22 (late until 25) and 40 to 42.
func TestJudge(t *testing.T) {
	truth := score.Truth{
		Length:   time.Hour,
		Episodes: []score.Episode{{Start: at(20), End: at(22), Grace: at(3)}, {Start: at(40), End: at(42)}},
		Learning: []score.Span{{From: at(12), To: at(13)}},
	}
	watched := score.Tally{Hours: 50.0 / 60, Episodes: 2}
	for _, tt := range []struct {
		name   string
		alerts []alert.Alert
		want   score.Tally
	}{
		{"nothing found", nil, score.Tally{}},
		{"in the cold start", []alert.Alert{said(9.9, "a", "k")}, score.Tally{Cold: 1}},
		{"found in time", []alert.Alert{said(20.5, "a", "k")}, score.Tally{Found: 1, Right: 1, Delays: []float64{30}, FoundAt: [4]int{1}}},
		{"on both ends", []alert.Alert{said(20, "a", "k"), said(42, "b", "l")}, score.Tally{Found: 2, Right: 2, Delays: []float64{0, 120}, FoundAt: [4]int{2}}},
		{"two findings of one episode", []alert.Alert{said(20.5, "a", "k"), said(21, "b", "l")}, score.Tally{Found: 1, Right: 2, Delays: []float64{30}, FoundAt: [4]int{1}}},
		{"late", []alert.Alert{said(23, "a", "k")}, score.Tally{Right: 1}},
		{"too late", []alert.Alert{said(25.1, "a", "k")}, score.Tally{False: 1, FalseAt: [4]int{1}}},
		{"false while learning", []alert.Alert{said(12.5, "a", "k")}, score.Tally{False: 1, FalseAt: [4]int{1}, Learning: 1}},
		{
			"false, and repeated when there is something: found all the same",
			[]alert.Alert{said(19, "a", "k"), said(21, "b", "k")},
			score.Tally{Found: 1, False: 1, Delays: []float64{60}, FoundAt: [4]int{1}, FalseAt: [4]int{1}},
		},
		{"open since before and not repeated: missed", []alert.Alert{said(19, "a", "k")}, score.Tally{False: 1, FalseAt: [4]int{1}}},
		{
			"false once for all its repetitions, and as sure as it got",
			[]alert.Alert{sure(said(30, "a", "k"), "single"), sure(said(31, "b", "k"), "probable"), sure(said(32, "c", "k"), "single")},
			score.Tally{False: 1, FalseAt: [4]int{score.Probable: 1}},
		},
		{
			"found with the confidence that it had in time",
			[]alert.Alert{sure(said(20, "a", "k"), "single"), sure(said(22, "b", "k"), "probable"), sure(said(23, "c", "k"), "confirmed")},
			score.Tally{Found: 1, Right: 1, Delays: []float64{0}, FoundAt: [4]int{1, 1, 1, 0}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := tt.want
			want.Add(&watched)
			if tt.want.False > 0 { // none of them ends
				want.Alarmed = (time.Hour - tt.alerts[0].Timestamp.Sub(start)).Hours()
			}
			got := judge(tt.alerts, truth, 0)
			if len(got) != 1 || !same(got[0], want) {
				t.Errorf("%+v\nwant %+v", got, want)
			}
		})
	}
}

func judge(alerts []alert.Alert, truth score.Truth, block time.Duration) []score.Tally {
	found, notes := score.Findings(alerts, start)
	return score.Judge(found, notes, truth, block)
}

func same(a, b score.Tally) bool {
	hours := math.Abs(a.Hours-b.Hours) + math.Abs(a.Alarmed-b.Alarmed)
	a.Hours, b.Hours, a.Alarmed, b.Alarmed = 0, 0, 0, 0
	return hours < 1e-9 && reflect.DeepEqual(a, b)
}

// TestJudgeAlarmed: what is false is open until it is said to be over.
func TestJudgeAlarmed(t *testing.T) {
	truth := score.Truth{Length: time.Hour}
	got := judge([]alert.Alert{said(20, "a", "k"), said(21, "b", "l"), over(26, "c", "k", "a"), over(27, "d", "l", "b")}, truth, 0)[0]
	if got.False != 2 || math.Abs(got.Alarmed-0.2) > 1e-9 {
		t.Errorf("%+v", got)
	}
}

// TestJudgeBlocks: each block has its own stretch, without the cold start.
func TestJudgeBlocks(t *testing.T) {
	truth := score.Truth{Length: at(50), Episodes: []score.Episode{{Start: at(19), End: at(21)}}}
	got := judge([]alert.Alert{said(21, "a", "k"), said(45, "b", "l"), said(49.5, "c", "m")}, truth, at(20))
	want := []score.Tally{
		{Hours: 10.0 / 60, Episodes: 1, Found: 1, Delays: []float64{120}, FoundAt: [4]int{1}},
		{Hours: 20.0 / 60, Right: 1},
		{Hours: 10.0 / 60, False: 2, FalseAt: [4]int{2}, Alarmed: 5.5 / 60},
	}
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i := range want {
		if !same(got[i], want[i]) {
			t.Errorf("block %d: %+v\nwant %+v", i, got[i], want[i])
		}
	}
}

// TestJudgeLoads: delays are in loads, the first of the episode being 1, and what
// is unchanged are the loads outside.
func TestJudgeLoads(t *testing.T) {
	truth := score.Truth{Length: at(40), Episodes: []score.Episode{{Start: at(20), End: at(29), Grace: at(5)}}}
	for m := range 40 {
		truth.Loads = append(truth.Loads, at(float64(m)))
	}
	got := judge([]alert.Alert{said(22, "a", "k")}, truth, 0)[0]
	// 10..19 and 35..39 are unchanged.
	if got.Loads != 15 || !reflect.DeepEqual(got.Delays, []float64{3}) {
		t.Errorf("%+v", got)
	}
}

func TestSummarise(t *testing.T) {
	var blocks []score.Tally
	for i := range 10 {
		b := score.Tally{Hours: 12, Loads: 50, Episodes: 2, Found: 1, Right: 3, Delays: []float64{float64(i + 1)}}
		if i == 0 {
			b.False = 5
		}
		blocks = append(blocks, b)
	}
	s := score.Summarise("a cell", blocks)
	for _, tt := range []struct {
		name     string
		got      score.Estimate
		value, n float64
	}{
		{"recall", s.Recall, 0.5, 20},
		{"precision", s.Precision, 30.0 / 35, 35},
		{"per day", s.PerDay, 1, 120}, // 5 in 5 days
		{"per 100 loads", s.Per100, 1, 500},
		{"p50", s.P50, 5, 10},
		{"p95", s.P95, 10, 10},
	} {
		if math.Abs(tt.got.Value-tt.value) > 1e-9 || tt.got.N != tt.n || tt.got.Low > tt.got.Value || tt.got.High < tt.got.Value {
			t.Errorf("%s: %+v, want %v of %v", tt.name, tt.got, tt.value, tt.n)
		}
	}
	// Each block has one of its two found, so that no draw differs.
	if s.Recall.Low != 0.5 || s.Recall.High != 0.5 {
		t.Errorf("recall %+v", s.Recall)
	}
	// The number of times the one block with false findings is drawn is binomial
	// (10, 1/10): 0 to 3 are its middle 95%, each of them 1 a day.
	if s.PerDay.Low != 0 || math.Abs(s.PerDay.High-3) > 1e-9 {
		t.Errorf("per day %+v", s.PerDay)
	}
	if again := score.Summarise("a cell", blocks); !reflect.DeepEqual(again, s) {
		t.Errorf("%+v\nand then %+v", s, again)
	}
}

// TestSummariseOfNothing: what was never counted has an interval too, the exact
// one, and what there was nothing of has no figure.
func TestSummariseOfNothing(t *testing.T) {
	s := score.Summarise("a cell", []score.Tally{{Hours: 24, Episodes: 20, Found: 20, Delays: []float64{1}}})
	// -ln(0.025) = 3.689 in one day; 0.025^(1/20) = 0.8316.
	if s.PerDay.Value != 0 || math.Abs(s.PerDay.High-3.689) > 1e-3 || s.Recall.Value != 1 || math.Abs(s.Recall.Low-0.8316) > 1e-4 {
		t.Errorf("per day %+v, recall %+v", s.PerDay, s.Recall)
	}
	if s.Per100.Known() || s.Precision.Known() {
		t.Errorf("per 100 %+v, precision %+v", s.Per100, s.Precision)
	}
	s = score.Summarise("a cell", []score.Tally{{Episodes: 20}})
	if s.Recall.Value != 0 || math.Abs(s.Recall.High-0.1684) > 1e-4 || s.P50.Known() {
		t.Errorf("recall %+v, p50 %+v", s.Recall, s.P50)
	}
}

// TestBlocksSumUp: however a run is cut into blocks, all of it is counted once.
func TestBlocksSumUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		truth := score.Truth{Length: at(float64(rapid.IntRange(11, 300).Draw(t, "minutes")))}
		for from := at(10); ; {
			e := score.Episode{Start: from + at(float64(rapid.IntRange(0, 60).Draw(t, "gap")))}
			e.End = e.Start + at(float64(rapid.IntRange(1, 20).Draw(t, "length")))
			e.Grace = at(float64(rapid.IntRange(0, 5).Draw(t, "grace")))
			if from = e.End + e.Grace + 1; from > truth.Length {
				break
			}
			truth.Episodes = append(truth.Episodes, e)
		}
		var alerts []alert.Alert
		for i, m := range rapid.SliceOf(rapid.IntRange(0, int(truth.Length.Minutes()))).Draw(t, "alerts") {
			alerts = append(alerts, said(float64(m), fmt.Sprint(i), rapid.SampledFrom([]string{"k", "l", "m"}).Draw(t, "key")))
		}
		slices.SortStableFunc(alerts, func(a, b alert.Alert) int { return a.Timestamp.Compare(b.Timestamp) })
		whole := judge(alerts, truth, 0)[0]
		var sum score.Tally
		for _, b := range judge(alerts, truth, at(float64(rapid.IntRange(1, 400).Draw(t, "block")))) {
			sum.Add(&b)
		}
		slices.Sort(sum.Delays)
		slices.Sort(whole.Delays)
		if !same(sum, whole) {
			t.Fatalf("%+v\nthe whole %+v", sum, whole)
		}
		found, _ := score.Findings(alerts, start)
		if whole.Found > whole.Episodes || whole.Found != len(whole.Delays) || whole.Right+whole.False+whole.Cold != len(found) {
			t.Fatalf("%+v of %d findings", whole, len(found))
		}
	})
}
