package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/notify"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/redact"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// tailFormatter formats messages as text. A message on the bus may come from a detector or a
// gateway of another version, or from another program: secrets are masked, and control
// characters, which a terminal would obey, are made visible.
type tailFormatter struct {
	*tailCommand
	mask *redact.Engine
	log  *slog.Logger
}

// alert returns the text for an alert, empty if it is filtered out.
func (f tailFormatter) alert(m bus.Message) (string, error) {
	var a alert.Alert
	if err := json.Unmarshal(m.Data, &a); err != nil {
		f.log.Warn("ignored a message that is not an alert", "subject", m.Subject, "error", err)
		return "", nil
	}
	if f.Category != "" && string(a.Category) != f.Category || !f.urgent(a.Severity) {
		return "", nil
	}
	f.mask.Alert(&a)
	if f.JSON {
		line, err := a.MarshalJSON()
		return visibleLine(line), err
	}
	times := ""
	if a.Count > 1 {
		times = fmt.Sprintf(" (x%d)", a.Count)
	}
	if i := a.Investigation; a.Revises != "" && i != nil { // the alert above has not happened again
		line := a.InvestigationEnd()
		return tailText(a.Timestamp, string(a.Severity), string(a.Category), a.App, line.Title, cmp.Or(i.Summary, i.Reason)), nil
	}
	if a.Revises != "" { // a correction of an alert above: it has not happened again
		times += " (revised)"
	}
	return tailText(a.Timestamp, string(a.Severity), string(a.Category), a.App, a.Title+times, a.Detail), nil
}

// notice returns the text for a message of an agent, empty if it is filtered out.
func (f tailFormatter) notice(m bus.Message) (string, error) {
	var n notify.Notice
	if err := json.Unmarshal(m.Data, &n); err != nil {
		f.log.Warn("ignored a message that is not a notice", "subject", m.Subject, "error", err)
		return "", nil
	}
	if n = n.Clean(f.mask); !f.urgent(n.Level.Severity()) {
		return "", nil
	}
	if f.JSON {
		line, err := json.Marshal(struct {
			IsNotice bool `json:"notice"`
			notify.Notice
		}{true, n})
		return visibleLine(line), err
	}
	at, err := time.Parse(time.RFC3339, n.Timestamp)
	if err != nil {
		at = m.Time
	}
	detail := ""
	if n.Client != "" {
		detail = "from " + n.Client
	}
	return tailText(at, string(n.Level), "notice", n.Context, n.Message, detail), nil
}

func (f tailFormatter) urgent(severity alert.Severity) bool {
	return severity.Rank() >= alert.Severity(f.Severity).Rank()
}

// tailText returns one line, and a second one for the detail.
func tailText(at time.Time, severity, category, app, title, detail string) string {
	text := fmt.Sprintf("%s  %-7s  %-16s  %-10s  %s\n", tailTime(at.Local(), time.Now()),
		sanitize.Visible(severity), sanitize.Visible(category), sanitize.Visible(app), sanitize.Visible(title))
	if detail != "" {
		text += "          " + sanitize.Visible(detail) + "\n"
	}
	return text
}

// tailTime returns the time of day, with the date unless it is today.
func tailTime(at, now time.Time) string {
	if at.YearDay() == now.YearDay() && at.Year() == now.Year() {
		return at.Format(time.TimeOnly)
	}
	return at.Format(time.DateTime)
}

// visibleLine ends a line of JSON, with the control characters that JSON does not escape
// made visible.
func visibleLine(line []byte) string { return sanitize.Visible(string(line)) + "\n" }
