package notifier_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/notifier"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

var start = time.Date(2026, 1, 28, 14, 30, 0, 0, time.UTC)

func at(seconds float64) time.Time {
	return start.Add(time.Duration(seconds*1000+0.5) * time.Millisecond)
}

func made(key string) alert.Alert {
	return alert.Alert{
		ID: "id of " + key, Severity: alert.Error, Category: alert.Errors, Title: "title of " + key, App: "web",
		DedupKey: key, Timestamp: start, CorrelationID: "id of " + key, Source: alert.SourceErrors,
	}
}

// enabled returns a stream that lets everything through.
func enabled(throttle int) *notifier.Notifier {
	s := notifier.New()
	c := notifier.DefaultConfig()
	c.ThrottleSeconds, c.SeverityMin = throttle, alert.Info
	s.Enable(c)
	return s
}

// player plays alerts to a stream and keeps its timer like a gateway does.
type player struct {
	*notifier.Notifier
	out []notifier.Notification
}

// until lets the timer go off that is due before now.
func (p *player) until(now time.Time) {
	for {
		due, ok := p.Next()
		if !ok || !due.Before(now) {
			return
		}
		p.out = append(p.out, p.Due(due)...)
	}
}

func (p *player) offer(a alert.Alert, now time.Time) {
	p.until(now)
	p.out = append(p.out, p.Offer(a, now)...)
}

// String tells what went out as "0: A; 5: B*2 C", what was over before as (A)
// and an end as !A.
func (p *player) String() string {
	var list []string
	for _, n := range p.out {
		var keys []string
		for _, a := range n.Alerts {
			key := a.DedupKey
			switch {
			case a.Resolved:
				key = "(" + key + ")"
			case a.Resolves != "":
				key = "!" + key
			}
			if a.Count > 1 {
				key += fmt.Sprint("*", a.Count)
			}
			keys = append(keys, key)
		}
		list = append(list, fmt.Sprintf("%v: %s", n.At.Sub(start).Seconds(), strings.Join(keys, " ")))
	}
	return strings.Join(list, "; ")
}

// play offers alerts written as "0 A, 1.5 B" and waits for the last batch. A
// key ending in - is a warning.
func play(throttle int, timeline string) *player {
	p := &player{Notifier: enabled(throttle)}
	for _, step := range strings.Split(timeline, ", ") {
		var seconds float64
		var key string
		if _, err := fmt.Sscan(step, &seconds, &key); err != nil {
			panic(err)
		}
		a := made(strings.TrimSuffix(key, "-"))
		if strings.HasSuffix(key, "-") {
			a.Severity = alert.Warning
		}
		p.offer(a, at(seconds))
	}
	p.until(at(1e6))
	return p
}

// every writes n different alerts, apart seconds from each other.
func every(n int, apart float64) string {
	var steps []string
	for i := range n {
		steps = append(steps, fmt.Sprintf("%.3f k%02d", float64(i)*apart, i))
	}
	return strings.Join(steps, ", ")
}

func TestTimelines(t *testing.T) {
	twelve := func(apart int) string {
		var list []string
		for i := range 12 {
			list = append(list, fmt.Sprintf("%d: k%02d", i*apart, i))
		}
		return strings.Join(list, "; ") + "; 60: k12 k13 k14"
	}
	for _, c := range []struct {
		name     string
		throttle int
		in, want string
	}{
		// From the contract, section 6.
		{"a batch at the throttle's end", 5, "0 A, 0.2 B, 0.4 C", "0: A; 5: B C"},
		{"a batch settles 2 s", 5, "0 A, 4.9 B", "0: A; 6.9: B"},
		{"an alert after the throttle takes it along", 5, "0 A, 4.9 B, 5.5 C", "0: A; 5.5: B C"},
		{"12 in 60 s, one a second", 1, every(15, 1), twelve(1)},
		{"12 in 60 s, one every 4 s", 1, every(15, 4), twelve(4)},
		{"a duplicate within 30 s", 5, "0 A, 29.9 A", "0: A"},
		{"no duplicate at 30 s", 5, "0 A, 30 A", "0: A; 30: A"},
		{"30 s from the sending", 5, "0 A, 1 B, 2 B, 34.9 B, 35 B", "0: A; 5: B*2; 35: B"},

		// What follows from its rules.
		{"exactly at the throttle's end", 5, "0 A, 5 B", "0: A; 5: B"},
		{"before the throttle's end", 5, "0 A, 4.949 B", "0: A; 6.949: B"},
		{"just before the throttle's end", 5, "0 A, 4.95 B", "0: A; 5: B"},
		{"one a second, unevenly", 1, "0 A, 0.998 B, 2.003 C, 2.99 D, 4 E", "0: A; 1: B; 2.003: C; 3.003: D; 4.003: E"},
		{"just before the duplicate window's end", 5, "0 A, 29.949 A, 29.95 A", "0: A; 29.95: A"},
		{"the throttle counts from batches too", 5, "0 A, 1 B, 6 C", "0: A; 5: B; 10: C"},
		{"taken along at the moment the throttle ends", 5, "0 A, 1 B, 5 C", "0: A; 5: B C"},
		{"a repetition takes its batch along", 5, "0 A, 4 B, 5.5 B", "0: A; 5.5: B*2"},
		{"a duplicate takes nothing along", 5, "0 A, 4 B, 5.5 A", "0: A; 6: B"},
		{"the severity has risen", 5, "0 A-, 1 A, 6 A, 7 A-", "0: A; 5: A"},
		{"a duplicate is one whatever pends", 5, "0 A-, 1 A, 2 A-, 3 A", "0: A; 5: A*2"},
		{"sorted by severity", 5, "0 A, 1 B-, 2 C", "0: A; 5: C B"},
		{"the window has room at 60 s", 5, every(12, 5) + ", 56 L, 59.9 M, 60 N", strings.TrimSuffix(twelve(5), "k12 k13 k14") + "L M N"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := play(c.throttle, c.in).String(); got != c.want {
				t.Errorf("%s\n got %s\nwant %s", c.in, got, c.want)
			}
		})
	}
}

// TestEnds: !A is the end of A, an info alert, where all severities pass and
// where only warnings do. That of T has a key of its own, as thresholds do.
func TestEnds(t *testing.T) {
	for _, c := range []struct{ name, in, all, warnings string }{
		{"over before it was sent", "0 X, 1 A, 2 !A", "0: X; 5: (A)", "0: X; 5: (A)"},
		{"over after it was sent", "0 A, 6 !A", "0: A; 6: !A", "0: A"},
		{"repeated, then over", "0 X, 1 A, 2 A, 3 !A", "0: X; 5: (A)*2", "0: X; 5: (A)*2"},
		{"over and there again", "0 X, 1 A, 2 !A, 3 A", "0: X; 5: (A) A", "0: X; 5: (A) A"},
		{"that it was over makes no duplicate of the next", "0 X, 1 A, 2 !A, 6 A", "0: X; 5: (A); 10: A", "0: X; 5: (A); 10: A"},
		{"its end is no duplicate of it, but of itself", "0 A, 6 !A, 12 !A", "0: A; 6: !A", "0: A"},
		{"one that was not sent for being a duplicate", "0 A, 6 A, 7 !A", "0: A; 7: !A", "0: A"},
		{"there again after its end was sent", "0 A, 6 !A, 12 A", "0: A; 6: !A; 12: A", "0: A"},
		{"and over again", "0 A, 6 !A, 12 A, 18 !A", "0: A; 6: !A; 12: A; 18: !A", "0: A"},
		{"there again while its end waits", "0 A, 1 !A, 2 A", "0: A; 5: A !A", "0: A"},
		{"there again after its end was sent with another of its kind", "0 T, 1 T, 6 !T, 12 T, 18 !T", "0: T; 6: !T-ok; 12: T; 18: !T-ok", "0: T"},
		{"there again after the line that it was over", "0 X, 1 A, 2 !A, 6 A, 12 A", "0: X; 5: (A); 10: A", "0: X; 5: (A); 10: A"},
	} {
		for severity, want := range map[alert.Severity]string{alert.Info: c.all, alert.Warning: c.warnings} {
			p := &player{Notifier: enabled(5)}
			config := p.Config()
			config.SeverityMin = severity
			p.Enable(config)
			ids := map[string]string{}
			for i, step := range strings.Split(c.in, ", ") {
				var seconds float64
				var key string
				if _, err := fmt.Sscan(step, &seconds, &key); err != nil {
					t.Fatal(err)
				}
				key, ends := strings.TrimPrefix(key, "!"), strings.HasPrefix(key, "!")
				a := made(key)
				a.ID = fmt.Sprint("id", i)
				if ends {
					a.Resolves, a.Severity = ids[key], alert.Info
					if key == "T" {
						a.Category, a.DedupKey = alert.Threshold, "T-ok"
					}
				} else {
					ids[key] = a.ID
				}
				p.offer(a, at(seconds))
			}
			p.until(at(1e6))
			if got := p.String(); got != want {
				t.Errorf("%s, from %s: %s\n got %s\nwant %s", c.name, severity, c.in, got, want)
			}
		}
	}
}

func TestFullBatch(t *testing.T) {
	for _, c := range []struct {
		alerts, batch, dropped int
	}{{100, 99, 0}, {101, 100, 0}, {102, 100, 1}} {
		p := play(5, every(c.alerts, 0.009))
		if len(p.out) != 2 || p.out[1].At != at(5) || len(p.out[0].Alerts) != 1 || len(p.out[1].Alerts) != c.batch || p.Stats().Dropped != c.dropped {
			t.Errorf("of %d: %d notifications, %d dropped: %v", c.alerts, len(p.out), p.Stats().Dropped, p)
		}
	}

	p := &player{Notifier: enabled(5)}
	p.offer(made("first"), at(0))
	for i := range 100 {
		p.offer(made(fmt.Sprint("k", i)), at(4.9))
	}
	p.offer(made("k7"), at(4.95))  // merged: a full batch has room for it
	p.offer(made("last"), at(5.5)) // takes the full batch along, and is the first of the next
	p.until(at(60))
	if len(p.out) != 3 || len(p.out[1].Alerts) != 100 || p.out[2].At != at(10.5) || len(p.out[2].Alerts) != 1 || p.Stats().Dropped != 0 {
		t.Errorf("a full batch after the throttle: %v, %+v", p, p.Stats())
	}
}

func TestForgetsTheOldestKey(t *testing.T) {
	p := &player{Notifier: enabled(1)}
	for i := range 501 {
		p.offer(made(fmt.Sprint("k", i)), at(float64(i/100)))
	}
	p.until(at(20))
	if sent := p.Stats().Emitted; sent != 501 {
		t.Fatalf("%d emitted: %v", sent, p)
	}
	p.offer(made("k1"), at(20))
	p.offer(made("k0"), at(21))
	if n := p.Stats().Suppressed; n != 1 {
		t.Errorf("%d suppressed, want the one that is remembered: %v", n, p)
	}
}

func TestRevisions(t *testing.T) {
	revised := func(title string) alert.Alert {
		a := made("B")
		a.ID, a.Revises, a.Title = "id of "+title, "id of B", title
		return a
	}
	p := &player{Notifier: enabled(5)}
	p.offer(made("A"), at(0))
	p.offer(revised("too early"), at(1))
	p.offer(made("B"), at(2))
	p.offer(made("B"), at(2.5))
	p.offer(revised("second"), at(3))
	p.offer(revised("third"), at(4))
	p.until(at(10))
	p.offer(revised("too late"), at(11))
	if got := p.String(); got != "0: A; 5: B*2" || p.out[1].Alerts[0].Title != "third" {
		t.Errorf("got %s with %q", got, p.out[1].Alerts[0].Title)
	}
	if s := p.Stats(); s.Revised != 2 || s.Ignored != 2 || s.Emitted != 3 || s.NotifyCount != 2 {
		t.Errorf("%+v", s)
	}
}
