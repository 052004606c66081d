package errortrack

import (
	"fmt"
	"strconv"
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// sighting is one occurrence of an error, with the record of the error.
type sighting struct {
	app      string
	event    *telemetry.Event
	template []byte
	id       identity
	known    record
	// silence is the time since the previous occurrence, in milliseconds.
	silence int64
}

// The states of an error in the context of alerts.
const (
	stateNew       = "new"
	stateRegressed = "regressed"
)

func (s sighting) newErrorAlert() alert.Alert {
	return s.buildAlert("New error: ", stateNew, s.event.Log.Message)
}

func (s sighting) regressedAlert() alert.Alert {
	a := s.buildAlert("Error is back: ", stateRegressed, s.detail("back after "+formatDuration(s.silence)+" of silence"))
	a.Context["silent_s"] = s.silence / 1000
	return a
}

// detail returns the message, shortened if it is too long, followed by the history of the
// error and what happened.
func (s sighting) detail(happened string) string {
	known := fmt.Sprintf("(first seen %s, seen %d times, %s)", s.since(), s.known.seen, happened)
	message := sanitize.Cut(s.event.Log.Message, alert.MaxDetail-len(known)-1)
	if message == "" {
		return known
	}
	return message + " " + known
}

// since returns when the error was first seen, as text for a person.
func (s sighting) since() string {
	return time.UnixMilli(s.known.first).UTC().Format("2006-01-02 15:04:05 UTC")
}

// fingerprintKey names the error in the context of an alert.
const fingerprintKey = "fingerprint"

func nameOf(fingerprint uint64) string { return fmt.Sprintf("%016x", fingerprint) }

func dedupKey(app, name string) string { return "errors:" + app + ":" + name }

func (s sighting) buildAlert(title, state, detail string) alert.Alert {
	name := nameOf(s.known.name)
	words := string(s.template)
	if words == "" {
		words = "(no message)"
	}
	context := map[string]any{
		fingerprintKey: name, "fingerprint_version": int(s.known.version), "grouped_by": s.id.basis,
		"state": state, "seen": s.known.seen, "first_seen": alert.FormatTime(time.UnixMilli(s.known.first)),
	}
	if s.event.Log.Source != "" {
		context["source"] = s.event.Log.Source
	}
	if top := s.id.trace.Top(); top != "" {
		context["top_frame"] = top
	}
	return alert.Alert{
		Severity: alert.Error, Category: alert.Errors, Source: alert.SourceErrors, URL: s.event.URL,
		Title: title + words, Detail: detail, Context: context,
		DedupKey: dedupKey(s.app, name),
	}
}

// formatDuration returns a duration in milliseconds in its two largest units, from minutes
// on.
func formatDuration(ms int64) string {
	minutes := ms / time.Minute.Milliseconds()
	hours, days := minutes/60, minutes/(24*60)
	switch {
	case hours < 2:
		return strconv.FormatInt(minutes, 10) + " min"
	case days < 2:
		return fmt.Sprintf("%d h %d min", hours, minutes%60)
	default:
		return fmt.Sprintf("%d d %d h", days, hours%24)
	}
}
