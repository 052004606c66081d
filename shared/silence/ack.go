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
	}.tidy()
}

func (k Ack) tidy() Ack {
	k.By = sanitize.Cut(sanitize.Visible(k.By), maxBy)
	k.Since, k.Created, k.Until = tidyTime(k.Since), tidyTime(k.Created), tidyTime(k.Until)
	return k
}

func (k Ack) valid() bool {
	return k.AlertID != "" && k.Severity.Rank() > 0 && !k.Created.IsZero() && !k.Until.IsZero()
}

// Active reports whether the acknowledgement has not ended.
func (k Ack) Active(now time.Time) bool { return now.Before(k.Until) }

// covers reports whether an alert is the acknowledged one or a repetition of it.
func (k Ack) covers(a alert.Alert) bool { return k.App == a.App && k.DedupKey == a.DedupKey }

// suppresses reports whether an alert is suppressed. Its resolution is not.
func (k Ack) suppresses(a alert.Alert, now time.Time) bool {
	return k.covers(a) && a.Resolves == "" && (now.Before(k.Until) || a.Timestamp.Before(k.Until)) &&
		(!a.Timestamp.After(k.Since) || a.Severity.Rank() <= k.Severity.Rank())
}

// EndedBy reports whether an alert ends the acknowledgement: it resolves the acknowledged
// alert, or is a repetition with a higher severity.
func (k Ack) EndedBy(a alert.Alert) bool {
	switch {
	case a.Timestamp.Before(k.Since) || !a.Timestamp.Before(k.Until):
		return false
	case a.Resolves != "":
		return a.Ends(k.AlertID) || k.covers(a)
	default:
		return k.covers(a) && a.Timestamp.After(k.Since) && a.Severity.Rank() > k.Severity.Rank()
	}
}
