package main

import (
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

// tailShow makes text of messages. What stands on the bus may come from a
// detector or a gateway of another version, or from somebody else: secrets are
// masked, and a terminal, which obeys control characters, never gets outside
// text as it is.
type tailShow struct {
	*tailCommand
	mask *redact.Engine
	log  *slog.Logger
}

// alert is the text for one alert, or empty when it is not to be shown.
func (s tailShow) alert(m bus.Message) (string, error) {
	var a alert.Alert
	if err := json.Unmarshal(m.Data, &a); err != nil {
		s.log.Warn("not an alert", "subject", m.Subject, "error", err)
		return "", nil
	}
	if s.Category != "" && string(a.Category) != s.Category || !s.urgent(a.Severity) {
		return "", nil
	}
	s.mask.Alert(&a)
	if s.JSON {
		line, err := a.MarshalJSON()
		return visibleLine(line), err
	}
	times := ""
	if a.Count > 1 {
		times = fmt.Sprintf(" (x%d)", a.Count)
	}
	if a.Revises != "" { // told above, and better known by now: it has not happened again
		times += " (revised)"
	}
	return tailText(a.Timestamp, string(a.Severity), string(a.Category), a.App, a.Title+times, a.Detail), nil
}

// notice is the text for what an agent tells its user, or empty when it is not to
// be shown.
func (s tailShow) notice(m bus.Message) (string, error) {
	var n notify.Notice
	if err := json.Unmarshal(m.Data, &n); err != nil {
		s.log.Warn("not a notice", "subject", m.Subject, "error", err)
		return "", nil
	}
	if n = n.Clean(s.mask); !s.urgent(n.Level.Severity()) {
		return "", nil
	}
	if s.JSON {
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

func (s tailShow) urgent(severity alert.Severity) bool {
	return severity.Rank() >= alert.Severity(s.Severity).Rank()
}

// tailText is one line, and a second one where there is a detail.
func tailText(at time.Time, severity, category, app, title, detail string) string {
	text := fmt.Sprintf("%s  %-7s  %-16s  %-10s  %s\n", tailTime(at.Local(), time.Now()),
		sanitize.Visible(severity), sanitize.Visible(category), sanitize.Visible(app), sanitize.Visible(title))
	if detail != "" {
		text += "          " + sanitize.Visible(detail) + "\n"
	}
	return text
}

// tailTime is the time of day, and the date where it is not of today.
func tailTime(at, now time.Time) string {
	if at.YearDay() == now.YearDay() && at.Year() == now.Year() {
		return at.Format(time.TimeOnly)
	}
	return at.Format(time.DateTime)
}

// visibleLine ends a line of JSON. It escapes some control characters itself; the
// others become visible text of the same strings.
func visibleLine(line []byte) string { return sanitize.Visible(string(line)) + "\n" }
