package history

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/display"
)

// ErrNoSuchAlert is returned when history has no alert with the given id.
var ErrNoSuchAlert = errors.New("no such alert")

// Lifecycle is one alert with its later history: revisions, repetitions and its resolution.
type Lifecycle struct {
	// Alert is the alert as it was published, or its newest revision.
	Alert alert.Alert `json:"alert"`
	// Revisions counts its revisions, Repetitions the findings after its own.
	Revisions   int `json:"revisions"`
	Repetitions int `json:"repetitions"`
	// LastSeen is when it was last raised, revised or repeated, formatted as in alerts.
	LastSeen string `json:"last_seen"`
	// ResolvedBy is the id of the alert that resolved it, unless it was repeated
	// after that.
	ResolvedBy string `json:"resolved_by,omitempty"`

	// id is the alert's own id, originalID the id that its revisions name.
	id, originalID string
	key            alert.MergeKey
}

// NewLifecycle starts the lifecycle of an alert.
func NewLifecycle(a alert.Alert) Lifecycle {
	return Lifecycle{
		Alert: a, LastSeen: alert.FormatTime(a.Timestamp),
		id: a.ID, originalID: cmp.Or(a.Revises, a.ID), key: a.MergeKey(),
	}
}

// Add adds an alert that came later, and reports whether it belongs to this lifecycle.
func (l *Lifecycle) Add(a alert.Alert) bool {
	resolved := l.key
	resolved.Resolution = true
	switch {
	case a.ID == l.id: // published twice
		return false
	case a.Revises != "":
		if a.Revises != l.originalID {
			return false
		}
		l.Alert = a.KeepInvestigation(l.Alert.Investigation)
		l.Revisions++
	case a.MergeKey() == l.key:
		l.Repetitions += a.Occurrences()
		l.ResolvedBy = ""
	case a.Ends(l.id), a.Ends(l.originalID), a.MergeKey() == resolved:
		l.ResolvedBy = a.ID
		return true
	default:
		return false
	}
	// A revision with an investigation has the time of what it revises, which may be older.
	l.LastSeen = max(l.LastSeen, alert.FormatTime(a.Timestamp))
	return true
}

// ReplaceAlert replaces the published alert by its sanitized form. Alerts that are added after
// that must be sanitized, too.
func (l *Lifecycle) ReplaceAlert(shown alert.Alert) {
	isResolution := l.key.Resolution
	l.Alert, l.key = shown, shown.MergeKey()
	l.key.Resolution = isResolution
}

// Lifecycle reads an alert by its id, with its later history. It searches from the newest
// alert back, because most requests are for recent ones. Its error may be [ErrNoSuchAlert].
func (r *Reader) Lifecycle(ctx context.Context, id string) (Lifecycle, error) {
	l, err := r.lifecycle(ctx, id)
	if err != nil && !errors.Is(err, ErrNoSuchAlert) {
		err = r.explain(ctx, "read the alerts", err)
	}
	return l, err
}

func (r *Reader) lifecycle(ctx context.Context, id string) (l Lifecycle, err error) {
	state, err := r.bus.State(ctx, bus.StreamAlerts)
	if err != nil {
		return l, err
	}
	quoted := []byte(`"` + id + `"`)
	var found uint64
	err = r.bus.Range(ctx, bus.Range{Stream: bus.StreamAlerts, First: state.First, Last: state.Last, Backwards: true}, func(m bus.Message) bool {
		var a alert.Alert
		if bytes.Contains(m.Data, quoted) && json.Unmarshal(m.Data, &a) == nil && a.ID == id && r.Shows(a) {
			l, found = NewLifecycle(a), m.Seq
		}
		return found == 0
	})
	switch {
	case err != nil:
		return l, err
	case found == 0:
		return l, ErrNoSuchAlert
	}
	err = r.bus.Range(ctx, bus.Range{Stream: bus.StreamAlerts, First: found + 1, Last: state.Last}, func(m bus.Message) bool {
		var a alert.Alert
		if json.Unmarshal(m.Data, &a) == nil && r.Shows(a) {
			l.Add(a)
		}
		return true
	})
	if err == nil && l.Alert.Investigation == nil && l.originalID != l.id {
		l.Alert.Investigation, err = r.investigationBefore(ctx, l.originalID, state.First, found)
	}
	l.ReplaceAlert(display.Alert(l.Alert, r.mask))
	return l, err
}

// investigationBefore returns the newest investigation of an alert before a sequence, or nil. It
// searches back to the alert's first publication.
func (r *Reader) investigationBefore(ctx context.Context, id string, first, before uint64) (newest *alert.Investigation, err error) {
	err = r.bus.Range(ctx, bus.Range{Stream: bus.StreamAlerts, First: first, Last: before - 1, Backwards: true}, func(m bus.Message) bool {
		var a alert.Alert
		if json.Unmarshal(m.Data, &a) != nil || a.Revises != id && a.ID != id {
			return true
		}
		newest = a.Investigation
		return newest == nil && a.ID != id
	})
	return newest, err
}
