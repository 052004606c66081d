package notifier_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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

// enabled returns a notifier that passes every alert.
func enabled(throttle int) *notifier.Notifier {
	s := notifier.New()
	c := notifier.DefaultConfig()
	c.ThrottleSeconds, c.SeverityMin = throttle, alert.Info
	s.Enable(c)
	return s
}

// player offers alerts to a notifier and runs its timer as a gateway does.
type player struct {
	*notifier.Notifier
	out []notifier.Notification
}

// until calls Due for the timers that expire before now.
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

// String writes the notifications as "0: A; 5: B*2 C", with (A) for an alert marked
// resolved and !A for a resolution.
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
		// The documented rules.
		{"a batch at the throttle's end", 5, "0 A, 0.2 B, 0.4 C", "0: A; 5: B C"},
		{"a batch settles 2 s", 5, "0 A, 4.9 B", "0: A; 6.9: B"},
		{"an alert after the throttle is sent with the batch", 5, "0 A, 4.9 B, 5.5 C", "0: A; 5.5: B C"},
		{"12 in 60 s, one a second", 1, every(15, 1), twelve(1)},
		{"12 in 60 s, one every 4 s", 1, every(15, 4), twelve(4)},
		{"a duplicate within 30 s", 5, "0 A, 29.9 A", "0: A"},
		{"no duplicate at 30 s", 5, "0 A, 30 A", "0: A; 30: A"},
		{"the window begins when an alert is sent", 5, "0 A, 1 B, 2 B, 34.9 B, 35 B", "0: A; 5: B*2; 35: B"},

		// Their consequences.
		{"exactly at the throttle's end", 5, "0 A, 5 B", "0: A; 5: B"},
		{"before the throttle's end", 5, "0 A, 4.949 B", "0: A; 6.949: B"},
		{"just before the throttle's end", 5, "0 A, 4.95 B", "0: A; 5: B"},
		{"one a second, unevenly", 1, "0 A, 0.998 B, 2.003 C, 2.99 D, 4 E", "0: A; 1: B; 2.003: C; 3.003: D; 4.003: E"},
		{"just before the duplicate window's end", 5, "0 A, 29.949 A, 29.95 A", "0: A; 29.95: A"},
		{"a batch starts the throttle too", 5, "0 A, 1 B, 6 C", "0: A; 5: B; 10: C"},
		{"an alert at the throttle's end is sent with the batch", 5, "0 A, 1 B, 5 C", "0: A; 5: B C"},
		{"a repetition is sent with the batch", 5, "0 A, 4 B, 5.5 B", "0: A; 5.5: B*2"},
		{"a duplicate does not send the batch", 5, "0 A, 4 B, 5.5 A", "0: A; 6: B"},
		{"the severity has risen", 5, "0 A-, 1 A, 6 A, 7 A-", "0: A; 5: A"},
		{"a duplicate of a lower severity", 5, "0 A-, 1 A, 2 A-, 3 A", "0: A; 5: A*2"},
		{"sorted by severity", 5, "0 A, 1 B-, 2 C", "0: A; 5: C B"},
		{"the rate limit has room at 60 s", 5, every(12, 5) + ", 56 L, 59.9 M, 60 N", strings.TrimSuffix(twelve(5), "k12 k13 k14") + "L M N"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := play(c.throttle, c.in).String(); got != c.want {
				t.Errorf("play(%s):\n got %s\nwant %s", c.in, got, c.want)
			}
		})
	}
}

// TestResolutions: !A is the resolution of A, an info alert. all is what is sent if all
// severities pass, warnings if only warnings and errors do. T is a threshold, whose
// resolution has a key of its own.
func TestResolutions(t *testing.T) {
	for _, c := range []struct{ name, in, all, warnings string }{
		{"resolved before it was sent", "0 X, 1 A, 2 !A", "0: X; 5: (A)", "0: X; 5: (A)"},
		{"resolved after it was sent", "0 A, 6 !A", "0: A; 6: !A", "0: A"},
		{"repeated, then resolved", "0 X, 1 A, 2 A, 3 !A", "0: X; 5: (A)*2", "0: X; 5: (A)*2"},
		{"resolved and raised again", "0 X, 1 A, 2 !A, 3 A", "0: X; 5: (A) A", "0: X; 5: (A) A"},
		{"raised again after it was sent as resolved", "0 X, 1 A, 2 !A, 6 A", "0: X; 5: (A); 10: A", "0: X; 5: (A); 10: A"},
		{"a resolution is a duplicate of itself only", "0 A, 6 !A, 12 !A", "0: A; 6: !A", "0: A"},
		{"the resolution of a duplicate", "0 A, 6 A, 7 !A", "0: A; 7: !A", "0: A"},
		{"raised again after its resolution was sent", "0 A, 6 !A, 12 A", "0: A; 6: !A; 12: A", "0: A"},
		{"resolved again", "0 A, 6 !A, 12 A, 18 !A", "0: A; 6: !A; 12: A; 18: !A", "0: A"},
		{"raised again while its resolution is pending", "0 A, 1 !A, 2 A", "0: A; 5: A !A", "0: A"},
		{"raised again after a resolution with a key of its own", "0 T, 1 T, 6 !T, 12 T, 18 !T", "0: T; 6: !T-ok; 12: T; 18: !T-ok", "0: T"},
		{"raised twice after it was sent as resolved", "0 X, 1 A, 2 !A, 6 A, 12 A", "0: X; 5: (A); 10: A", "0: X; 5: (A); 10: A"},
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
				t.Errorf("%s, from severity %s: play(%s):\n got %s\nwant %s", c.name, severity, c.in, got, want)
			}
		}
	}
}

func TestFullBatch(t *testing.T) {
	for _, c := range []struct {
		alerts, batch, dropped int
	}{{100, 99, 0}, {101, 100, 0}, {102, 100, 1}} {
		p := play(5, every(c.alerts, 0.009))
		want := []sizedNotification{{at(0), 1}, {at(5), c.batch}}
		if diff := cmp.Diff(want, sizes(p.out)); diff != "" {
			t.Errorf("notifications of %d alerts (-want +got):\n%s", c.alerts, diff)
		}
		if got := p.Stats().Dropped; got != c.dropped {
			t.Errorf("%d alerts: Dropped = %d, want %d", c.alerts, got, c.dropped)
		}
	}

	p := &player{Notifier: enabled(5)}
	p.offer(made("first"), at(0))
	for i := range 100 {
		p.offer(made(fmt.Sprint("k", i)), at(4.9))
	}
	p.offer(made("k7"), at(4.95))  // merged into the full batch
	p.offer(made("last"), at(5.5)) // sends the full batch, and is the first of the next
	p.until(at(60))
	if diff := cmp.Diff([]sizedNotification{{at(0), 1}, {at(5.5), 100}, {at(10.5), 1}}, sizes(p.out)); diff != "" {
		t.Errorf("notifications with a full batch after the throttle (-want +got):\n%s", diff)
	}
	if got := p.Stats().Dropped; got != 0 {
		t.Errorf("Dropped = %d, want 0", got)
	}
}

// sizedNotification is a notification's time and its number of alerts.
type sizedNotification struct {
	At     time.Time
	Alerts int
}

func sizes(out []notifier.Notification) (all []sizedNotification) {
	for _, n := range out {
		all = append(all, sizedNotification{n.At, len(n.Alerts)})
	}
	return all
}

func TestForgetsTheOldestKey(t *testing.T) {
	p := &player{Notifier: enabled(1)}
	for i := range 501 {
		p.offer(made(fmt.Sprint("k", i)), at(float64(i/100)))
	}
	p.until(at(20))
	if sent := p.Stats().Emitted; sent != 501 {
		t.Fatalf("Emitted = %d, want 501: %v", sent, p)
	}
	p.offer(made("k1"), at(20))
	p.offer(made("k0"), at(21))
	if n := p.Stats().Suppressed; n != 1 {
		t.Errorf("Suppressed = %d, want 1, the key that is remembered: %v", n, p)
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
	if got, want := p.String(), "0: A; 5: B*2"; got != want {
		t.Fatalf("emitted %q, want %q", got, want)
	}
	if got := p.out[1].Alerts[0].Title; got != "third" {
		t.Errorf("title = %q, want %q", got, "third")
	}
	if diff := cmp.Diff(notifier.Stats{NotifyCount: 2, Emitted: 3, Revised: 2, Ignored: 2}, p.Stats()); diff != "" {
		t.Errorf("Stats (-want +got):\n%s", diff)
	}
}
