package sequencer_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/dashboard/sequencer"
)

var noon = time.Date(2026, 1, 28, 12, 0, 0, 0, time.UTC)

// of is the place of a message in the stream that was made at a time.
func of(made time.Time, seq uint64) sequencer.Mark {
	return sequencer.Mark{Seq: seq, Time: made.Add(time.Duration(seq) * time.Second)}
}

func span(made time.Time, from, to uint64) (marks []sequencer.Mark) {
	for seq := from; seq <= to; seq++ {
		marks = append(marks, of(made, seq))
	}
	return marks
}

// TestHeard: what comes next is told, and only that.
func TestHeard(t *testing.T) {
	later := noon.Add(24 * time.Hour)
	for _, tt := range []struct {
		name string
		told uint64 // up to this, before
		hear sequencer.Mark
		tell bool
		want bool
	}{
		{"the first of all", 0, of(noon, 1), true, false},
		{"the next", 5, of(noon, 6), true, false},
		{"one is missing", 5, of(noon, 7), false, true},
		{"the first heard is not the first", 0, of(noon, 3), false, true},
		{"the same again", 5, of(noon, 5), false, false},
		{"an old one again", 5, of(noon, 2), false, false},
		{"an old one that is forgotten", 5000, of(noon, 2), false, false},
		{"another stream, further back", 5, of(later, 1), false, true},
		{"another stream, further back than is remembered", 5000, of(later, 1), false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var tp sequencer.Tape
			tp.Begin(span(noon, 1, tt.told))
			if tell := tp.Heard(tt.hear); tell != tt.tell {
				t.Errorf("told %t", tell)
			}
			if from, want := tp.Want(); want != tt.want || want && from != max(tt.told, 1) {
				t.Errorf("wants %d, %t", from, want)
			}
		})
	}
}

// TestRead: what was missed is told in order, from wherever the stream is.
func TestRead(t *testing.T) {
	later := noon.Add(24 * time.Hour)
	for _, tt := range []struct {
		name    string
		told    uint64
		heard   uint64 // 0: nothing, only a connection that was lost
		read    []sequencer.Mark
		full    bool
		tell    []sequencer.Mark
		outcome sequencer.Outcome
		at      uint64
		want    bool
		missed  uint64
	}{
		{"nothing was missed", 5, 0, span(noon, 5, 5), false, nil, sequencer.Fine, 5, false, 0},
		{"three were missed", 5, 0, span(noon, 5, 8), false, span(noon, 6, 8), sequencer.Fine, 8, false, 0},
		{"two are missing before the one that was heard", 5, 8, span(noon, 5, 8), false, span(noon, 6, 8), sequencer.Fine, 8, false, 0},
		{"there is more", 5, 0, span(noon, 5, 7), true, span(noon, 6, 7), sequencer.Fine, 7, true, 0},
		{"who answers has not got the one that was heard", 5, 8, span(noon, 5, 6), false, span(noon, 6, 6), sequencer.Behind, 6, true, 0},
		{"the last one told was dropped, and two more", 5, 0, span(noon, 8, 9), false, span(noon, 8, 9), sequencer.Fine, 9, false, 2},
		{"the last one told was dropped, and no more", 5, 0, span(noon, 6, 7), false, span(noon, 6, 7), sequencer.Fine, 7, false, 0},
		{"another stream, as long", 5, 0, span(later, 5, 6), false, nil, sequencer.Renewed, 0, true, 0},
		{"nothing is there", 5, 0, nil, false, nil, sequencer.Empty, 5, true, 0},
		{"from the beginning", 0, 3, span(noon, 1, 3), false, span(noon, 1, 3), sequencer.Fine, 3, false, 0},
		{"from the beginning, which was dropped", 0, 3, span(noon, 2, 3), false, span(noon, 2, 3), sequencer.Fine, 3, false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var tp sequencer.Tape
			tp.Begin(span(noon, 1, tt.told))
			if tt.heard > 0 {
				tp.Heard(of(noon, tt.heard))
			} else {
				tp.Doubt()
			}
			tell, outcome := tp.Read(tt.read, tt.full)
			if outcome != tt.outcome || !slices.Equal(tt.read[tell:], tt.tell) {
				t.Errorf("outcome %d, told %v", outcome, tt.read[tell:])
			}
			if _, want := tp.Want(); want != tt.want || tp.At().Seq != tt.at || tp.Missed() != tt.missed {
				t.Errorf("at %d, wants %t, missed %d", tp.At().Seq, want, tp.Missed())
			}
		})
	}
}

// TestEnd: a stream that has nothing to read is empty, or another one, or seen
// through a replica that lags.
func TestEnd(t *testing.T) {
	later := noon.Add(24 * time.Hour)
	for _, tt := range []struct {
		name    string
		told    uint64
		heard   uint64
		newest  sequencer.Mark
		found   bool
		outcome sequencer.Outcome
		want    bool
	}{
		{"all is too old", 5, 0, sequencer.Mark{}, false, sequencer.Fine, false},
		{"all was purged after it was heard", 5, 7, sequencer.Mark{}, false, sequencer.Behind, true},
		{"a replica that lags", 5, 0, of(noon, 4), true, sequencer.Fine, false},
		{"a replica that lags, and there is more", 5, 7, of(noon, 4), true, sequencer.Behind, true},
		{"a replica that lags by far", 5000, 0, of(noon, 4), true, sequencer.Fine, false},
		{"another replica, which does not lag", 5, 0, of(noon, 5), true, sequencer.Behind, true},
		{"another stream", 5, 0, of(later, 4), true, sequencer.Renewed, true},
		{"another stream, by far shorter", 5000, 0, of(later, 4), true, sequencer.Renewed, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var tp sequencer.Tape
			tp.Begin(span(noon, 1, tt.told))
			tp.Doubt()
			if tt.heard > 0 {
				tp.Heard(of(noon, tt.heard))
			}
			tp.Read(nil, false)
			if outcome := tp.End(tt.newest, tt.found); outcome != tt.outcome {
				t.Errorf("outcome %d", outcome)
			}
			if _, want := tp.Want(); want != tt.want {
				t.Errorf("wants %t", want)
			}
		})
	}
}

// TestChecked: a look at the end finds what nobody was told of.
func TestChecked(t *testing.T) {
	later := noon.Add(24 * time.Hour)
	for _, tt := range []struct {
		name   string
		newest sequencer.Mark
		found  bool
		want   bool
	}{
		{"nothing new", of(noon, 5), true, false},
		{"a replica that lags", of(noon, 3), true, false},
		{"nothing at all", sequencer.Mark{}, false, false},
		{"one more", of(noon, 6), true, true},
		{"another stream, as long", of(later, 5), true, true},
		{"another stream, shorter", of(later, 2), true, true},
	} {
		var tp sequencer.Tape
		tp.Begin(span(noon, 1, 5))
		tp.Checked(tt.newest, tt.found)
		if _, want := tp.Want(); want != tt.want {
			t.Errorf("%s: wants %t", tt.name, want)
		}
	}
}

// TestGiveUp: what was purged before it was read is counted, and the next is told.
func TestGiveUp(t *testing.T) {
	var tp sequencer.Tape
	tp.Begin(span(noon, 1, 5))
	tp.GiveUp() // of nothing
	tp.Heard(of(noon, 8))
	tp.GiveUp()
	if _, want := tp.Want(); want || tp.Missed() != 3 {
		t.Errorf("wants %t, missed %d", want, tp.Missed())
	}
	if !tp.Heard(of(noon, 9)) {
		t.Error("the next is not told")
	}
}

// TestRenewed: another stream is told from its beginning, whatever was heard of it
// or wanted of the one before.
func TestRenewed(t *testing.T) {
	later := noon.Add(24 * time.Hour)
	var tp sequencer.Tape
	tp.Begin(span(noon, 1, 500))
	tp.Heard(of(noon, 510))
	tp.Doubt()
	var told []string
	note := func(marks []sequencer.Mark) {
		for _, m := range marks {
			told = append(told, fmt.Sprint(m.Seq))
		}
	}
	if tp.Heard(of(later, 3)) {
		t.Fatal("told too early")
	}
	if _, o := tp.Read(nil, false); o != sequencer.Empty {
		t.Fatal(o)
	}
	if o := tp.End(of(later, 3), true); o != sequencer.Renewed {
		t.Fatal(o)
	}
	if from, want := tp.Want(); !want || from != 1 {
		t.Fatal(from, want)
	}
	read := span(later, 1, 3)
	tell, o := tp.Read(read, false)
	note(read[tell:])
	if o != sequencer.Fine || tp.Heard(of(later, 3)) || !tp.Heard(of(later, 4)) || fmt.Sprint(told) != "[1 2 3]" {
		t.Errorf("outcome %d, told %v", o, told)
	}
}
