package notifier_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/gateway/notifier"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// TestProperties plays random alerts at random times, with a timer that may be late, and
// checks the invariants.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		throttle := rapid.SampledFrom([]int{1, 2, 5, 60}).Draw(t, "throttle")
		keys := rapid.SampledFrom([]int{3, 20, 300}).Draw(t, "keys")
		pauses := rapid.SampledFrom([]int{50, 1000, 6000, 40000}).Draw(t, "pauses")
		p := &player{Notifier: notifier.New()}
		least := rapid.SampledFrom([]alert.Severity{alert.Info, alert.Warning}).Draw(t, "severity_min")
		p.Enable(notifier.Config{Events: []string{"errors"}, ThrottleSeconds: throttle, SeverityMin: least})

		now := start
		var before []alert.Alert
		newest := make(map[string]alert.Alert) // by key, not resolved yet
		ended := make(map[string]alert.Alert)  // by key, the last resolution
		lost := make(map[string]bool)          // keys of dropped or silenced alerts
		offered := rapid.IntRange(0, 400).Draw(t, "alerts")
		for i := range offered {
			now = now.Add(time.Duration(rapid.IntRange(0, pauses).Draw(t, "pause")) * time.Millisecond)
			key := rapid.IntRange(1, keys).Draw(t, "key")
			a := made(fmt.Sprint(key))
			a.Severity = rapid.SampledFrom(alert.Severities()).Draw(t, "severity")
			a.Category = []alert.Category{alert.Errors, alert.Errors, alert.Threshold, alert.Errors, alert.CI}[key%5]
			if i > 0 && rapid.IntRange(0, 9).Draw(t, "revises") == 0 {
				// A revision has the key and the severity of the alert that it revises.
				a = before[i-1-rapid.IntRange(0, i-1).Draw(t, "revised")]
				a.Revises = a.ID
			}
			if open, ok := newest[a.DedupKey]; a.Revises == "" && ok && rapid.IntRange(0, 3).Draw(t, "resolves") == 0 {
				a.Resolves, a.Category, a.Severity = open.ID, open.Category, alert.Info
			}
			a.ID = fmt.Sprint("id", i)
			switch {
			case a.Resolves != "":
				delete(newest, a.DedupKey)
				if a.Category == alert.Threshold && a.Revises == "" {
					a.DedupKey += normal
				}
				if a.Revises == "" {
					ended[finding(a)] = a
				}
			case a.Revises == "":
				newest[a.DedupKey] = a
				delete(ended, a.DedupKey)
			}
			before = append(before, a)
			if rapid.IntRange(0, 9).Draw(t, "late") > 0 {
				p.until(now)
			}
			dropped := p.Stats().Dropped
			p.out = append(p.out, p.Offer(a, now)...)
			lost[finding(a)] = lost[finding(a)] || p.Stats().Dropped > dropped
			if rapid.IntRange(0, 29).Draw(t, "silence") == 0 {
				lost[finding(a)] = true
				p.SuppressWhere(func(pending alert.Alert) bool { return finding(pending) == finding(a) })
			}
			checkCounts(t, p, i+1)
			if due, ok := p.Next(); ok && due.Sub(now) > time.Minute {
				t.Fatalf("at %v: Next is in %v, want at most 1m", now.Sub(start), due.Sub(now))
			}
		}
		p.until(now.Add(time.Hour))
		if p.Stats().Pending != 0 {
			t.Fatalf("%d alerts pending an hour later, want none", p.Stats().Pending)
		}
		checkPace(t, p.out, time.Duration(throttle)*time.Second)
		checkDuplicates(t, p.out)
		checkEnds(t, p.out)
		over := sentOver(p.out)
		passes := func(a alert.Alert) bool {
			return a.Category != alert.CI && a.Severity.Rank() >= least.Rank() && !lost[finding(a)]
		}
		for key, a := range newest {
			if last, sent := over[key]; passes(a) && (last || !sent) {
				t.Fatalf("%s was raised last, but sent last as resolved or not sent, want it sent as raised", key)
			}
		}
		for key, a := range ended {
			if last, sent := over[key]; passes(a) && sent && !last {
				t.Fatalf("%s was resolved last, but sent last as raised, want it sent as resolved", key)
			}
		}
	})
}

// normal is the suffix of the key of a threshold's resolution.
const normal = " normal"

// finding returns the key of the finding that an alert is about.
func finding(a alert.Alert) string { return strings.TrimSuffix(a.DedupKey, normal) }

// sentOver reports by key whether the last alert sent about a finding said that it is
// over. Within one notification, raised alerts come after resolutions: otherwise they
// would be marked resolved themselves.
func sentOver(out []notifier.Notification) map[string]bool {
	over := make(map[string]bool)
	for _, n := range out {
		for _, ends := range []bool{true, false} {
			for _, a := range n.Alerts {
				if a.IsResolution() == ends {
					over[finding(a)] = ends
				}
			}
		}
	}
	return over
}

// checkEnds checks that no alert is sent twice, and no resolution twice unless it has more to
// report than the resolution.
func checkEnds(t *rapid.T, out []notifier.Notification) {
	sent, over := make(map[string]bool), make(map[string]bool)
	for _, n := range out {
		for _, a := range n.Alerts {
			subject := a.Resolves
			if a.Resolved {
				subject = a.ID
			}
			if sent[a.ID] {
				t.Fatalf("alert %s is sent twice, want once: %+v", a.ID, a)
			}
			if a.IsResolution() && over[subject] && a.Category == alert.Errors {
				t.Fatalf("%s is sent as resolved twice, want once: %+v", subject, a)
			}
			sent[a.ID] = true
			over[subject] = over[subject] || a.IsResolution()
		}
	}
}

// checkCounts: every alert is counted once, and a merged one in the count of another.
func checkCounts(t *rapid.T, p *player, offered int) {
	s := p.Stats()
	if sum := s.Emitted + s.PendingOffers + s.Suppressed + s.Dropped + s.Filtered + s.Revised + s.Ignored + s.Absorbed + s.Silenced; sum != offered {
		t.Fatalf("the counts sum up to %d, want %d offered: %+v", sum, offered, s)
	}
	occurrences := 0
	for _, n := range p.out {
		for _, a := range n.Alerts {
			occurrences += a.Occurrences()
		}
	}
	if s.Pending > 100 || s.NotifyCount != len(p.out) || occurrences != s.Emitted {
		t.Fatalf("%d notifications of %d alerts, want those of %+v, with at most 100 pending", len(p.out), occurrences, s)
	}
}

// checkPace: two notifications are never closer than the throttle, and never 13 within 60 s.
func checkPace(t *rapid.T, out []notifier.Notification, throttle time.Duration) {
	for i, n := range out {
		if i > 0 && n.At.Sub(out[i-1].At) < throttle {
			t.Fatalf("notifications at %v and %v, want %v between them", out[i-1].At.Sub(start), n.At.Sub(start), throttle)
		}
		if i >= 12 && n.At.Sub(out[i-12].At) < time.Minute {
			t.Fatalf("13 notifications from %v to %v, want at most 12 in 60 s", out[i-12].At.Sub(start), n.At.Sub(start))
		}
	}
}

// checkDuplicates: within 30 s, less 50 ms of jitter, a key is sent again only if its
// severity rose or its resolution was sent. A resolution does not count as its finding.
func checkDuplicates(t *rapid.T, out []notifier.Notification) {
	type sentAlert struct {
		at   time.Time
		rank int
	}
	last := make(map[string]sentAlert)
	for _, n := range out {
		for _, a := range n.Alerts {
			if a.IsResolution() {
				delete(last, finding(a))
			}
		}
		for _, a := range n.Alerts {
			if a.IsResolution() {
				continue
			}
			rank := a.Severity.Rank()
			if before, ok := last[a.DedupKey]; ok && n.At.Sub(before.at) < 30*time.Second-50*time.Millisecond && rank <= before.rank {
				t.Fatalf("%s is sent twice within %v, want at least 29.95s", a.DedupKey, n.At.Sub(before.at))
			}
			last[a.DedupKey] = sentAlert{n.At, rank}
		}
	}
}
