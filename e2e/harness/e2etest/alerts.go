package e2etest

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/silence"
)

// alertTimeout bounds how long an alert may take from the post to the agent, on a
// busy machine and with the race detector.
const alertTimeout = 20 * time.Second

// TakeAlerts takes n alerts from the inbox, and waits for them if they are not there yet.
func (sys *System) TakeAlerts(t *testing.T, n int) []alert.Alert {
	t.Helper()
	all, err := sys.Agent.Wait(t.Context(), n, alertTimeout)
	if err != nil {
		t.Fatalf("%v\n%s", err, sys.Bus.Log)
	}
	return all
}

// TakeAlertsByTitle is TakeAlerts with the alerts by title.
func (sys *System) TakeAlertsByTitle(t *testing.T, n int) map[string]alert.Alert {
	t.Helper()
	all := map[string]alert.Alert{}
	for _, a := range sys.TakeAlerts(t, n) {
		all[a.Title] = a
	}
	return all
}

// TakeAlertsUntil takes alerts until each of the dedup keys is among them, and
// returns all that it took by dedup key.
func (sys *System) TakeAlertsUntil(t *testing.T, keys ...string) map[string]alert.Alert {
	t.Helper()
	all := map[string]alert.Alert{}
	complete := harness.Poll(t.Context(), alertTimeout, func() bool {
		for _, a := range sys.Observe(t, nil).Alerts {
			all[a.DedupKey] = a
		}
		return !slices.ContainsFunc(keys, func(key string) bool { return all[key].ID == "" })
	})
	if !complete {
		t.Fatalf("dedup keys of the alerts after %s: got %q, want %q among them\n%s", alertTimeout, slices.Sorted(maps.Keys(all)), keys, sys.Bus.Log)
	}
	return all
}

// WaitReceived waits until the gateway has received n alerts, and takes none of them.
func (sys *System) WaitReceived(t *testing.T, n int) {
	t.Helper()
	received := 0
	if !harness.Poll(t.Context(), alertTimeout, func() bool {
		received = sys.Configure(t, map[string]any{"action": "health"}).Inbox.Received
		return received >= n
	}) {
		t.Fatalf("alerts that the gateway received: got %d, want %d\n%s", received, n, sys.Bus.Log)
	}
}

// NextNotification waits for the next notification of the agent.
func (sys *System) NextNotification(t *testing.T, within time.Duration) harness.Notification {
	t.Helper()
	n, err := sys.Agent.Next(t.Context(), within)
	if err != nil {
		t.Fatalf("%v\n%s", err, sys.Bus.Log)
	}
	return n
}

// ConfigureReply is what the configure tool answers, as far as tests read it.
type ConfigureReply struct {
	Status    string
	SilenceID string `json:"silence_id"`
	DedupKey  string `json:"dedup_key"`
	Until     time.Time
	Silence   silence.Silence
	Silences  []struct {
		silence.Silence
		Suppressed int `json:"held_back"`
	}
	Acks []struct {
		silence.Ack
		Suppressed int `json:"held_back"`
	}
	Inbox struct{ Pending, Received, Silenced int }
}

// Configure calls the configure tool.
func (sys *System) Configure(t *testing.T, args map[string]any) (reply ConfigureReply) {
	t.Helper()
	text := sys.Call(t, "configure", args)
	if err := json.Unmarshal([]byte(text), &reply); err != nil {
		t.Fatalf("decode the answer of configure: %v: %s", err, text)
	}
	return reply
}

// Titles returns the titles of alerts, sorted and joined by commas.
func Titles(alerts []alert.Alert) string {
	titles := make([]string, 0, len(alerts))
	for _, a := range alerts {
		titles = append(titles, a.Title)
	}
	slices.Sort(titles)
	return strings.Join(titles, ", ")
}
