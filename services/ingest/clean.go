package ingest

import (
	"time"

	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/external"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// Masker masks secrets in place. It is called with texts from which hidden
// characters are gone, and before they are cut: half a secret would not be
// known for one.
type Masker interface {
	Event(*telemetry.Event)
	Result(*ci.Result)
	External(*external.Alert)
	String(string) string
}

// Bounds of texts, in characters: longer ones are taken, and cut. The bodies of
// requests are cut by the Masker.
// With them one event fits into maxMessage whatever its characters are.
const (
	maxText    = 16 << 10 // message, error, reason
	maxStack   = 32 << 10
	maxURL     = 4 << 10
	maxTarget  = 2 << 10
	maxName    = 256      // app, session, release, method and the like
	maxArgs    = 16 << 10 // all texts in args together
	maxValues  = 500      // values in args together
	maxDepth   = 16       // of values in args
	maxHeaders = 100
	maxHeader  = 4 << 10  // one value
	headerRoom = 16 << 10 // all names and values together
)

// envelope is what the events of a batch mostly have in common.
type envelope [4]string

func envelopeOf(e *telemetry.Event) [4]*string {
	return [...]*string{&e.App, &e.Session, &e.Release, &e.URL}
}

// cleanEvents cleans a batch. What is like that of the event before is not
// looked through again: in a batch of small events that would be most of the
// work, and of 10,000 events that share a long text it would be far more.
func cleanEvents(events []telemetry.Event, m Masker, now time.Time) {
	var raw, clean envelope
	for i := range events {
		texts := envelopeOf(&events[i])
		var same [len(envelope{})]bool
		for n, text := range texts {
			if same[n] = i > 0 && *text == raw[n]; same[n] {
				*text = ""
			} else {
				raw[n] = *text
			}
		}
		cleanEvent(&events[i], m, now)
		for n, text := range texts {
			if same[n] {
				*text = clean[n]
			} else {
				clean[n] = *text
			}
		}
	}
}

// cleanEvent makes an event fit to be stored: visible, masked, bounded, and
// with a time.
func cleanEvent(e *telemetry.Event, m Masker, now time.Time) {
	eachText(e, func(s *string, _ int) { *s = sanitize.Strip(*s) })
	if l := e.Log; l != nil {
		l.Args = stripArgs(l.Args)
	}
	if n := e.Network; n != nil {
		n.RequestHeaders, n.ResponseHeaders = stripHeaders(n.RequestHeaders), stripHeaders(n.ResponseHeaders)
		n.RequestBody, n.ResponseBody = sanitize.Strip(n.RequestBody), sanitize.Strip(n.ResponseBody)
	}
	m.Event(e)
	eachText(e, func(s *string, limit int) { *s = sanitize.Cut(*s, limit) })
	if l := e.Log; l != nil {
		l.Args = cutArgs(l.Args)
	}
	if n := e.Network; n != nil {
		n.RequestHeaders, n.ResponseHeaders = cutHeaders(n.RequestHeaders), cutHeaders(n.ResponseHeaders)
	}
	if e.App == "" { // all of it was invisible
		e.App = telemetry.DefaultApp
	}
	e.App = telemetry.SenderApp(e.App)
	e.Time = e.Time.UTC()
	if y := e.Time.Year(); e.Time.IsZero() || y < 1 || y > 9999 {
		e.Time = now
	}
}

// eachText visits the plain texts of an event with their bounds.
func eachText(e *telemetry.Event, visit func(text *string, limit int)) {
	visit(&e.App, maxName)
	visit(&e.Session, maxName)
	visit(&e.Release, maxName)
	visit(&e.URL, maxURL)
	switch {
	case e.Log != nil:
		visit(&e.Log.Message, maxText)
		visit(&e.Log.Stack, maxStack)
		visit(&e.Log.Source, maxURL)
		for i := range e.Log.Fingerprint {
			visit(&e.Log.Fingerprint[i], telemetry.MaxFingerprint) // a mask may be longer than what it hides
		}
	case e.Network != nil:
		visit(&e.Network.Method, maxName)
		visit(&e.Network.URL, maxURL)
		visit(&e.Network.Error, maxText)
	case e.Action != nil:
		visit(&e.Action.Type, maxName)
		visit(&e.Action.Target, maxTarget)
	case e.Circuit != nil:
		visit(&e.Circuit.Name, maxName)
		visit(&e.Circuit.Reason, maxText)
	case e.Security != nil:
		visit(&e.Security.Type, maxName)
		visit(&e.Security.Message, maxText)
		visit(&e.Security.BlockedURL, maxURL)
	}
}
