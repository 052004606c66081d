package ingest

import (
	"time"

	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/external"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// Masker masks secrets in place. It runs after hidden characters are removed and before
// texts are cut: half a secret would not be recognized.
type Masker interface {
	Event(*telemetry.Event)
	Result(*ci.Result)
	External(*external.Alert)
	String(string) string
}

// Bounds of texts, in characters: longer ones are accepted and cut. The Masker cuts the
// bodies of network events. One event then always fits into maxMessage.
const (
	maxText        = 16 << 10 // message, error, reason
	maxStack       = 32 << 10
	maxURL         = 4 << 10
	maxTarget      = 2 << 10
	maxName        = 256      // app, session, release, method and the like
	maxArgs        = 16 << 10 // all texts in args together
	maxValues      = 500      // values in args together
	maxDepth       = 16       // of values in args
	maxHeaders     = 100
	maxHeader      = 4 << 10  // one value
	maxHeaderBytes = 16 << 10 // all names and values together
)

// sharedTexts are the texts that the events of a batch usually have in common.
type sharedTexts [4]string

func sharedTextsOf(e *telemetry.Event) [4]*string {
	return [...]*string{&e.App, &e.Session, &e.Release, &e.URL}
}

// cleanEvents cleans a batch. A shared text that equals that of the previous event is not
// cleaned again: that would be most of the work for a batch of small events.
func cleanEvents(events []telemetry.Event, m Masker, now time.Time) {
	var raw, clean sharedTexts
	for i := range events {
		texts := sharedTextsOf(&events[i])
		var same [len(sharedTexts{})]bool
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

// cleanEvent removes hidden characters, masks secrets, cuts texts and sets a missing time.
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
	if e.App == "" { // all of its characters were hidden
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
			visit(&e.Log.Fingerprint[i], telemetry.MaxFingerprint) // a mask may be longer than the secret
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
