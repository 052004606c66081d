package history

import (
	"context"
	"encoding/json"
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/display"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

const (
	// NewestAlerts is how many alerts [Reader.Newest] returns at most.
	NewestAlerts = 50
	// MaxAge is how far back history goes: as long as alerts are kept.
	MaxAge = 7 * 24 * time.Hour
	// maxFailures is how many failures [Reader.LatestCI] returns of one result, with
	// maxCIText characters of each text.
	maxFailures = 20
	maxCIText   = 500
)

// Newest reads the newest alerts, newest first. A revision keeps the investigation of the alert
// that it replaces.
func (r *Reader) Newest(ctx context.Context) ([]alert.Alert, error) {
	state, err := r.bus.State(ctx, bus.StreamAlerts)
	if err != nil {
		return nil, r.explain(ctx, "read the alerts", err)
	}
	newest := []alert.Alert{} // [] and not null on the wire
	newestFirst := bus.Range{Stream: bus.StreamAlerts, First: state.First, Last: state.Last, Backwards: true, Batch: NewestAlerts}
	err = r.bus.Range(ctx, newestFirst, func(m bus.Message) bool {
		var a alert.Alert
		if json.Unmarshal(m.Data, &a) == nil && r.Shows(a) { // the inbox has logged a message that is no alert
			keepInvestigation(newest, a)
			newest = append(newest, a)
		}
		return len(newest) < NewestAlerts
	})
	for i, a := range newest {
		newest[i] = display.Alert(a, r.mask)
	}
	return newest, r.explain(ctx, "read the alerts", err)
}

// LatestResult is the newest CI result of one pipeline and ref, with bounded texts.
type LatestResult struct {
	storedResult
	// FailuresLeftOut is how many failures it has beyond those shown.
	FailuresLeftOut int `json:"failures_left_out,omitempty"`
}

// LatestCI reads the newest CI result of each pipeline and ref, newest first.
func (r *Reader) LatestCI(ctx context.Context) ([]LatestResult, error) {
	stored, err := r.storedResults(ctx, Query{What: CI, Limit: ci.MaxResults}.Since(MaxAge, time.Now()))
	latest := []LatestResult{} // [] and not null on the wire
	seen := map[[3]string]bool{}
	for _, s := range stored {
		if key := [3]string{s.Source, s.Ref, s.Name}; !seen[key] {
			seen[key] = true
			latest = append(latest, truncateResult(s))
		}
	}
	return latest, err
}

// truncateResult cuts a result to a readable size and makes its text visible.
func truncateResult(s storedResult) LatestResult {
	shown := func(text string, limit int) string { return sanitize.Cut(sanitize.Visible(text), limit) }
	l := LatestResult{storedResult: s, FailuresLeftOut: max(0, len(s.Failures)-maxFailures)}
	l.Ref, l.Commit, l.Name, l.URL = shown(s.Ref, maxCIText), shown(s.Commit, maxCIText), shown(s.Name, maxCIText), shown(s.URL, MaxText)
	l.Summary = shown(s.Summary, alert.MaxDetail)
	l.Failures = nil
	for _, f := range s.Failures[:len(s.Failures)-l.FailuresLeftOut] {
		l.Failures = append(l.Failures, ci.Failure{Name: shown(f.Name, maxCIText), Message: shown(f.Message, maxCIText)})
	}
	return l
}
