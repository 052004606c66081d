// Package external decides whether an alert of another monitoring system is new.
//
// Such systems report an alert repeatedly while it fires. A report is a new alert if its
// state differs from that of the latest report, or if it belongs to another firing. Any other
// report revises the first alert of that firing. The end of an alert resolves the newest
// published firing that has not ended, and so do reports that revise the end. The package
// does not examine whether the alert should have fired, because a person chose the rule. It
// has no clock.
package external

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"

	"github.com/tocsin-bus/tocsin/services/detector/lru"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/external"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

const (
	// MaxAlerts is how many alerts are remembered: as many as one request may hold, so that
	// the alerts of the largest group are not new when they are repeated. Past it, the least
	// recently used one is forgotten; its next report is new.
	MaxAlerts = 10_000

	// maxID is the longest alert id in a snapshot, in bytes.
	maxID = 64
)

// Alerts has the latest report of each alert.
type Alerts struct {
	latest  *lru.Map[key, record]
	evicted uint64
}

// key is a hash of an alert's source and key.
type key [16]byte

// record is the published state of an alert.
type record struct {
	resolved bool
	// episode is the sender's id of the firing.
	episode string
	// first is the id of the first alert of this state, and resolves that of the firing that
	// it ends.
	first, resolves string
}

// New returns Alerts without reports.
func New() *Alerts { return &Alerts{latest: lru.New[key, record](MaxAlerts)} }

// Len is the number of alerts remembered.
func (s *Alerts) Len() int { return s.latest.Len() }

// Evicted returns how many were forgotten for lack of room since New.
func (s *Alerts) Evicted() uint64 { return s.evicted }

// Pending is the alert about a report, not yet published.
type Pending struct {
	Alert  alert.Alert
	key    key
	record record
}

// Prepare returns the alert about a report. Only [Alerts.MarkPublished] records the report,
// so that later reports do not revise or resolve an alert that no reader has. The end of an
// alert that was never seen firing is published once, too, because it may have begun before
// the detector started.
func (s *Alerts) Prepare(e *external.Alert) Pending {
	p := Pending{Alert: newAlert(e), key: keyOf(e)}
	p.record = record{resolved: e.State == external.StateResolved, episode: e.Episode}
	switch last := s.latest.Get(p.key); {
	case last == nil:
	case last.resolved == p.record.resolved && last.episode == p.record.episode:
		p.record, p.Alert.Revises = *last, last.first
	case p.record.resolved && !last.resolved:
		p.record.resolves = last.first
	}
	p.Alert.Resolves = p.record.resolves
	return p
}

// MarkPublished records a report whose alert was published with an id.
func (s *Alerts) MarkPublished(p Pending, id string) {
	if p.Alert.Revises != "" {
		return
	}
	p.record.first = id
	if _, evicted := s.latest.Add(p.key, p.record); evicted != nil {
		s.evicted++
	}
}

func keyOf(e *external.Alert) key {
	sum := sha256.Sum256([]byte(e.Source + "\x00" + e.Key))
	return key(sum[:len(key{})])
}

// newAlert returns the alert about a report, as if it came for the first time.
func newAlert(e *external.Alert) alert.Alert {
	if e.Fault != nil {
		return faultAlert(e)
	}
	severity := e.Severity
	if e.State == external.StateResolved {
		severity = alert.Info
	}
	title := "Alert " + e.State
	if e.Name != "" {
		title += ": " + e.Name
	}
	if location := location(e); location != "" {
		title += " on " + location
	}
	return alert.Alert{
		Severity: severity, Category: alert.Threshold, Source: e.Source, URL: e.URL,
		Title: title, Detail: detail(e), Context: context(e),
		DedupKey: e.Source + ":" + e.Key + ":" + e.State,
	}
}

// location returns where the alert fires, because not every reader sees the app.
func location(e *external.Alert) string {
	if e.Place == "" && e.App != telemetry.DefaultApp {
		return e.App
	}
	return e.Place
}

// detail returns the sender's description. At the end of most alerts it still describes the
// firing: see [describesEnd].
func detail(e *external.Alert) string {
	text := e.Summary
	switch {
	case text == "":
		text = e.Detail
	case e.Detail != "" && e.Detail != text:
		text += "; " + e.Detail
	}
	if text != "" && e.State == external.StateResolved && !describesEnd(e) {
		text = "was: " + text
	}
	if e.Omitted == 0 {
		return text
	}
	note := fmt.Sprintf("%s left out more alerts of this group: %d", e.Source, e.Omitted)
	if text == "" {
		return note
	}
	const between = "; "
	return sanitize.Cut(text, alert.MaxDetail-len(between)-len(note)) + between + note
}

func context(e *external.Alert) map[string]any {
	group := map[string]any{}
	for _, name := range e.GroupBy {
		if value, ok := e.Labels[name]; ok {
			group[sanitize.Visible(name)] = value
		}
	}
	c := map[string]any{"state": e.State, "labels": visible(e.Labels), "group": group}
	for name, value := range map[string]string{
		"severity": e.Level, "receiver": e.Receiver, "dashboard_url": e.Dashboard, "runbook_url": e.Runbook,
	} {
		if value != "" {
			c[name] = value
		}
	}
	if !e.StartsAt.IsZero() {
		c["starts_at"] = alert.FormatTime(e.StartsAt)
	}
	if !e.EndsAt.IsZero() && e.State == external.StateResolved {
		c["ends_at"] = alert.FormatTime(e.EndsAt)
	}
	if e.Omitted > 0 {
		c["omitted"] = e.Omitted
	}
	return c
}

// visible returns labels with sanitized names. Of names that then are the same, the last in
// alphabetical order counts.
func visible(labels map[string]string) map[string]any {
	shown := make(map[string]any, len(labels))
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		shown[sanitize.Visible(name)] = labels[name]
	}
	return shown
}

// State reads or writes the latest report of each alert.
func (s *Alerts) State(st *snapshot.Codec) {
	snapshot.Entries(st, 1, s.latest, func(st *snapshot.Codec, k *key, r *record) {
		st.Fixed(1, k[:])
		st.Bool(2, &r.resolved)
		st.String(3, &r.episode, external.MaxKey)
		st.String(4, &r.first, maxID)
		st.String(5, &r.resolves, maxID)
	}, func(k key, r record) { s.latest.Add(k, r) })
}
