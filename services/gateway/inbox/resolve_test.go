package inbox_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// player offers alerts to an inbox as a detector raises them: each a new one of
// its key, or the end of the newest of its key.
type player struct {
	*inbox.Inbox
	seq    uint64
	newest map[string]string
	told   []alert.Alert
}

func newPlayer() *player { return &player{Inbox: inbox.New(), newest: map[string]string{}} }

// category is what a key is of: what begins with c is CI, with t a threshold.
func category(key string) alert.Category {
	switch key[0] {
	case 'c':
		return alert.CI
	case 't':
		return alert.Threshold
	default:
		return alert.Regression
	}
}

func (p *player) offer(key string, ends bool) {
	p.seq++
	a := made(key, int(p.seq))
	a.Seq, a.Category, a.Title = p.seq, category(key), key
	if ends {
		a.Severity, a.Title, a.Resolves = alert.Info, "Resolved: "+key, p.newest[key]
		delete(p.newest, key)
	} else {
		p.newest[key] = a.ID
	}
	p.Offer(a)
}

// drain keeps what is told in the order in which it was raised.
func (p *player) drain(seq uint64) {
	alerts := p.Take(seq)
	slices.SortStableFunc(alerts, func(a, b alert.Alert) int { return a.Timestamp.Compare(b.Timestamp) })
	p.told = append(p.told, alerts...)
}

// play reads "A B -A |": A and B are raised, A ends, and all is drained; what is
// told is written the same way, (A) for one that was over before.
func play(timeline string) string {
	p := newPlayer()
	var lines []string
	for _, step := range strings.Fields(timeline) {
		if step != "|" {
			p.offer(strings.TrimPrefix(step, "-"), strings.HasPrefix(step, "-"))
			continue
		}
		p.told = nil
		p.drain(all)
		slices.SortFunc(p.told, func(a, b alert.Alert) int {
			return cmp.Or(strings.Compare(a.DedupKey, b.DedupKey), a.Timestamp.Compare(b.Timestamp))
		})
		var keys []string
		for _, a := range p.told {
			key := a.DedupKey
			switch {
			case a.Resolved:
				key = "(" + key + ")"
			case a.Resolves != "":
				key = "-" + key
			}
			if a.Count > 1 {
				key += fmt.Sprint("*", a.Count)
			}
			keys = append(keys, key)
		}
		lines = append(lines, strings.Join(keys, " "))
	}
	return strings.Join(lines, " | ")
}

func TestResolved(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"over before it was told", "a -a |", "(a)"},
		{"over after it was told", "a | -a |", "a | -a"},
		{"repeated, then over", "a a a -a |", "(a)*3"},
		{"told, repeated, then over", "a | a -a |", "a | (a)"},
		{"over and raised again", "a -a a |", "(a) a"},
		{"over twice", "a -a a -a |", "(a)*2"},
		{"told, over and raised again", "a | -a a |", "a | -a a"},
		{"told, over twice", "a | -a a -a |", "a | -a (a)"},
		{"comes and goes", "a -a a -a a -a a |", "(a)*3 a"},
		{"others stay", "a b -a |", "(a) b"},
		{"a CI success is told by itself", "c -c |", "(c) -c"},
		{"of a failure that was told as well", "c | -c |", "c | -c"},
		{"back to normal is told by itself", "t t -t |", "(t)*2 -t"},
	} {
		if got := play(tt.in); got != tt.want {
			t.Errorf("%s: %s\n got %s\nwant %s", tt.name, tt.in, got, tt.want)
		}
	}
}

// TestANewLevelIsNews: a regression that ends by staying is over, and what is told
// beside that is not that all is well.
func TestANewLevelIsNews(t *testing.T) {
	for _, drained := range []bool{false, true} {
		p := newPlayer()
		p.offer("r", false)
		if drained {
			p.drain(p.seq)
			p.told = nil
		}
		end := made("r", 2)
		end.Seq, end.Category, end.Severity, end.Title = 2, alert.Regression, alert.Info, "r has a new level"
		end.Resolves, end.Context = p.newest["r"], map[string]any{alert.OutcomeKey: alert.NewLevel}
		p.Offer(end)
		p.drain(2)
		var got []string
		for _, a := range p.told {
			got = append(got, a.Title)
		}
		want := []string{"New level: r", "r has a new level"}
		if drained {
			want = want[1:]
		}
		if !slices.Equal(got, want) {
			t.Errorf("drained in between: %t, got %q, want %q", drained, got, want)
		}
	}
}

// TestResolvedIsOneLine: the alert as its reader sees it.
func TestResolvedIsOneLine(t *testing.T) {
	p := newPlayer()
	p.offer("a", false)
	p.offer("a", true)
	got := p.Take(all)
	want := made("a", 1)
	if len(got) != 1 || got[0].Title != "Resolved: a" || got[0].Detail != want.Detail || got[0].Context != nil || !got[0].Resolved ||
		got[0].Severity != want.Severity || got[0].ID != want.ID || !got[0].Timestamp.Equal(want.Timestamp) || got[0].Resolves != "" {
		t.Errorf("got %+v, want the detail %q in one line that is resolved", got, want.Detail)
	}
}

// TestAnotherReaderWasTold: another reader of the client was told up to a place
// that lies between an alert and its end. What it was not told is told here.
func TestAnotherReaderWasTold(t *testing.T) {
	for _, tt := range []struct{ key, want string }{
		{"a", "Resolved: a true"}, // the other was told that it began
		{"c", "Resolved: c false"},
	} {
		p := newPlayer()
		p.offer(tt.key, false)
		p.offer(tt.key, true)
		p.DiscardDelivered(1)
		p.drain(all)
		if len(p.told) != 1 || fmt.Sprint(p.told[0].Title, " ", p.told[0].Resolved) != tt.want {
			t.Errorf("%s: %+v", tt.key, p.told)
		}
	}
}

// TestNothingIsLostOrToldTwice raises, ends and drains at random, up to any
// place, as a client with several readers does.
func TestNothingIsLostOrToldTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPlayer()
		began, ended := map[string]int{}, map[string]int{}
		for range rapid.IntRange(0, inbox.Capacity).Draw(t, "steps") {
			key := rapid.SampledFrom([]string{"a", "b", "c", "t"}).Draw(t, "key")
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				p.drain(rapid.Uint64Range(0, p.seq).Draw(t, "up to"))
			case 1, 2:
				if p.newest[key] != "" {
					p.offer(key, true)
					ended[key]++
				}
			default:
				p.offer(key, false)
				began[key]++
			}
		}
		p.drain(all)
		ids, said := map[string]bool{}, map[string]int{}
		over := map[string]bool{} // as the reader knows it
		for _, a := range p.told {
			if ids[a.ID] {
				t.Fatalf("%s is told twice", a.ID)
			}
			ids[a.ID] = true
			over[a.DedupKey] = a.Over()
			if a.Resolves == "" {
				said[a.DedupKey] += a.Occurrences()
			} else if category(a.DedupKey) != alert.Regression {
				ended[a.DedupKey] -= a.Occurrences()
			}
		}
		for _, key := range []string{"a", "b", "c", "t"} {
			if said[key] != began[key] || over[key] != (began[key] > 0 && p.newest[key] == "") {
				t.Fatalf("%s: told %d of %d, and that it is over: %v\n%+v", key, said[key], began[key], over[key], p.told)
			}
			if category(key) != alert.Regression && ended[key] != 0 {
				t.Fatalf("%s: %d ends that are news were not told", key, ended[key])
			}
		}
		if s := p.Stats(); s.Evicted != 0 || uint64(len(p.told)) > s.Offered-s.Absorbed {
			t.Fatalf("%d told: %+v", len(p.told), s)
		}
	})
}
