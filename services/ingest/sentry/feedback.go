package sentry

import (
	"github.com/tocsin-bus/tocsin/services/ingest/decoding"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// feedbackWords is what a person wrote into a form. Who it was is not taken.
type feedbackWords struct {
	Message text `json:"message"`
	URL     text `json:"url"`
}

// feedback tells what a person said of an app, by its newer form.
func (d *decoder) feedback(payload []byte) error {
	var e event
	if err := d.decode(payload, decoding.NewObject(&e)); err != nil {
		return err
	}
	d.named(e.EventID)
	f := e.Contexts.v.Feedback.v
	o := d.from(text(e.Tags["app"]), e.Contexts.v.App.v.Name, e.Release, e.Contexts.v.Trace.v.TraceID).
		on(first(string(f.URL), string(e.Request.v.URL), e.Tags["url"]))
	return d.said(o, e.Timestamp, f.Message, "")
}

// userReport tells what a person said of an error, by the older form.
func (d *decoder) userReport(payload []byte) error {
	var r struct {
		EventID  text `json:"event_id"`
		Comments text `json:"comments"`
	}
	if err := d.decode(payload, decoding.NewObject(&r)); err != nil {
		return err
	}
	return d.said(d.from("", "", "", ""), "", r.Comments, r.EventID)
}

func (d *decoder) said(o origin, at, words, about text) error {
	l := telemetry.Log{Level: telemetry.LevelInfo, Message: "User feedback: " + string(words)}
	if about != "" {
		l.Args = []any{map[string]any{"event_id": string(about)}}
	}
	return d.add(o.log(at.time(), l))
}

// checkIn tells of a job that didn't end well. One that began, or is done, is no
// news.
func (d *decoder) checkIn(payload []byte) error {
	var c struct {
		Slug        text            `json:"monitor_slug"`
		Status      text            `json:"status"`
		Duration    text            `json:"duration"`
		Release     text            `json:"release"`
		Environment text            `json:"environment"`
		Contexts    maybe[contexts] `json:"contexts"`
	}
	if err := d.decode(payload, decoding.NewObject(&c)); err != nil {
		return err
	}
	switch c.Status {
	case "error", "missed", "timeout":
	default:
		return nil
	}
	args := map[string]any{}
	if s, ok := c.Duration.number(); ok {
		args["duration_s"] = s
	}
	return d.add(d.from("", "", c.Release, c.Contexts.v.Trace.v.TraceID).log(d.header.SentAt.time(), telemetry.Log{
		Level:   telemetry.LevelError,
		Message: "Check-in " + string(c.Slug) + ": " + string(c.Status),
		Args:    sessionAttributes{Release: c.Release, Environment: c.Environment}.shown(args),
	}))
}
