// Package external decides whether an alert of another monitoring system is new.
//
// Such systems report an alert repeatedly while it lasts. A report that differs from the
// latest one of the same alert in its state, or belongs to another firing of it, is a new
// alert; any other revises the first one of that firing. Whether the alert should have
// fired is not examined: a person chose the rule. The end of an alert resolves the newest
// firing that was published and has not ended, and so do reports that revise the end. The
// package has no clock.
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
	// MaxAlerts is how many alerts are remembered: as many as one request of a sender may
	// hold, so that the largest group is not new when it is repeated. Past it, the least
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

// record is the published state of an alert. A report that does not differ from it is a
// repetition.
type record struct {
	resolved bool
	episode  string
	// first is the id of the first alert of this state, resolves that of the firing that it
	// ends.
	first, resolves string
}

// New returns a memory without alerts.
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

// Prepare returns the alert about a report. The report is remembered only by
// [Alerts.MarkPublished], so that later reports do not revise or resolve an alert that no
// reader has. The end of an alert
// that was never seen firing is published once, too: it may have begun before the detector.
func (s *Alerts) Prepare(e *external.Alert) Pending {
	t := Pending{Alert: describe(e), key: keyOf(e)}
	t.record = record{resolved: e.State == external.StateResolved, episode: e.Episode}
	switch last := s.latest.Get(t.key); {
	case last == nil:
	case last.resolved == t.record.resolved && last.episode == t.record.episode:
		t.record, t.Alert.Revises = *last, last.first
	case t.record.resolved && !last.resolved:
		t.record.resolves = last.first
	}
	t.Alert.Resolves = t.record.resolves
	return t
}

// MarkPublished remembers a report whose alert was published under an id.
func (s *Alerts) MarkPublished(t Pending, id string) {
	if t.Alert.Revises != "" {
		return
	}
	t.record.first = id
	if _, evicted := s.latest.Add(t.key, t.record); evicted != nil {
		s.evicted++
	}
}

func keyOf(e *external.Alert) key {
	sum := sha256.Sum256([]byte(e.Source + "\x00" + e.Key))
	return key(sum[:len(key{})])
}

func describe(e *external.Alert) alert.Alert {
	if e.Fault != nil {
		return fault(e)
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

// location returns where the alert fires: not every reader sees the app.
func location(e *external.Alert) string {
	if e.Place == "" && e.App != telemetry.DefaultApp {
		return e.App
	}
	return e.Place
}

// detail returns the sender's description. It is about the firing, also when that has
// ended, unless [describesEnd].
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

// visible returns labels with names that can be read. Names that look the same become one,
// always in the same order.
func visible(labels map[string]string) map[string]any {
	shown := make(map[string]any, len(labels))
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		shown[sanitize.Visible(name)] = labels[name]
	}
	return shown
}

// State has the latest report of each alert.
func (s *Alerts) State(st *snapshot.State) {
	snapshot.Entries(st, 1, s.latest, func(st *snapshot.State, k *key, t *record) {
		st.Fixed(1, k[:])
		st.Bool(2, &t.resolved)
		st.String(3, &t.episode, external.MaxKey)
		st.String(4, &t.first, maxID)
		st.String(5, &t.resolves, maxID)
	}, func(k key, t record) { s.latest.Add(k, t) })
}
