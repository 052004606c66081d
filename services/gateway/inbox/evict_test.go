package inbox_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// severe returns an alert whose severity is the first letter of its key: e, w or i.
func severe(key string, n int) alert.Alert {
	a := made(key, n)
	a.Seq = uint64(n)
	a.Severity = map[byte]alert.Severity{'e': alert.Error, 'w': alert.Warning, 'i': alert.Info}[key[0]]
	return a
}

// TestEvictsTheLeastSevere fills an inbox: "50e" are fifty errors, "/w1" is the
// resolution of the warning w1. The oldest of the least severe alerts is evicted.
func TestEvictsTheLeastSevere(t *testing.T) {
	for _, tt := range []struct{ name, delivered, offered, evicted string }{
		{"the oldest of equals", "", "50w 2w", "w1 w2"},
		{"a warning before an error", "", "1e 49w 1w", "w2"},
		{"info before all", "", "1w 48e 1i 1e", "i50"},
		{"the least severe is the newest", "", "50e 1i 1w", "i51 w52"},
		{"the resolution of a delivered error counts as an error", "1e", "/e1 49w 2w", "w3 w4"},
		{"the resolution of a delivered warning counts as a warning", "1w", "/w1 49e 1e", "/w1"},
		{"the resolution of an unknown alert counts as an error", "", "/e900 49w 1w", "w2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := inbox.New()
			n := 0
			offer := func(steps string) (ids []string) {
				for _, step := range strings.Fields(steps) {
					if id, end := strings.CutPrefix(step, "/"); end {
						n++
						a := severe("i", n)
						a.ID, a.DedupKey, a.Resolves = step, step, id
						b.Offer(a)
						ids = append(ids, a.ID)
						continue
					}
					var times int
					var key string
					if _, err := fmt.Sscanf(step, "%d%s", &times, &key); err != nil {
						t.Fatal(err)
					}
					for range times {
						n++
						a := severe(key, n)
						a.ID, a.DedupKey = fmt.Sprint(key, n), fmt.Sprint(key, n)
						b.Offer(a)
						ids = append(ids, a.ID)
					}
				}
				return ids
			}
			offer(tt.delivered)
			b.Take(all)
			ids := offer(tt.offered)
			pending := map[string]bool{}
			for _, a := range b.Pending() {
				pending[a.ID] = true
			}
			var evicted []string
			for _, id := range ids {
				if !pending[id] {
					evicted = append(evicted, id)
				}
			}
			if got := strings.Join(evicted, " "); got != tt.evicted {
				t.Errorf("evicted = %q, want %q", got, tt.evicted)
			}
			if got, want := b.EvictedSinceTake(), len(evicted); got != want {
				t.Errorf("EvictedSinceTake = %d, want %d", got, want)
			}
		})
	}
}

// TestEvictedSinceTake: the count starts over when alerts are taken or cleared, and when
// another reader delivered all of them.
func TestEvictedSinceTake(t *testing.T) {
	fill := func() *inbox.Inbox {
		b := inbox.New()
		for i := range inbox.Capacity + 3 {
			b.Offer(severe(fmt.Sprint("w", i), i+1))
		}
		return b
	}
	for _, tt := range []struct {
		name string
		do   func(b *inbox.Inbox)
		want int
	}{
		{"nothing", func(*inbox.Inbox) {}, 3},
		{"taken", func(b *inbox.Inbox) { b.Take(all) }, 0},
		{"cleared", func(b *inbox.Inbox) { b.Clear() }, 0},
		{"all delivered elsewhere", func(b *inbox.Inbox) { b.DiscardDelivered(53) }, 0},
		{"some delivered elsewhere", func(b *inbox.Inbox) { b.DiscardDelivered(52) }, 3},
	} {
		b := fill()
		tt.do(b)
		if got := b.EvictedSinceTake(); got != tt.want || b.Evicted() != 3 {
			t.Errorf("%s: EvictedSinceTake = %d and Evicted = %d, want %d and 3", tt.name, got, b.Evicted(), tt.want)
		}
	}
}

// TestRaisingRevision: a revision is added if it is more severe than every earlier state
// of the alert, under the first alert's id.
func TestRaisingRevision(t *testing.T) {
	revision := func(severity alert.Severity, n int) alert.Alert {
		a := revising(made("a", n), "a1")
		a.Severity = severity
		return a
	}
	first := made("a", 1)
	first.Severity = alert.Info
	for _, tt := range []struct {
		name string
		do   func(b *inbox.Inbox)
		want string
	}{
		{"higher than delivered", func(b *inbox.Inbox) { b.Offer(first); b.Take(all); b.Offer(revision(alert.Error, 2)) }, "[a1 error detail 2]"},
		{"the same as delivered", func(b *inbox.Inbox) { b.Offer(first); b.Take(all); b.Offer(revision(alert.Info, 2)) }, "[]"},
		{"higher once only", func(b *inbox.Inbox) {
			b.Offer(first)
			b.Take(all)
			b.Offer(revision(alert.Error, 2))
			b.Take(all)
			b.Offer(revision(alert.Error, 3))
		}, "[]"},
		{"higher twice", func(b *inbox.Inbox) {
			b.Offer(first)
			b.Take(all)
			b.Offer(revision(alert.Warning, 2))
			b.Take(all)
			b.Offer(revision(alert.Error, 3))
		}, "[a1 error detail 3]"},
		{"a revision of an added one", func(b *inbox.Inbox) {
			b.Offer(first)
			b.Take(all)
			b.Offer(revision(alert.Error, 2))
			b.Offer(revision(alert.Error, 3))
		}, "[a1 error detail 3]"},
		{"while it is pending", func(b *inbox.Inbox) { b.Offer(first); b.Offer(revision(alert.Error, 2)) }, "[a1 error detail 2]"},
		{"of a suppressed alert", func(b *inbox.Inbox) { b.Suppress(first); b.Offer(revision(alert.Error, 2)) }, "[a1 error detail 2]"},
		{"of an alert delivered by another process", func(b *inbox.Inbox) { b.RecordElsewhere(first); b.Offer(revision(alert.Error, 2)) }, "[a1 error detail 2]"},
		{"of an unknown alert", func(b *inbox.Inbox) { b.Offer(revision(alert.Error, 2)) }, "[]"},
		{"of a resolved alert", func(b *inbox.Inbox) {
			b.Offer(first)
			end := made("a", 2)
			end.Resolves = "a1"
			b.Offer(end)
			b.Offer(revision(alert.Error, 3))
		}, "[a1 info detail 1]"},
	} {
		b := inbox.New()
		tt.do(b)
		var pending []string
		for _, a := range b.Pending() {
			pending = append(pending, fmt.Sprint(a.ID, " ", a.Severity, " ", a.Detail, a.Revises))
		}
		if got := fmt.Sprint(pending); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}
