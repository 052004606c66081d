package silence

import (
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

// TestSilenceOfInvestigation: a silence also suppresses the end of the investigation of an alert
// that was raised before it, but not the alert.
func TestSilenceOfInvestigation(t *testing.T) {
	raised := time.Date(2026, 1, 28, 14, 30, 0, 0, time.UTC)
	set := Set{Silences: Silences{{ID: "s", App: "web", Created: raised.Add(time.Minute), Until: raised.Add(time.Hour)}}}
	a := alert.Alert{ID: "a", App: "web", Severity: alert.Error, Timestamp: raised}
	started := alert.RevisionFor(a, alert.Investigation{SessionID: "s", Status: alert.InvestigationInProgress})
	ended := alert.RevisionFor(a, alert.Investigation{SessionID: "s", Status: alert.InvestigationCompleted})
	for _, tt := range []struct {
		name  string
		a     alert.Alert
		after time.Duration
		want  bool
	}{
		{"the alert", a, 2 * time.Minute, false},
		{"the start", started, 2 * time.Minute, false},
		{"the end", ended, 2 * time.Minute, true},
		{"the line", ended.InvestigationEnd(), 2 * time.Minute, true},
		{"the end after the silence", ended, 2 * time.Hour, false},
	} {
		if _, got := set.Suppresses(tt.a, raised.Add(tt.after)); got != tt.want {
			t.Errorf("%s: suppressed = %t, want %t", tt.name, got, tt.want)
		}
	}
}
