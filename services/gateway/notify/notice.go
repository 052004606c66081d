// Package notify delivers notices, the messages that an agent sends to its user with the
// tool notify: to the desktop, a file, a webhook or Slack.
//
// [Dispatcher] decides which notices are delivered, by level and by a rate limit, and never
// blocks the caller. The caller logs every notice and publishes it on the bus.
//
// Package notifier is about the other direction: alerts for the agent.
package notify

import (
	"fmt"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/redact"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

const (
	// MaxMessage bounds a notice, in characters.
	MaxMessage = 2000
	// maxName bounds the context and the client's name, in characters.
	maxName = 200
	// DefaultContext is the context of a notice without one.
	DefaultContext = "llm"
)

// Level is how urgent a notice is.
type Level string

// The levels.
const (
	Info  Level = "info"
	Warn  Level = "warn"
	Error Level = "error"
)

// LevelOf returns the level of a name, or Info for an unknown one.
func LevelOf(name string) Level {
	switch l := Level(name); l {
	case Warn, Error:
		return l
	default:
		return Info
	}
}

// Severity returns the severity of alerts that corresponds to the level.
func (l Level) Severity() alert.Severity {
	switch l {
	case Warn:
		return alert.Warning
	case Error:
		return alert.Error
	default:
		return alert.Info
	}
}

// Notice is a message of an agent to its user. Its JSON is the message on the bus.
type Notice struct {
	Message string `json:"message"`
	Level   Level  `json:"level"`
	Context string `json:"context"`
	Client  string `json:"client"`
	// Timestamp has the format of an alert's.
	Timestamp string `json:"timestamp"`
}

// Clean masks secrets in every text and reduces it to one line of visible characters, of
// bounded length, which are safe in terminals and logs.
func (n Notice) Clean(mask *redact.Engine) Notice {
	clean := func(text string, limit int) string {
		return sanitize.Cut(sanitize.Visible(mask.String(text)), limit)
	}
	n.Message, n.Context = clean(n.Message, MaxMessage), clean(n.Context, maxName)
	n.Client, n.Timestamp = clean(n.Client, maxName), clean(n.Timestamp, maxName)
	n.Level = LevelOf(string(n.Level))
	if n.Context == "" {
		n.Context = DefaultContext
	}
	return n
}

// delivery is a notice on its way to a sink.
type delivery struct {
	Notice
	// Suppressed counts the notices of its context that the rate limit suppressed since the
	// last delivery.
	Suppressed int `json:"held_back,omitempty"`
}

// suppressedText describes the suppressed notices, or is empty if there are none.
func (d delivery) suppressedText() string {
	if d.Suppressed == 0 {
		return ""
	}
	return fmt.Sprintf("%d more not shown", d.Suppressed)
}
