package notifier_test

import (
	"testing"

	"github.com/tocsin-bus/tocsin/services/gateway/notifier"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// TestRaisingRevision: a revision that is more severe than every earlier state of the
// alert is sent, also within the duplicate window; others replace a pending alert or are
// ignored.
func TestRaisingRevision(t *testing.T) {
	revision := func(severity alert.Severity) alert.Alert {
		a := made("A")
		a.ID, a.Revises, a.Severity = "revision", "id of A", severity
		return a
	}
	first := made("A")
	first.Severity = alert.Info
	warnings := func() *notifier.Notifier {
		s := notifier.New()
		s.Enable(notifier.DefaultConfig())
		return s
	}
	for _, tt := range []struct {
		name string
		s    *notifier.Notifier
		do   func(p *player)
		want string
	}{
		{"within the duplicate window", enabled(5), func(p *player) { p.offer(first, at(0)); p.offer(revision(alert.Error), at(6)) }, "0: A; 6: A"},
		{"after the duplicate window", enabled(5), func(p *player) { p.offer(first, at(0)); p.offer(revision(alert.Error), at(600)) }, "0: A; 600: A"},
		{"within the throttle", enabled(5), func(p *player) { p.offer(first, at(0)); p.offer(revision(alert.Error), at(1)) }, "0: A; 5: A"},
		{"the same severity", enabled(5), func(p *player) { p.offer(first, at(0)); p.offer(revision(alert.Info), at(6)) }, "0: A"},
		{"once only", enabled(5), func(p *player) {
			p.offer(first, at(0))
			p.offer(revision(alert.Error), at(6))
			p.offer(revision(alert.Error), at(60))
		}, "0: A; 6: A"},
		{"filtered before", warnings(), func(p *player) { p.offer(first, at(0)); p.offer(revision(alert.Error), at(6)) }, "6: A"},
		{"raised before it was enabled", notifier.New(), func(p *player) {
			p.offer(first, at(0))
			p.Enable(notifier.DefaultConfig())
			p.offer(revision(alert.Error), at(6))
		}, "6: A"},
		{"of an unknown alert", enabled(5), func(p *player) { p.offer(revision(alert.Error), at(6)) }, ""},
		{"after a Reset", enabled(5), func(p *player) {
			p.offer(first, at(0))
			p.Reset()
			p.Enable(notifier.DefaultConfig())
			p.offer(revision(alert.Error), at(6))
		}, "0: A; 6: A"},
	} {
		p := &player{Notifier: tt.s}
		tt.do(p)
		p.until(at(1e6))
		if got := p.String(); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
		for _, n := range p.out {
			for _, a := range n.Alerts {
				if a.ID != "id of A" || a.Revises != "" {
					t.Errorf("%s: got id %q and revises %q, want the first alert's id", tt.name, a.ID, a.Revises)
				}
			}
		}
	}
}
