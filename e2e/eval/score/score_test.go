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

// raised returns an alert at a number of minutes.
func raised(minutes float64, id, key string) alert.Alert {
	return alert.Alert{
		ID: id, DedupKey: key, Category: alert.Regression, Severity: alert.Warning,
		Timestamp: start.Add(at(minutes)),
	}
}

func at(minutes float64) time.Duration { return time.Duration(minutes * float64(time.Minute)) }

func over(minutes float64, id, key, resolves string, also ...string) alert.Alert {
	a := raised(minutes, id, key)
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
		found.EndedAt, found.Ended = at(minutes), true
		return found
	}
	for _, tt := range []struct {
		name   string
		alerts []alert.Alert
		want   []score.Finding
	}{
		{"none", nil, nil},
		{"repeated while open", []alert.Alert{raised(1, "a", "k"), raised(2, "b", "k")}, []score.Finding{one(1, 2)}},
		{"other keys are other findings", []alert.Alert{raised(1, "a", "k"), raised(2, "b", "l")}, []score.Finding{one(1), one(2)}},
		{"over and found again", []alert.Alert{raised(1, "a", "k"), over(2, "b", "k", "a"), raised(3, "c", "k")}, []score.Finding{until(2, one(1)), one(3)}},
		{
			"over by the newest alert of several",
			[]alert.Alert{raised(1, "a", "k"), raised(2, "b", "k"), over(3, "c", "k", "b"), raised(4, "d", "k")},
			[]score.Finding{until(3, one(1, 2)), one(4)},
		},
		{
			"one end of two findings",
			[]alert.Alert{raised(1, "a", "k"), raised(2, "b", "l"), over(3, "c", "m", "a", "b"), raised(4, "d", "k"), raised(5, "e", "l")},
			[]score.Finding{until(3, one(1)), until(3, one(2)), one(4), one(5)},
		},
		{"the end of something else", []alert.Alert{raised(1, "a", "k"), over(2, "b", "k", "x"), raised(3, "c", "k")}, []score.Finding{one(1, 3)}},
		{"a revision under another key", []alert.Alert{raised(1, "a", "k"), revises(raised(2, "b", "l"), "a")}, []score.Finding{one(1, 2)}},
		{"a revision of what is over", []alert.Alert{raised(1, "a", "k"), over(2, "b", "k", "a"), revises(raised(3, "c", "k"), "a")}, []score.Finding{until(2, one(1))}},
		{
			"confidences",
			[]alert.Alert{sure(raised(1, "a", "k"), "single"), sure(raised(2, "b", "k"), "confirmed"), sure(raised(3, "c", "l"), "probable"), sure(raised(4, "d", "l"), "certain")},
			[]score.Finding{
				{Alerts: []score.Report{{At: at(1), Confidence: score.Single}, {At: at(2), Confidence: score.Confirmed}}},
				{Alerts: []score.Report{{At: at(3), Confidence: score.Probable}, {At: at(4)}}},
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, notes := score.Findings(tt.alerts, start); !reflect.DeepEqual(got, tt.want) || notes != nil {
				t.Errorf("Findings = %+v and notes %v\nwant %+v and no notes", got, notes, tt.want)
			}
		})
	}
}

// TestEscalatedNotes checks that a note becomes a finding when its severity rises, unless it
// has ended.
func TestEscalatedNotes(t *testing.T) {
	note, escalated := raised(1, "a", "k"), revises(raised(3, "c", "k"), "a")
	note.Severity = alert.Info
	if found, _ := score.Findings([]alert.Alert{note, escalated, over(4, "d", "k", "a")}, start); len(found) != 1 || found[0].Opened() != at(3) || found[0].EndedAt != at(4) {
		t.Errorf("a note that escalates: got %+v, want one finding from 3 to 4 min", found)
	}
	if found, _ := score.Findings([]alert.Alert{note, over(2, "b", "k", "a"), escalated}, start); len(found) != 0 {
		t.Errorf("a note that has ended: got %+v, want no finding", found)
	}
}

// TestNotes checks that a note opens no finding, also under the key of a finding.
func TestNotes(t *testing.T) {
	note := raised(1, "a", "k")
	note.Severity = alert.Info
	found, notes := score.Findings([]alert.Alert{note, raised(2, "b", "k"), over(3, "c", "k", "b")}, start)
	if len(found) != 1 || found[0].Opened() != at(2) || !reflect.DeepEqual(notes, []time.Duration{at(1)}) {
		t.Errorf("got findings %+v and notes %v, want one finding at 2 min and one note at 1 min", found, notes)
	}
	got := score.Judge(found, notes, score.Truth{Length: time.Hour}, 0)[0]
	if got.Notes != 1 || got.Cold != 1 || got.False != 0 {
		t.Errorf("Judge = %+v, want Notes 1, Cold 1 and False 0", got)
	}
}

// TestJudge judges an hour with two episodes, from 20 to 22 (late until 25) and from 40 to
// 42 min.
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
		{"in the cold start", []alert.Alert{raised(9.9, "a", "k")}, score.Tally{Cold: 1}},
		{"found in time", []alert.Alert{raised(20.5, "a", "k")}, score.Tally{Found: 1, Right: 1, Delays: []float64{30}, FoundAt: [4]int{1}}},
		{"on both ends", []alert.Alert{raised(20, "a", "k"), raised(42, "b", "l")}, score.Tally{Found: 2, Right: 2, Delays: []float64{0, 120}, FoundAt: [4]int{2}}},
		{"two findings of one episode", []alert.Alert{raised(20.5, "a", "k"), raised(21, "b", "l")}, score.Tally{Found: 1, Right: 2, Delays: []float64{30}, FoundAt: [4]int{1}}},
		{"late", []alert.Alert{raised(23, "a", "k")}, score.Tally{Right: 1}},
		{"too late", []alert.Alert{raised(25.1, "a", "k")}, score.Tally{False: 1, FalseAt: [4]int{1}}},
		{"false while learning", []alert.Alert{raised(12.5, "a", "k")}, score.Tally{False: 1, FalseAt: [4]int{1}, Learning: 1}},
		{
			"false, and repeated in an episode: found",
			[]alert.Alert{raised(19, "a", "k"), raised(21, "b", "k")},
			score.Tally{Found: 1, False: 1, Delays: []float64{60}, FoundAt: [4]int{1}, FalseAt: [4]int{1}},
		},
		{"open since before the episode and not repeated: missed", []alert.Alert{raised(19, "a", "k")}, score.Tally{False: 1, FalseAt: [4]int{1}}},
		{
			"false once with its repeats, at its highest confidence",
			[]alert.Alert{sure(raised(30, "a", "k"), "single"), sure(raised(31, "b", "k"), "probable"), sure(raised(32, "c", "k"), "single")},
			score.Tally{False: 1, FalseAt: [4]int{score.Probable: 1}},
		},
		{
			"found with the confidence that it had in time",
			[]alert.Alert{sure(raised(20, "a", "k"), "single"), sure(raised(22, "b", "k"), "probable"), sure(raised(23, "c", "k"), "confirmed")},
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
				t.Errorf("Judge = %+v\nwant %+v", got, want)
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

// TestJudgeAlarmed checks that a false finding is open until an alert ends it.
func TestJudgeAlarmed(t *testing.T) {
	truth := score.Truth{Length: time.Hour}
	got := judge([]alert.Alert{raised(20, "a", "k"), raised(21, "b", "l"), over(26, "c", "k", "a"), over(27, "d", "l", "b")}, truth, 0)[0]
	if got.False != 2 || math.Abs(got.Alarmed-0.2) > 1e-9 {
		t.Errorf("Judge = %+v, want False 2 and Alarmed 0.2", got)
	}
}

// TestJudgeBlocks checks that each block has its own stretch, without the cold start.
func TestJudgeBlocks(t *testing.T) {
	truth := score.Truth{Length: at(50), Episodes: []score.Episode{{Start: at(19), End: at(21)}}}
	got := judge([]alert.Alert{raised(21, "a", "k"), raised(45, "b", "l"), raised(49.5, "c", "m")}, truth, at(20))
	want := []score.Tally{
		{Hours: 10.0 / 60, Episodes: 1, Found: 1, Delays: []float64{120}, FoundAt: [4]int{1}},
		{Hours: 20.0 / 60, Right: 1},
		{Hours: 10.0 / 60, False: 2, FalseAt: [4]int{2}, Alarmed: 5.5 / 60},
	}
	if len(got) != len(want) {
		t.Fatalf("got %d blocks, want %d: %+v", len(got), len(want), got)
	}
	for i := range want {
		if !same(got[i], want[i]) {
			t.Errorf("block %d = %+v\nwant %+v", i, got[i], want[i])
		}
	}
}

// TestJudgeLoads checks that delays are in loads, where the first load of an episode is 1,
// and that the loads outside of episodes count as unchanged.
func TestJudgeLoads(t *testing.T) {
	truth := score.Truth{Length: at(40), Episodes: []score.Episode{{Start: at(20), End: at(29), Grace: at(5)}}}
	for m := range 40 {
		truth.Loads = append(truth.Loads, at(float64(m)))
	}
	got := judge([]alert.Alert{raised(22, "a", "k")}, truth, 0)[0]
	// 10..19 and 35..39 are unchanged.
	if got.Loads != 15 || !reflect.DeepEqual(got.Delays, []float64{3}) {
		t.Errorf("Judge = %+v, want Loads 15 and Delays [3]", got)
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
			t.Errorf("%s = %+v, want Value %v between Low and High, and N %v", tt.name, tt.got, tt.value, tt.n)
		}
	}
	// Each block has one of its two found, so that no draw differs.
	if s.Recall.Low != 0.5 || s.Recall.High != 0.5 {
		t.Errorf("Recall = %+v, want Low and High 0.5", s.Recall)
	}
	// The number of times the one block with false findings is drawn is binomial
	// (10, 1/10): 0 to 3 are its middle 95%, each of them 1 a day.
	if s.PerDay.Low != 0 || math.Abs(s.PerDay.High-3) > 1e-9 {
		t.Errorf("PerDay = %+v, want Low 0 and High 3", s.PerDay)
	}
	if again := score.Summarise("a cell", blocks); !reflect.DeepEqual(again, s) {
		t.Errorf("the same blocks give %+v\nand then %+v, want the same", s, again)
	}
}

// TestSummariseOfNothing checks that a count of 0 has the exact interval, and that there is
// no value without anything to count.
func TestSummariseOfNothing(t *testing.T) {
	s := score.Summarise("a cell", []score.Tally{{Hours: 24, Episodes: 20, Found: 20, Delays: []float64{1}}})
	// -ln(0.025) = 3.689 in one day; 0.025^(1/20) = 0.8316.
	if s.PerDay.Value != 0 || math.Abs(s.PerDay.High-3.689) > 1e-3 || s.Recall.Value != 1 || math.Abs(s.Recall.Low-0.8316) > 1e-4 {
		t.Errorf("PerDay = %+v, want 0 up to 3.689; Recall = %+v, want 1 from 0.8316", s.PerDay, s.Recall)
	}
	if s.Per100.Known() || s.Precision.Known() {
		t.Errorf("Per100 = %+v, Precision = %+v, want both unknown", s.Per100, s.Precision)
	}
	s = score.Summarise("a cell", []score.Tally{{Episodes: 20}})
	if s.Recall.Value != 0 || math.Abs(s.Recall.High-0.1684) > 1e-4 || s.P50.Known() {
		t.Errorf("Recall = %+v, want 0 up to 0.1684; P50 = %+v, want it unknown", s.Recall, s.P50)
	}
}

// TestBlocksSumUp checks that the blocks of a run count each part once, for every length of
// blocks.
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
			alerts = append(alerts, raised(float64(m), fmt.Sprint(i), rapid.SampledFrom([]string{"k", "l", "m"}).Draw(t, "key")))
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
			t.Fatalf("sum of the blocks = %+v\nwant %+v of the whole run", sum, whole)
		}
		found, _ := score.Findings(alerts, start)
		if whole.Found > whole.Episodes || whole.Found != len(whole.Delays) || whole.Right+whole.False+whole.Cold != len(found) {
			t.Fatalf("got %+v of %d findings, want Found = len(Delays) <= Episodes, and Right + False + Cold = findings", whole, len(found))
		}
	})
}
