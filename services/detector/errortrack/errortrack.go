// Package errortrack decides which errors in the logs are news: those seen for
// the first time, and those that come back after 30 minutes of silence.
//
// Errors are told apart by a fingerprint of their message's template, and by
// whether they come from a tool. The package knows no clock, and nothing of noise: what is hidden is not given to
// it, so that it is news once it is no longer hidden.
package errortrack

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/lru"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

const (
	// MaxErrors is how many errors of one app are remembered. Past it, the one
	// not seen for the longest is forgotten and would be new again.
	MaxErrors = 5000
	// Silence is after how long an error is back rather than still there.
	Silence = 30 * time.Minute
)

// Errors remembers the errors of one app.
type Errors struct {
	// lastSeen is in milliseconds since 1970, by fingerprint.
	lastSeen *lru.Map[uint64, int64]
	evicted  uint64
}

// New returns an app without errors.
func New() *Errors { return &Errors{lastSeen: lru.New[uint64, int64](MaxErrors)} }

// Len is the number of errors remembered, Evicted how many were forgotten for
// want of room since New, Size about how many bytes are held.
func (e *Errors) Len() int { return e.lastSeen.Len() }

// Evicted is how many were forgotten for want of room since New.
func (e *Errors) Evicted() uint64 { return e.evicted }

// Size is about how many bytes are held.
func (e *Errors) Size() int { return 80 * e.lastSeen.Len() }

// Log takes a line of level error with the template of its message. Tool says
// that it comes from a browser extension or a development tool: the same words
// of the app's own are another error. There is an alert when it is news.
func (e *Errors) Log(app string, event *telemetry.Event, tool bool, template []byte, now time.Time) (alert.Alert, bool) {
	fingerprint := fingerprint(template)
	if tool {
		fingerprint = ^fingerprint // as hard to meet by choice as the other
	}
	t := now.UnixMilli()
	last := e.lastSeen.Get(fingerprint)
	switch {
	case last == nil:
		if _, gone := e.lastSeen.Add(fingerprint, t); gone != nil {
			e.evicted++
		}
		return news("New error: ", app, event, template, fingerprint), true
	case t-*last >= Silence.Milliseconds():
		*last = t
		return news("Error is back: ", app, event, template, fingerprint), true
	default:
		*last = t
		return alert.Alert{}, false
	}
}

// fingerprint is part of a cryptographic hash, because it is all that is
// remembered of an error: nobody can make one that passes for another.
func fingerprint(template []byte) uint64 {
	sum := sha256.Sum256(template)
	return binary.BigEndian.Uint64(sum[:])
}

func news(title, app string, event *telemetry.Event, template []byte, fingerprint uint64) alert.Alert {
	name := fmt.Sprintf("%016x", fingerprint)
	words := string(template)
	if words == "" {
		words = "(no message)"
	}
	context := map[string]any{"fingerprint": name}
	if event.Log.Source != "" {
		context["source"] = event.Log.Source
	}
	return alert.Alert{
		Severity: alert.Error, Category: alert.Errors, Source: alert.SourceErrors, URL: event.URL,
		Title: title + words, Detail: event.Log.Message, Context: context,
		DedupKey: "errors:" + app + ":" + name,
	}
}

// Save writes the errors.
func (e *Errors) Save(w *snapshot.Writer) {
	w.Len(e.lastSeen.Len())
	for fingerprint, last := range e.lastSeen.All() {
		w.Uint(fingerprint)
		w.Int(*last)
	}
}

// Restore reads what Save wrote. Errors are in r.
func Restore(r *snapshot.Reader) *Errors {
	e := New()
	for range r.Len(MaxErrors) {
		e.lastSeen.Add(r.Uint(), r.Int())
	}
	return e
}
