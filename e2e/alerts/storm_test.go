package alerts

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/e2e/harness/storm"
)

// TestStormOfDifferentRequests has thousands of different requests of one app fail. Few
// alerts report and count them all, alerts of other apps arrive in time, and no reader
// falls behind. e2e/cmd/bench measures the delays without the race detector.
func TestStormOfDifferentRequests(t *testing.T) {
	t.Parallel()
	b := e2etest.Up(t)
	r, err := storm.Run(t.Context(), b, storm.Config{Apps: 1, Rate: 3000, Batch: 200, For: 4 * time.Second, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if r.Counted != r.Sent {
		t.Errorf("alerts count %d failing requests of %d, want Counted %v", r.Counted, r.Sent, r.Sent)
	}
	// 50 at once and 5 a second for as long as it took to send, and as many summaries.
	if took := float64(r.Sent) / r.Rate; float64(r.Alerts) > 50+5*(took+1)+took+12 {
		t.Errorf("%d alerts about %d failing requests in %.1f s, want 50 and 5 a second, and one summary a second", r.Alerts, r.Sent, took)
	}
	if r.Missing > 0 {
		t.Errorf("%d of %d alerts of other apps are missing, want 0", r.Missing, r.Missing+len(r.Delays))
	}
	const late = 5 * time.Second // 1 s is the figure without the race detector
	if most := slices.Max(r.Delays); most > late {
		t.Errorf("an alert of another app came %s late, want %s at most", most, late)
	}
	if text := b.Log.String(); strings.Contains(text, "slow consumer") {
		t.Errorf("log =\n%s\nwant no slow consumer", text)
	}
	t.Logf("%d alerts about %d requests, %.0f a second; another app's alert at most %s late", r.Alerts, r.Sent, r.Rate, slices.Max(r.Delays))
}
