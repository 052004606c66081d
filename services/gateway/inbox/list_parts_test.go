package inbox_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// placed returns an alert of a key at a sequence, which counts n.
func placed(key string, seq uint64, n int) alert.Alert {
	return alert.Alert{ID: fmt.Sprint(key, seq), DedupKey: key, Severity: alert.Warning, Seq: seq, Count: n}
}

// summary writes alerts as key, count and sequence.
func summary(alerts []alert.Alert) string {
	parts := make([]string, len(alerts))
	for i, a := range alerts {
		parts[i] = fmt.Sprintf("%s*%d@%d", a.DedupKey, a.Occurrences(), a.Seq)
	}
	return strings.Join(parts, " ")
}

func TestListTakeUpTo(t *testing.T) {
	offers := []alert.Alert{placed("a", 1, 0), placed("b", 2, 3), placed("a", 4, 5), placed("c", 5, 0), placed("a", 7, 0)}
	for _, tt := range []struct {
		seq        uint64
		want, rest string
	}{
		{0, "", "a*7@7 b*3@2 c*1@5"},
		{1, "a*1@1", "a*6@7 b*3@2 c*1@5"},
		{3, "a*1@1 b*3@2", "a*6@7 c*1@5"},
		{4, "a*6@4 b*3@2", "a*1@7 c*1@5"},
		{6, "a*6@4 b*3@2 c*1@5", "a*1@7"},
		{7, "a*7@7 b*3@2 c*1@5", ""},
	} {
		var l inbox.List
		for _, a := range offers {
			if !l.Merge(a) {
				l.Add(a)
			}
		}
		if got := summary(alert.Alerts(takeUpTo(&l, tt.seq))); got != tt.want {
			t.Errorf("up to %d: took %q, want %q", tt.seq, got, tt.want)
		}
		if got := summary(l.Alerts()); got != tt.rest {
			t.Errorf("up to %d: left %q, want %q", tt.seq, got, tt.rest)
		}
		if got := summary(alert.Alerts(takeUpTo(&l, tt.seq))); got != "" {
			t.Errorf("up to %d again: took %q, want nothing", tt.seq, got)
		}
		if got := summary(alert.Alerts(takeUpTo(&l, 7))); got != tt.rest {
			t.Errorf("up to 7 after %d: took %q, want %q", tt.seq, got, tt.rest)
		}
		if l.Len() != 0 || l.Offers() != 0 {
			t.Errorf("%d alerts of %d offers left, want none", l.Len(), l.Offers())
		}
	}
}

// TestListManyParts: alerts beyond the bound are taken late rather than never.
func TestListManyParts(t *testing.T) {
	var l inbox.List
	l.Add(placed("a", 1, 0))
	for seq := uint64(2); seq <= 40; seq++ {
		l.Merge(placed("a", seq, 0))
	}
	for _, tt := range []struct {
		seq  uint64
		want string
	}{{5, ""}, {20, ""}, {40, "a*40@40"}} {
		if got := summary(alert.Alerts(takeUpTo(&l, tt.seq))); got != tt.want {
			t.Errorf("up to %d: took %q, want %q", tt.seq, got, tt.want)
		}
	}
}

// TestListDiscardDelivered: alerts that another reader delivered are removed, except for
// those that this one had claimed before.
func TestListDiscardDelivered(t *testing.T) {
	for _, tt := range []struct {
		claimed, delivered uint64
		want               string
	}{
		{0, 0, "a*4@7 b*2@4"},
		{0, 1, "a*3@7 b*2@4"},
		{0, 4, "a*2@7"},
		{0, 7, ""},
		{1, 4, "a*3@7"},
		{1, 7, "a*1@0"},
		{4, 7, "a*2@0 b*2@0"},
		{7, 9, "a*4@0 b*2@0"},
	} {
		var l inbox.List
		for _, a := range []alert.Alert{placed("a", 1, 0), placed("a", 2, 0), placed("b", 4, 2), placed("a", 6, 0), placed("a", 7, 0)} {
			if !l.Merge(a) {
				l.Add(a)
			}
		}
		l.MarkClaimed(tt.claimed)
		l.DiscardDelivered(tt.delivered)
		if got := summary(l.Alerts()); got != tt.want {
			t.Errorf("claimed to %d, delivered to %d: left %s, want %s", tt.claimed, tt.delivered, got, tt.want)
		}
	}
}

// TestListSince: a merged alert has the time of its first part, also if only a part of it
// is taken, and if its oldest parts were merged.
func TestListSince(t *testing.T) {
	at := func(seq uint64) alert.Alert {
		a := placed("a", seq, 0)
		a.Timestamp = start.Add(time.Duration(seq) * time.Second)
		return a
	}
	for _, tt := range []struct {
		offers, upTo uint64
		taken, left  int // the second of the first part
	}{{1, 1, 1, 0}, {3, 3, 1, 0}, {3, 2, 1, 3}, {40, 30, 1, 31}, {40, 40, 1, 0}} {
		var l inbox.List
		l.Add(at(1))
		for seq := uint64(2); seq <= tt.offers; seq++ {
			l.Merge(at(seq))
		}
		if all := l.Pending(); len(all) != 1 || !all[0].Since.Equal(start.Add(time.Second)) {
			t.Errorf("%d offers: pending = %+v, want one since second 1", tt.offers, all)
		}
		taken, left := takeUpTo(&l, tt.upTo), l.Pending()
		if len(taken) != 1 || !taken[0].Since.Equal(start.Add(time.Duration(tt.taken)*time.Second)) {
			t.Errorf("%d offers up to %d: took %+v, want one since second %d", tt.offers, tt.upTo, taken, tt.taken)
		}
		if tt.left == 0 != (len(left) == 0) || tt.left > 0 && !left[0].Since.Equal(start.Add(time.Duration(tt.left)*time.Second)) {
			t.Errorf("%d offers up to %d: left %+v, want since second %d", tt.offers, tt.upTo, left, tt.left)
		}
	}
}

// takeUpTo takes all alerts up to a sequence.
func takeUpTo(l *inbox.List, seq uint64) []alert.Pending {
	all := l.UpTo(seq)
	l.Take(seq, func(int) bool { return true })
	return all
}

// TestListTakeSome takes every other alert up to a sequence: the others stay, and so do
// those after it.
func TestListTakeSome(t *testing.T) {
	var l inbox.List
	for i, key := range []string{"a", "b", "c", "d", "a", "e"} {
		a := entryAlert(fmt.Sprint(key, i), key, alert.Error)
		a.Seq = uint64(i + 1)
		if !l.Merge(a) {
			l.Add(a)
		}
	}
	l.Take(4, func(i int) bool { return i%2 == 0 })
	if got, want := fmt.Sprint(ids(&l)), "[a4*0 b1*0 d3*0 e5*0]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
