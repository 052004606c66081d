package silence

import (
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// AckFor is how long an acknowledgement lasts at most.
const AckFor = 24 * time.Hour

// Ack says that somebody knows of an alert: it and its repetitions, those with
// its app and dedup key, are held back until one is more severe, the alert is
// resolved or AckFor is over.
type Ack struct {
	AlertID  string         `json:"alert_id"`
	App      string         `json:"app"`
	DedupKey string         `json:"dedup_key"`
	Severity alert.Severity `json:"severity"`
	// Since is the timestamp of the acknowledged alert. What is older was
	// acknowledged with it, and doesn't end the acknowledgement: a reader that
	// comes from further back meets it later.
	Since time.Time `json:"since"`
	// By is the client that acknowledged.
	By      string    `json:"by"`
	Created time.Time `json:"created"`
	// Until is when it is over: at the latest, or when the alert came that ended it.
	Until time.Time `json:"until"`
}

// Acknowledge makes the acknowledgement of an alert, by a client, now.
func Acknowledge(a alert.Alert, by string, now time.Time) Ack {
	return Ack{
		AlertID: a.ID, App: a.App, DedupKey: a.DedupKey, Severity: a.Severity,
		Since: a.Timestamp, By: by, Created: now, Until: now.Add(AckFor),
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

// Active says whether it is not over yet.
func (k Ack) Active(now time.Time) bool { return now.Before(k.Until) }

// about says whether the alert is the acknowledged one or a repetition of it.
func (k Ack) about(a alert.Alert) bool { return k.App == a.App && k.DedupKey == a.DedupKey }

// hushes says whether the alert is held back. That it is over is news.
func (k Ack) hushes(a alert.Alert, now time.Time) bool {
	return k.about(a) && a.Resolves == "" && (now.Before(k.Until) || a.Timestamp.Before(k.Until)) &&
		(!a.Timestamp.After(k.Since) || a.Severity.Rank() <= k.Severity.Rank())
}

// EndedBy says whether the alert ends the acknowledgement: it says that what was
// acknowledged is over, or is a worse repetition.
func (k Ack) EndedBy(a alert.Alert) bool {
	switch {
	case a.Timestamp.Before(k.Since) || !a.Timestamp.Before(k.Until):
		return false
	case a.Resolves != "":
		return a.Ends(k.AlertID) || k.about(a)
	default:
		return k.about(a) && a.Timestamp.After(k.Since) && a.Severity.Rank() > k.Severity.Rank()
	}
}
