// Package external decides whether an alert of another monitoring system is new.
//
// Such systems report an alert repeatedly while it lasts. A report that differs from the
// latest one of the same alert in its state, or belongs to another firing of it, is a new
// alert; any other revises the first one of that firing. Whether the alert should have
// fired is not asked: a person chose the rule. The end of an alert resolves the newest
// firing that was published and has not ended, and so do reports that revise the end. The
// package remembers nothing else of an alert and has no clock.
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

// Alerts remembers the latest report of each alert.
type Alerts struct {
	latest  *lru.Map[key, delivery]
	evicted uint64
}

// key is a hash of an alert's source and key.
type key [16]byte

// delivery is what was published of an alert. A report that does not differ from it is a
// repetition.
type delivery struct {
	resolved bool
	episode  string
	// first is the id of the first alert of this state, resolves that of the firing that it
	// ends.
	first, resolves string
}

// New returns a memory without alerts.
func New() *Alerts { return &Alerts{latest: lru.New[key, delivery](MaxAlerts)} }

// Len is the number of alerts remembered.
func (s *Alerts) Len() int { return s.latest.Len() }

// Evicted returns how many were forgotten for lack of room since New.
func (s *Alerts) Evicted() uint64 { return s.evicted }

// Taken is the alert about a report, with what Delivered notes.
type Taken struct {
	Alert alert.Alert
	of    key
	now   delivery
}

// Take returns the alert about a report. Nothing is noted before it is published, so that
// later reports do not revise or resolve an alert that no reader has. The end of an alert
// that was never seen firing is published once, too: it may have begun before the detector.
func (s *Alerts) Take(e *external.Alert) Taken {
	t := Taken{Alert: describe(e), of: keyOf(e)}
	t.now = delivery{resolved: e.State == external.StateResolved, episode: e.Episode}
	switch last := s.latest.Get(t.of); {
	case last == nil:
	case last.resolved == t.now.resolved && last.episode == t.now.episode:
		t.now, t.Alert.Revises = *last, last.first
	case t.now.resolved && !last.resolved:
		t.now.resolves = last.first
	}
	t.Alert.Resolves = t.now.resolves
	return t
}

// Delivered notes that the alert was published under an id.
func (s *Alerts) Delivered(t Taken, id string) {
	if t.Alert.Revises != "" {
		return
	}
	t.now.first = id
	if _, gone := s.latest.Add(t.of, t.now); gone != nil {
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
	if place := place(e); place != "" {
		title += " on " + place
	}
	return alert.Alert{
		Severity: severity, Category: alert.Threshold, Source: e.Source, URL: e.URL,
		Title: title, Detail: detail(e), Context: context(e),
		DedupKey: e.Source + ":" + e.Key + ":" + e.State,
	}
}

// place returns where it fires: not every reader sees the app.
func place(e *external.Alert) string {
	if e.Place == "" && e.App != telemetry.DefaultApp {
		return e.App
	}
	return e.Place
}

// detail returns the sender's description. It is about the firing, also when that has
// ended, unless saysEnd.
func detail(e *external.Alert) string {
	text := e.Summary
	switch {
	case text == "":
		text = e.Detail
	case e.Detail != "" && e.Detail != text:
		text += "; " + e.Detail
	}
	if text != "" && e.State == external.StateResolved && !saysEnd(e) {
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
	snapshot.Entries(st, 1, s.latest, func(st *snapshot.State, k *key, t *delivery) {
		st.Fixed(1, k[:])
		st.Bool(2, &t.resolved)
		st.String(3, &t.episode, external.MaxKey)
		st.String(4, &t.first, maxID)
		st.String(5, &t.resolves, maxID)
	}, func(k key, t delivery) { s.latest.Add(k, t) })
}
