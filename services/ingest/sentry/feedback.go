package sentry

import (
	"github.com/tocsin-bus/tocsin/services/ingest/decoding"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// feedbackForm is a feedback form that a person filled in. Name and address are not kept.
type feedbackForm struct {
	Message lenientText `json:"message"`
	URL     lenientText `json:"url"`
}

// decodeFeedback decodes user feedback in its newer form.
func (d *decoder) decodeFeedback(payload []byte) error {
	var e event
	if err := d.decode(payload, decoding.NewObject(&e)); err != nil {
		return err
	}
	d.setID(e.EventID)
	f := e.Contexts.v.Feedback.v
	o := d.baseOf(lenientText(e.Tags["app"]), e.Contexts.v.App.v.Name, e.Release, e.Contexts.v.Trace.v.TraceID).
		onPage(firstNonEmpty(string(f.URL), string(e.Request.v.URL), e.Tags["url"]))
	return d.addFeedback(o, e.Timestamp, f.Message, "")
}

// decodeUserReport decodes user feedback in its older form, about one error.
func (d *decoder) decodeUserReport(payload []byte) error {
	var r struct {
		EventID  lenientText `json:"event_id"`
		Comments lenientText `json:"comments"`
	}
	if err := d.decode(payload, decoding.NewObject(&r)); err != nil {
		return err
	}
	return d.addFeedback(d.baseOf("", "", "", ""), "", r.Comments, r.EventID)
}

func (d *decoder) addFeedback(o eventBase, at, message, about lenientText) error {
	l := telemetry.Log{Level: telemetry.LevelInfo, Message: "User feedback: " + string(message)}
	if about != "" {
		l.Args = []any{map[string]any{"event_id": string(about)}}
	}
	return d.add(o.newLog(at.time(), l))
}

// decodeCheckIn adds a log line for a job that failed. A job that started or succeeded becomes
// no event.
func (d *decoder) decodeCheckIn(payload []byte) error {
	var c struct {
		Slug        lenientText             `json:"monitor_slug"`
		Status      lenientText             `json:"status"`
		Duration    lenientText             `json:"duration"`
		Release     lenientText             `json:"release"`
		Environment lenientText             `json:"environment"`
		Contexts    lenientObject[contexts] `json:"contexts"`
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
	return d.add(d.baseOf("", "", c.Release, c.Contexts.v.Trace.v.TraceID).newLog(d.header.SentAt.time(), telemetry.Log{
		Level:   telemetry.LevelError,
		Message: "Check-in " + string(c.Slug) + ": " + string(c.Status),
		Args:    sessionAttributes{Release: c.Release, Environment: c.Environment}.logArgs(args),
	}))
}
