package sentry

import (
	"github.com/tocsin-bus/tocsin/services/ingest/decoding"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// feedbackForm is what a person wrote into a form. Name and address are not kept.
type feedbackForm struct {
	Message text `json:"message"`
	URL     text `json:"url"`
}

// feedback decodes user feedback in its newer form.
func (d *decoder) feedback(payload []byte) error {
	var e event
	if err := d.decode(payload, decoding.NewObject(&e)); err != nil {
		return err
	}
	d.takeID(e.EventID)
	f := e.Contexts.v.Feedback.v
	o := d.from(text(e.Tags["app"]), e.Contexts.v.App.v.Name, e.Release, e.Contexts.v.Trace.v.TraceID).
		on(first(string(f.URL), string(e.Request.v.URL), e.Tags["url"]))
	return d.comment(o, e.Timestamp, f.Message, "")
}

// userReport decodes user feedback in its older form, about one error.
func (d *decoder) userReport(payload []byte) error {
	var r struct {
		EventID  text `json:"event_id"`
		Comments text `json:"comments"`
	}
	if err := d.decode(payload, decoding.NewObject(&r)); err != nil {
		return err
	}
	return d.comment(d.from("", "", "", ""), "", r.Comments, r.EventID)
}

func (d *decoder) comment(o origin, at, message, about text) error {
	l := telemetry.Log{Level: telemetry.LevelInfo, Message: "User feedback: " + string(message)}
	if about != "" {
		l.Args = []any{map[string]any{"event_id": string(about)}}
	}
	return d.add(o.log(at.time(), l))
}

// checkIn reports a job that failed. A job that started or succeeded becomes no event.
func (d *decoder) checkIn(payload []byte) error {
	var c struct {
		Slug        text               `json:"monitor_slug"`
		Status      text               `json:"status"`
		Duration    text               `json:"duration"`
		Release     text               `json:"release"`
		Environment text               `json:"environment"`
		Contexts    optional[contexts] `json:"contexts"`
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
