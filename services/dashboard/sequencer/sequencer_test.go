package sequencer_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/dashboard/sequencer"
)

var noon = time.Date(2026, 1, 28, 12, 0, 0, 0, time.UTC)

// at returns the stamp of a message in the stream that was created at a time.
func at(created time.Time, seq uint64) sequencer.Stamp {
	return sequencer.Stamp{Seq: seq, Time: created.Add(time.Duration(seq) * time.Second)}
}

func span(created time.Time, from, to uint64) (stamps []sequencer.Stamp) {
	for seq := from; seq <= to; seq++ {
		stamps = append(stamps, at(created, seq))
	}
	return stamps
}

// TestAddLive delivers the next message, and no other.
func TestAddLive(t *testing.T) {
	later := noon.Add(24 * time.Hour)
	for _, tt := range []struct {
		name      string
		delivered uint64 // before
		published sequencer.Stamp
		deliver   bool
		want      bool
	}{
		{"the first of all", 0, at(noon, 1), true, false},
		{"the next", 5, at(noon, 6), true, false},
		{"one is missing", 5, at(noon, 7), false, true},
		{"the first published is not the first", 0, at(noon, 3), false, true},
		{"the same again", 5, at(noon, 5), false, false},
		{"an old one again", 5, at(noon, 2), false, false},
		{"an old one that is forgotten", 5000, at(noon, 2), false, false},
		{"another stream, further back", 5, at(later, 1), false, true},
		{"another stream, from before the kept stamps", 5000, at(later, 1), false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var q sequencer.Sequencer
			q.Start(span(noon, 1, tt.delivered))
			if got := q.AddLive(tt.published); got != tt.deliver {
				t.Errorf("AddLive = %t, want %t", got, tt.deliver)
			}
			if from, want := q.NextRead(); want != tt.want || want && from != max(tt.delivered, 1) {
				t.Errorf("NextRead = %d, %t, want %d, %t", from, want, max(tt.delivered, 1), tt.want)
			}
		})
	}
}

// TestRead delivers what was missed, in order.
func TestRead(t *testing.T) {
	later := noon.Add(24 * time.Hour)
	for _, tt := range []struct {
		name      string
		delivered uint64
		published uint64 // 0: the connection was lost
		read      []sequencer.Stamp
		full      bool
		deliver   []sequencer.Stamp
		outcome   sequencer.Outcome
		end       uint64
		want      bool
		missed    uint64
	}{
		{"nothing was missed", 5, 0, span(noon, 5, 5), false, nil, sequencer.Continue, 5, false, 0},
		{"three were missed", 5, 0, span(noon, 5, 8), false, span(noon, 6, 8), sequencer.Continue, 8, false, 0},
		{"two are missing before the one that was published", 5, 8, span(noon, 5, 8), false, span(noon, 6, 8), sequencer.Continue, 8, false, 0},
		{"there is more", 5, 0, span(noon, 5, 7), true, span(noon, 6, 7), sequencer.Continue, 7, true, 0},
		{"the replica lacks the one that was published", 5, 8, span(noon, 5, 6), false, span(noon, 6, 6), sequencer.Lagging, 6, true, 0},
		{"the last one delivered was dropped, and two more", 5, 0, span(noon, 8, 9), false, span(noon, 8, 9), sequencer.Continue, 9, false, 2},
		{"the last one delivered was dropped, and no more", 5, 0, span(noon, 6, 7), false, span(noon, 6, 7), sequencer.Continue, 7, false, 0},
		{"another stream, as long", 5, 0, span(later, 5, 6), false, nil, sequencer.Recreated, 0, true, 0},
		{"nothing is there", 5, 0, nil, false, nil, sequencer.Empty, 5, true, 0},
		{"from the beginning", 0, 3, span(noon, 1, 3), false, span(noon, 1, 3), sequencer.Continue, 3, false, 0},
		{"from the beginning, which was dropped", 0, 3, span(noon, 2, 3), false, span(noon, 2, 3), sequencer.Continue, 3, false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var q sequencer.Sequencer
			q.Start(span(noon, 1, tt.delivered))
			if tt.published > 0 {
				q.AddLive(at(noon, tt.published))
			} else {
				q.SuspectRecreation()
			}
			first, outcome := q.AddRead(tt.read, tt.full)
			if outcome != tt.outcome {
				t.Errorf("outcome = %d, want %d", outcome, tt.outcome)
			}
			if got := tt.read[first:]; !slices.Equal(got, tt.deliver) {
				t.Errorf("delivers %v, want %v", got, tt.deliver)
			}
			if _, got := q.NextRead(); got != tt.want {
				t.Errorf("NextRead = _, %t, want %t", got, tt.want)
			}
			if got := q.Delivered().Seq; got != tt.end {
				t.Errorf("Delivered = %d, want %d", got, tt.end)
			}
			if got := q.Missed(); got != tt.missed {
				t.Errorf("Missed = %d, want %d", got, tt.missed)
			}
		})
	}
}

// TestReadEmpty expects a stream with nothing to read to be empty, another one, or seen
// through a replica that lags.
func TestReadEmpty(t *testing.T) {
	later := noon.Add(24 * time.Hour)
	for _, tt := range []struct {
		name      string
		delivered uint64
		published uint64
		newest    sequencer.Stamp
		found     bool
		outcome   sequencer.Outcome
		want      bool
	}{
		{"all is too old", 5, 0, sequencer.Stamp{}, false, sequencer.Continue, false},
		{"all was purged after it was published", 5, 7, sequencer.Stamp{}, false, sequencer.Lagging, true},
		{"a replica that lags", 5, 0, at(noon, 4), true, sequencer.Continue, false},
		{"a replica that lags, and there is more", 5, 7, at(noon, 4), true, sequencer.Lagging, true},
		{"a replica that lags by far", 5000, 0, at(noon, 4), true, sequencer.Continue, false},
		{"another replica, which does not lag", 5, 0, at(noon, 5), true, sequencer.Lagging, true},
		{"another stream", 5, 0, at(later, 4), true, sequencer.Recreated, true},
		{"another stream, by far shorter", 5000, 0, at(later, 4), true, sequencer.Recreated, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var q sequencer.Sequencer
			q.Start(span(noon, 1, tt.delivered))
			q.SuspectRecreation()
			if tt.published > 0 {
				q.AddLive(at(noon, tt.published))
			}
			q.AddRead(nil, false)
			if outcome := q.AddEmptyRead(tt.newest, tt.found); outcome != tt.outcome {
				t.Errorf("outcome = %d, want %d", outcome, tt.outcome)
			}
			if _, got := q.NextRead(); got != tt.want {
				t.Errorf("NextRead = _, %t, want %t", got, tt.want)
			}
		})
	}
}

// TestCheckEnd expects the check of the end to find what was not delivered.
func TestCheckEnd(t *testing.T) {
	later := noon.Add(24 * time.Hour)
	for _, tt := range []struct {
		name   string
		newest sequencer.Stamp
		found  bool
		want   bool
	}{
		{"nothing new", at(noon, 5), true, false},
		{"a replica that lags", at(noon, 3), true, false},
		{"nothing at all", sequencer.Stamp{}, false, false},
		{"one more", at(noon, 6), true, true},
		{"another stream, as long", at(later, 5), true, true},
		{"another stream, shorter", at(later, 2), true, true},
	} {
		var q sequencer.Sequencer
		q.Start(span(noon, 1, 5))
		q.CheckEnd(tt.newest, tt.found)
		if _, got := q.NextRead(); got != tt.want {
			t.Errorf("%s: NextRead = _, %t, want %t", tt.name, got, tt.want)
		}
	}
}

// TestSkip counts what was purged before it was read, and delivers the next message.
func TestSkip(t *testing.T) {
	var q sequencer.Sequencer
	q.Start(span(noon, 1, 5))
	q.Skip() // nothing is wanted
	q.AddLive(at(noon, 8))
	q.Skip()
	if _, wanted := q.NextRead(); wanted {
		t.Error("NextRead after Skip = _, true, want false")
	}
	if got := q.Missed(); got != 3 {
		t.Errorf("Missed = %d, want 3", got)
	}
	if !q.AddLive(at(noon, 9)) {
		t.Error("AddLive of the next message = false, want true")
	}
}

// TestRecreated delivers a recreated stream from its beginning, also if messages of it were
// published before the read, and messages of the old stream were wanted.
func TestRecreated(t *testing.T) {
	later := noon.Add(24 * time.Hour)
	var q sequencer.Sequencer
	q.Start(span(noon, 1, 500))
	q.AddLive(at(noon, 510))
	q.SuspectRecreation()
	var delivered []string
	note := func(stamps []sequencer.Stamp) {
		for _, m := range stamps {
			delivered = append(delivered, fmt.Sprint(m.Seq))
		}
	}
	if q.AddLive(at(later, 3)) {
		t.Fatal("AddLive before the stream was read = true, want false")
	}
	if _, o := q.AddRead(nil, false); o != sequencer.Empty {
		t.Fatalf("outcome of AddRead = %d, want %d", o, sequencer.Empty)
	}
	if o := q.AddEmptyRead(at(later, 3), true); o != sequencer.Recreated {
		t.Fatalf("outcome of AddEmptyRead = %d, want %d", o, sequencer.Recreated)
	}
	if from, want := q.NextRead(); !want || from != 1 {
		t.Fatalf("NextRead = %d, %t, want 1, true", from, want)
	}
	read := span(later, 1, 3)
	first, o := q.AddRead(read, false)
	note(read[first:])
	if o != sequencer.Continue {
		t.Errorf("outcome of AddRead = %d, want %d", o, sequencer.Continue)
	}
	if got := fmt.Sprint(delivered); got != "[1 2 3]" {
		t.Errorf("delivered = %s, want [1 2 3]", got)
	}
	for seq, want := range map[uint64]bool{3: false, 4: true} {
		if got := q.AddLive(at(later, seq)); got != want {
			t.Errorf("AddLive(%d) = %t, want %t", seq, got, want)
		}
	}
}
