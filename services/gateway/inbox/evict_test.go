package inbox_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// severe is an alert of a severity: e, w or i, and any number behind it.
func severe(key string, n int) alert.Alert {
	a := made(key, n)
	a.Seq = uint64(n)
	a.Severity = map[byte]alert.Severity{'e': alert.Error, 'w': alert.Warning, 'i': alert.Info}[key[0]]
	return a
}

// TestEvictsTheLeastSevere fills an inbox: "50e" are fifty errors, "/w1" is the end
// of the warning w1. What is evicted is the oldest of the least severe.
func TestEvictsTheLeastSevere(t *testing.T) {
	for _, tt := range []struct{ name, delivered, in, gone string }{
		{"the oldest of equals", "", "50w 2w", "w1 w2"},
		{"a warning before an error", "", "1e 49w 1w", "w2"},
		{"information before all", "", "1w 48e 1i 1e", "i50"},
		{"the least severe is the newest", "", "50e 1i 1w", "i51 w52"},
		{"the end of an error that was delivered counts as an error", "1e", "/e1 49w 2w", "w3 w4"},
		{"the end of a warning that was delivered counts as a warning", "1w", "/w1 49e 1e", "/w1"},
		{"the end of what is not known counts as an error", "", "/e900 49w 1w", "w2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := inbox.New()
			n := 0
			offer := func(steps string) (ids []string) {
				for _, step := range strings.Fields(steps) {
					if of, end := strings.CutPrefix(step, "/"); end {
						n++
						a := severe("i", n)
						a.ID, a.DedupKey, a.Resolves = step, step, of
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
			ids := offer(tt.in)
			left := map[string]bool{}
			for _, a := range b.Pending() {
				left[a.ID] = true
			}
			var gone []string
			for _, id := range ids {
				if !left[id] {
					gone = append(gone, id)
				}
			}
			if got := strings.Join(gone, " "); got != tt.gone || b.EvictedSinceTake() != len(gone) {
				t.Errorf("got %q evicted (%d counted), want %q", got, b.EvictedSinceTake(), tt.gone)
			}
		})
	}
}

// TestEvictedSince: the count begins again with each drain, and with a reader that
// was delivered all of it.
func TestEvictedSince(t *testing.T) {
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
		{"drained", func(b *inbox.Inbox) { b.Take(all) }, 0},
		{"cleared", func(b *inbox.Inbox) { b.Clear() }, 0},
		{"all delivered elsewhere", func(b *inbox.Inbox) { b.DiscardDelivered(53) }, 0},
		{"some delivered elsewhere", func(b *inbox.Inbox) { b.DiscardDelivered(52) }, 3},
	} {
		b := fill()
		tt.do(b)
		if got := b.EvictedSinceTake(); got != tt.want || b.Evicted() != 3 {
			t.Errorf("%s: got %d since and %d in all, want %d and 3", tt.name, got, b.Evicted(), tt.want)
		}
	}
}

// TestRaisingRevision: a revision enters where it is more severe than all that is
// known of the alert, under the first alert's id.
func TestRaisingRevision(t *testing.T) {
	of := func(severity alert.Severity, n int) alert.Alert {
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
		{"higher than delivered", func(b *inbox.Inbox) { b.Offer(first); b.Take(all); b.Offer(of(alert.Error, 2)) }, "[a1 error detail 2]"},
		{"the same as delivered", func(b *inbox.Inbox) { b.Offer(first); b.Take(all); b.Offer(of(alert.Info, 2)) }, "[]"},
		{"higher once only", func(b *inbox.Inbox) {
			b.Offer(first)
			b.Take(all)
			b.Offer(of(alert.Error, 2))
			b.Take(all)
			b.Offer(of(alert.Error, 3))
		}, "[]"},
		{"higher twice", func(b *inbox.Inbox) {
			b.Offer(first)
			b.Take(all)
			b.Offer(of(alert.Warning, 2))
			b.Take(all)
			b.Offer(of(alert.Error, 3))
		}, "[a1 error detail 3]"},
		{"a revision of one that entered", func(b *inbox.Inbox) {
			b.Offer(first)
			b.Take(all)
			b.Offer(of(alert.Error, 2))
			b.Offer(of(alert.Error, 3))
		}, "[a1 error detail 3]"},
		{"while it is pending", func(b *inbox.Inbox) { b.Offer(first); b.Offer(of(alert.Error, 2)) }, "[a1 error detail 2]"},
		{"of what was silenced", func(b *inbox.Inbox) { b.Suppress(first); b.Offer(of(alert.Error, 2)) }, "[a1 error detail 2]"},
		{"of what another process delivered", func(b *inbox.Inbox) { b.RecordSeverity(first); b.Offer(of(alert.Error, 2)) }, "[a1 error detail 2]"},
		{"of what is not known", func(b *inbox.Inbox) { b.Offer(of(alert.Error, 2)) }, "[]"},
		{"of what is over", func(b *inbox.Inbox) {
			b.Offer(first)
			end := made("a", 2)
			end.Resolves = "a1"
			b.Offer(end)
			b.Offer(of(alert.Error, 3))
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
