package history

import (
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// What names a list that observe can read, or the status.
type What string

// The values of observe's argument what.
const (
	Alerts         What = "alerts"
	Errors         What = "errors"
	Logs           What = "logs"
	Network        What = "network"
	Vitals         What = "vitals"
	Actions        What = "actions"
	CI             What = "ci"
	Kubernetes     What = "kubernetes"
	Investigations What = "investigations"
	Noise          What = "noise"
	Security       What = "security"
	Status         What = "status"
)

// Whats lists all values of what.
func Whats() []What {
	return []What{Alerts, Errors, Logs, Network, Vitals, Actions, CI, Kubernetes, Investigations, Noise, Security, Status}
}

// eventKinds are the kinds of events that some values of what read.
var eventKinds = map[What]telemetry.Kind{
	Errors: telemetry.KindLog, Logs: telemetry.KindLog, Network: telemetry.KindNetwork, Vitals: telemetry.KindVitals,
	Actions: telemetry.KindAction, Security: telemetry.KindSecurity,
}

// MaxText is the longest text argument of a query, in bytes.
const MaxText = 2048

// Query selects entries.
type Query struct {
	What What
	// App is an app's name, or empty for all; URL is a substring of the URL.
	App, URL string
	// MinRank is the rank of the least severity.
	MinRank int
	// From is the time of the oldest entry; zero means no bound.
	From time.Time
	// Limit is the largest number of entries.
	Limit int
	// Before is where the list continues; the zero value is its beginning.
	Before Cursor
}

// Since returns the query for the entries of a period before now, or for all where the period is
// 0. A later page goes back as far as the first one.
func (q Query) Since(period time.Duration, now time.Time) Query {
	switch {
	case q.Before != Cursor{} && q.Before.Since == 0:
		q.From = time.Time{}
	case q.Before != Cursor{}:
		q.From = time.UnixMilli(q.Before.Since)
	case period == 0:
		q.From = time.Time{}
	default:
		q.From = now.Add(-period)
	}
	return q
}

// matches reports whether the query selects an alert.
func (q Query) matches(a alert.Alert) bool {
	return (q.App == "" || a.App == q.App) && strings.Contains(a.URL, q.URL) && a.Severity.Rank() >= q.MinRank
}

// matchesResult reports whether the query selects a CI result. Its app is the default one,
// as for its alert.
func (q Query) matchesResult(r ci.Result) bool {
	rank := alert.Error.Rank()
	if r.Status == ci.StatusSuccess {
		rank = alert.Info.Rank()
	}
	return (q.App == "" || q.App == telemetry.DefaultApp) && strings.Contains(r.URL, q.URL) && rank >= q.MinRank
}
