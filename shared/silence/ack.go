package silence

import (
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// AckDuration is how long an acknowledgement is active at most.
const AckDuration = 24 * time.Hour

// Ack is the acknowledgement of an alert. It suppresses that alert and its repetitions, those
// with its app and dedup key, until one is more severe, the alert is resolved, or
// [AckDuration] has passed.
type Ack struct {
	AlertID  string         `json:"alert_id"`
	App      string         `json:"app"`
	DedupKey string         `json:"dedup_key"`
	Severity alert.Severity `json:"severity"`
	// Since is the timestamp of the acknowledged alert. Older alerts are acknowledged with
	// it and do not end it: a reader that is further behind reads them later.
	Since time.Time `json:"since"`
	// By is the client that acknowledged.
	By      string    `json:"by"`
	Created time.Time `json:"created"`
	// Until is when it ends: at the latest, or when an alert ended it.
	Until time.Time `json:"until"`
}

// Acknowledge returns the acknowledgement of an alert by a client.
func Acknowledge(a alert.Alert, by string, now time.Time) Ack {
	return Ack{
		AlertID: a.ID, App: a.App, DedupKey: a.DedupKey, Severity: a.Severity,
		Since: a.Timestamp, By: by, Created: now, Until: now.Add(AckDuration),
	}.normalize()
}

func (ack Ack) normalize() Ack {
	ack.By = sanitize.Cut(sanitize.Visible(ack.By), maxBy)
	ack.Since, ack.Created, ack.Until = normalizeTime(ack.Since), normalizeTime(ack.Created), normalizeTime(ack.Until)
	return ack
}

func (ack Ack) valid() bool {
	return ack.AlertID != "" && ack.Severity.Rank() > 0 && !ack.Created.IsZero() && !ack.Until.IsZero()
}

// Active reports whether the acknowledgement has not ended.
func (ack Ack) Active(now time.Time) bool { return now.Before(ack.Until) }

// covers reports whether an alert is the acknowledged one or a repetition of it.
func (ack Ack) covers(a alert.Alert) bool { return ack.App == a.App && ack.DedupKey == a.DedupKey }

// suppresses reports whether an alert is suppressed. Its resolution is not.
func (ack Ack) suppresses(a alert.Alert, now time.Time) bool {
	return ack.covers(a) && a.Resolves == "" && (now.Before(ack.Until) || a.Timestamp.Before(ack.Until)) &&
		(!a.Timestamp.After(ack.Since) || a.Severity.Rank() <= ack.Severity.Rank())
}

// EndedBy reports whether an alert ends the acknowledgement: it resolves the acknowledged
// alert, or is a repetition with a higher severity.
func (ack Ack) EndedBy(a alert.Alert) bool {
	switch {
	case a.Timestamp.Before(ack.Since) || !a.Timestamp.Before(ack.Until):
		return false
	case a.Resolves != "":
		return a.Ends(ack.AlertID) || ack.covers(a)
	default:
		return ack.covers(a) && a.Timestamp.After(ack.Since) && a.Severity.Rank() > ack.Severity.Rank()
	}
}
