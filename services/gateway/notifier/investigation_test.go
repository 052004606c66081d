package notifier_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/gateway/notifier"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// investigated returns the revision of made(key) with an investigation.
func investigated(key string, status alert.InvestigationStatus) alert.Alert {
	return alert.RevisionFor(made(key), alert.Investigation{SessionID: "session " + key, Status: status, Summary: "because"})
}

// TestInvestigation: the end of an investigation is sent once and is no duplicate of its alert;
// its start only changes a pending alert.
func TestInvestigation(t *testing.T) {
	const running, completed = alert.InvestigationInProgress, alert.InvestigationCompleted
	errorsOf := func(page string) *notifier.Notifier {
		s := notifier.New()
		c := notifier.DefaultConfig()
		c.Events, c.URL = []string{"network_errors"}, page
		s.Enable(c)
		return s
	}
	warnings := func() *notifier.Notifier {
		s := notifier.New()
		s.Enable(notifier.DefaultConfig())
		return s
	}
	weak := func(status alert.InvestigationStatus) alert.Alert {
		a := investigated("A", status)
		a.Severity = alert.Info
		return a
	}
	repeated := func(key string) alert.Alert {
		a := made(key)
		a.ID = "repetition"
		return a
	}
	for _, tt := range []struct {
		name string
		s    *notifier.Notifier
		do   func(p *player)
		want string
	}{
		{"within the duplicate window", enabled(5), func(p *player) { p.offer(made("A"), at(0)); p.offer(investigated("A", completed), at(6)) }, "0 A; 6 [A completed]"},
		{"within the throttle", enabled(5), func(p *player) { p.offer(made("A"), at(0)); p.offer(investigated("A", completed), at(1)) }, "0 A; 5 [A completed]"},
		{"its start", enabled(5), func(p *player) { p.offer(made("A"), at(0)); p.offer(investigated("A", running), at(6)) }, "0 A"},
		{"cancelled", enabled(5), func(p *player) {
			p.offer(made("A"), at(0))
			p.offer(investigated("A", alert.InvestigationCancelled), at(6))
		}, "0 A"},
		{"pending", enabled(5), func(p *player) {
			p.offer(made("B"), at(0))
			p.offer(made("A"), at(1))
			p.offer(investigated("A", running), at(2))
		}, "0 B; 5 A in_progress"},
		{"ended while pending", enabled(5), func(p *player) {
			p.offer(made("B"), at(0))
			p.offer(made("A"), at(1))
			p.offer(investigated("A", completed), at(2))
			p.offer(investigated("A", completed), at(60))
		}, "0 B; 5 A completed"},
		{"published twice", enabled(5), func(p *player) {
			p.offer(made("A"), at(0))
			p.offer(investigated("A", completed), at(6))
			p.offer(investigated("A", completed), at(60))
		}, "0 A; 6 [A completed]"},
		{"a repetition after it is still a duplicate of the alert", enabled(5), func(p *player) {
			p.offer(made("A"), at(0))
			p.offer(investigated("A", completed), at(6))
			p.offer(repeated("A"), at(12))
			p.offer(repeated("A"), at(31))
		}, "0 A; 6 [A completed]; 31 A"},
		{"and no duplicate of the line", enabled(5), func(p *player) {
			p.offer(investigated("A", completed), at(0))
			p.offer(repeated("A"), at(6))
		}, "0 [A completed]; 6 A"},
		{"a pending line is not merged with a repetition", enabled(5), func(p *player) {
			p.offer(made("B"), at(0))
			p.offer(investigated("A", completed), at(1))
			p.offer(repeated("A"), at(2))
		}, "0 B; 5 [A completed] A"},
		{"below the severity", warnings(), func(p *player) { p.offer(weak(completed), at(0)) }, ""},
		{"of another category", errorsOf(""), func(p *player) { p.offer(investigated("A", completed), at(0)) }, ""},
		{"ended before it was enabled", notifier.New(), func(p *player) {
			p.offer(investigated("A", completed), at(0))
			p.Enable(notifier.DefaultConfig())
			p.offer(investigated("A", completed), at(6))
		}, ""},
	} {
		p := &player{Notifier: tt.s}
		tt.do(p)
		p.until(at(1e6))
		if got := investigations(p.out); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// investigations writes notifications with the statuses of investigations, and lines about ends
// in brackets.
func investigations(out []notifier.Notification) (text string) {
	for i, n := range out {
		if i > 0 {
			text += "; "
		}
		text += fmt.Sprint(n.At.Sub(start).Seconds())
		for _, a := range n.Alerts {
			name := a.DedupKey
			if a.Investigation != nil {
				name += " " + string(a.Investigation.Status)
			}
			if a.OnlyInvestigation {
				name = "[" + name + "]"
			}
			text += " " + name
		}
	}
	return text
}

// TestInvestigationProperties: in any interleaving of repetitions, counts and investigations, each
// end is sent once, with the alert or as a line, and every alert is counted once.
func TestInvestigationProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &player{Notifier: enabled(rapid.SampledFrom([]int{1, 5, 60}).Draw(t, "throttle"))}
		now := start
		ended := map[string]bool{}
		steps := rapid.IntRange(1, 60).Draw(t, "steps")
		for i := range steps {
			now = now.Add(time.Duration(rapid.IntRange(0, 9000).Draw(t, "pause")) * time.Millisecond)
			key := rapid.SampledFrom([]string{"A", "B", "C"}).Draw(t, "key")
			a := made(key)
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0: // repeated
				a.ID = fmt.Sprint("id", i)
			case 1: // counted
				a.ID, a.Revises, a.Count = fmt.Sprint("id", i), a.ID, i
			case 2:
				a = investigated(key, alert.InvestigationInProgress)
				if ended[key] {
					a.ID, a.Investigation = fmt.Sprint("id", i), nil
				}
			default:
				a = investigated(key, alert.InvestigationCompleted)
				ended[key] = true
			}
			p.offer(a, now)
			checkCounts(t, p, i+1)
		}
		p.until(now.Add(time.Hour))
		sent := map[string]int{}
		for _, n := range p.out {
			for _, a := range n.Alerts {
				if a.Investigation.Ended() {
					sent[a.DedupKey]++
				}
			}
		}
		for _, key := range []string{"A", "B", "C"} {
			if want := map[bool]int{true: 1}[ended[key]]; sent[key] != want {
				t.Fatalf("the end of %s was sent %d times, want %d: %s", key, sent[key], want, investigations(p.out))
			}
		}
	})
}
