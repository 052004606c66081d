// Package notice carries what an agent tells its user to where the user looks:
// the desktop, a file, a webhook, Slack. It decides which notices go there (by
// level, and so many of a context in a time), and sees to it that whoever tells
// one never waits: each sink has a queue and a goroutine of its own.
//
// The log line and the bus are not its work: those get every notice.
package notify

import (
	"fmt"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/redact"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

const (
	// MaxMessage bounds what an agent tells its user, in characters.
	MaxMessage = 2000
	// maxWords bounds the context and the client's name.
	maxWords = 200
	// DefaultContext is the topic of a notice without one.
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

// LevelOf is the level of that name; one that is not known counts as Info.
func LevelOf(name string) Level {
	switch l := Level(name); l {
	case Warn, Error:
		return l
	default:
		return Info
	}
}

// Severity is what the level would be of an alert, so that both can be compared.
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

// Notice is what an agent tells its user, as it stands on the bus.
type Notice struct {
	Message string `json:"message"`
	Level   Level  `json:"level"`
	Context string `json:"context"`
	Client  string `json:"client"`
	// Timestamp is like an alert's.
	Timestamp string `json:"timestamp"`
}

// Clean masks secrets in every text and makes it one line of visible characters,
// of bounded length: no terminal, log or reader of lines acts on what it holds.
func (n Notice) Clean(mask *redact.Engine) Notice {
	clean := func(text string, limit int) string {
		return sanitize.Cut(sanitize.Visible(mask.String(text)), limit)
	}
	n.Message, n.Context = clean(n.Message, MaxMessage), clean(n.Context, maxWords)
	n.Client, n.Timestamp = clean(n.Client, maxWords), clean(n.Timestamp, maxWords)
	n.Level = LevelOf(string(n.Level))
	if n.Context == "" {
		n.Context = DefaultContext
	}
	return n
}

// delivery is a notice on its way to a sink.
type delivery struct {
	Notice
	// HeldBack is how many of its context were not delivered since the last.
	HeldBack int `json:"held_back,omitempty"`
}

// more tells of those held back, or is empty.
func (d delivery) more() string {
	switch d.HeldBack {
	case 0:
		return ""
	case 1:
		return "1 more was held back"
	default:
		return fmt.Sprintf("%d more were held back", d.HeldBack)
	}
}
