package inbox_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// player offers alerts to an inbox as a detector raises them: each a new one of its key,
// or the resolution of the newest of its key.
type player struct {
	*inbox.Inbox
	seq    uint64
	newest map[string]string
	taken  []alert.Alert
}

func newPlayer() *player { return &player{Inbox: inbox.New(), newest: map[string]string{}} }

// category returns CI for keys that begin with c, Threshold for t, and Regression for
// others.
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

// take takes alerts and keeps them in the order in which they were raised.
func (p *player) take(seq uint64) {
	alerts := p.Take(seq)
	slices.SortStableFunc(alerts, func(a, b alert.Alert) int { return a.Timestamp.Compare(b.Timestamp) })
	p.taken = append(p.taken, alerts...)
}

// play reads "A B -A |": A and B are raised, A is resolved, and all alerts are taken. It
// writes the alerts taken in the same way, with (A) for one marked resolved.
func play(timeline string) string {
	p := newPlayer()
	var lines []string
	for _, step := range strings.Fields(timeline) {
		if step != "|" {
			p.offer(strings.TrimPrefix(step, "-"), strings.HasPrefix(step, "-"))
			continue
		}
		p.taken = nil
		p.take(all)
		slices.SortFunc(p.taken, func(a, b alert.Alert) int {
			if c := strings.Compare(a.DedupKey, b.DedupKey); c != 0 {
				return c
			}
			return a.Timestamp.Compare(b.Timestamp)
		})
		var keys []string
		for _, a := range p.taken {
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
		{"resolved before it was taken", "a -a |", "(a)"},
		{"resolved after it was taken", "a | -a |", "a | -a"},
		{"repeated, then resolved", "a a a -a |", "(a)*3"},
		{"taken, repeated, then resolved", "a | a -a |", "a | (a)"},
		{"resolved and raised again", "a -a a |", "(a) a"},
		{"resolved twice", "a -a a -a |", "(a)*2"},
		{"taken, resolved and raised again", "a | -a a |", "a | -a a"},
		{"taken, resolved twice", "a | -a a -a |", "a | -a (a)"},
		{"flapping", "a -a a -a a -a a |", "(a)*3 a"},
		{"others stay", "a b -a |", "(a) b"},
		{"a CI success is an alert of its own", "c -c |", "(c) -c"},
		{"a CI success after the failure was taken", "c | -c |", "c | -c"},
		{"back to normal is an alert of its own", "t t -t |", "(t)*2 -t"},
	} {
		if got := play(tt.in); got != tt.want {
			t.Errorf("%s: play(%q) = %q, want %q", tt.name, tt.in, got, tt.want)
		}
	}
}

// TestNewLevel: a regression that ends because it stays is marked "New level", not
// "Resolved", and its end is an alert of its own.
func TestNewLevel(t *testing.T) {
	for _, taken := range []bool{false, true} {
		p := newPlayer()
		p.offer("r", false)
		if taken {
			p.take(p.seq)
			p.taken = nil
		}
		end := made("r", 2)
		end.Seq, end.Category, end.Severity, end.Title = 2, alert.Regression, alert.Info, "r has a new level"
		end.Resolves, end.Context = p.newest["r"], map[string]any{alert.OutcomeKey: alert.NewLevel}
		p.Offer(end)
		p.take(2)
		var got []string
		for _, a := range p.taken {
			got = append(got, a.Title)
		}
		want := []string{"New level: r", "r has a new level"}
		if taken {
			want = want[1:]
		}
		if !slices.Equal(got, want) {
			t.Errorf("taken before the end: %t: titles = %q, want %q", taken, got, want)
		}
	}
}

// TestResolvedIsOneLine: a resolved alert keeps its fields but the context.
func TestResolvedIsOneLine(t *testing.T) {
	p := newPlayer()
	p.offer("a", false)
	p.offer("a", true)
	want := made("a", 1)
	want.Title, want.Category, want.Resolved = "Resolved: a", category("a"), true
	if diff := cmp.Diff([]alert.Alert{want}, p.Take(all), cmpopts.IgnoreFields(alert.Alert{}, "Seq")); diff != "" {
		t.Errorf("Take (-want +got):\n%s", diff)
	}
}

// TestPositionBetweenAlertAndResolution: another reader's position lies between an alert
// and its resolution. This reader delivers the resolution.
func TestPositionBetweenAlertAndResolution(t *testing.T) {
	for _, tt := range []struct{ key, want string }{
		{"a", "Resolved: a true"}, // the other reader delivered that it was raised
		{"c", "Resolved: c false"},
	} {
		p := newPlayer()
		p.offer(tt.key, false)
		p.offer(tt.key, true)
		p.DiscardDelivered(1)
		p.take(all)
		var got []string
		for _, a := range p.taken {
			got = append(got, fmt.Sprint(a.Title, " ", a.Resolved))
		}
		if diff := cmp.Diff([]string{tt.want}, got); diff != "" {
			t.Errorf("key %s (-want +got):\n%s", tt.key, diff)
		}
	}
}

// TestNothingIsLostOrTakenTwice raises, resolves and takes at random, up to any sequence,
// as a client with several readers does.
func TestNothingIsLostOrTakenTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPlayer()
		raised, resolved := map[string]int{}, map[string]int{}
		for range rapid.IntRange(0, inbox.Capacity).Draw(t, "steps") {
			key := rapid.SampledFrom([]string{"a", "b", "c", "t"}).Draw(t, "key")
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				p.take(rapid.Uint64Range(0, p.seq).Draw(t, "up to"))
			case 1, 2:
				if p.newest[key] != "" {
					p.offer(key, true)
					resolved[key]++
				}
			default:
				p.offer(key, false)
				raised[key]++
			}
		}
		p.take(all)
		ids, taken := map[string]bool{}, map[string]int{}
		over := map[string]bool{} // as the reader knows it
		for _, a := range p.taken {
			if ids[a.ID] {
				t.Fatalf("alert %s was taken twice, want once", a.ID)
			}
			ids[a.ID] = true
			over[a.DedupKey] = a.IsResolution()
			if a.Resolves == "" {
				taken[a.DedupKey] += a.Occurrences()
			} else if category(a.DedupKey) != alert.Regression {
				resolved[a.DedupKey] -= a.Occurrences()
			}
		}
		for _, key := range []string{"a", "b", "c", "t"} {
			if taken[key] != raised[key] {
				t.Fatalf("%s: took %d occurrences, want %d\n%+v", key, taken[key], raised[key], p.taken)
			}
			if want := raised[key] > 0 && p.newest[key] == ""; over[key] != want {
				t.Fatalf("%s: the reader knows that it is over: %t, want %t\n%+v", key, over[key], want, p.taken)
			}
			if category(key) != alert.Regression && resolved[key] != 0 {
				t.Fatalf("%s: %d resolutions were not taken, want none", key, resolved[key])
			}
		}
		if s := p.Stats(); s.Evicted != 0 || uint64(len(p.taken)) > s.Offered-s.Absorbed {
			t.Fatalf("took %d alerts, Stats = %+v, want no more than offered and nothing evicted", len(p.taken), s)
		}
	})
}
