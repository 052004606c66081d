package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/untrusted"
)

const (
	// maxMessage bounds what an agent tells its user, in characters.
	maxMessage = 2000
	// noticeTimeout bounds the publishing of a notice.
	noticeTimeout = time.Second
	// defaultContext is the topic of a notice without one.
	defaultContext = "llm"
)

// notice is what an agent tells its user, as it stands on the bus.
type notice struct {
	Message   string `json:"message"`
	Level     string `json:"level"`
	Context   string `json:"context"`
	Client    string `json:"client"`
	Timestamp string `json:"timestamp"`
}

// notify logs and publishes what the agent says. Neither can fail the call: the
// agent could do nothing about it.
func (g *gateway) notify(ctx context.Context, data json.RawMessage) (answer, error) {
	a := readArguments(data)
	message := a.text("message", 64<<10)
	level := a.any("level")
	topic := a.text("context", maxText)
	if err := a.done(); err != nil {
		return nil, err
	}
	if strings.TrimSpace(message) == "" {
		return nil, errors.New("message must not be empty")
	}
	if topic == "" {
		topic = defaultContext
	}
	n := notice{
		Message: untrusted.Cut(visible(g.mask.String(message)), maxMessage), Level: level,
		Context: visible(g.mask.String(topic)), Client: visible(g.link.client()), Timestamp: alert.FormatTime(time.Now()),
	}
	severity := slog.LevelInfo
	switch level {
	case "warn":
		severity = slog.LevelWarn
	case "error":
		severity = slog.LevelError
	default:
		n.Level = "info"
	}
	g.log.Log(g.life, severity, "llm_notify", "message", n.Message, "context", n.Context, "client", n.Client)
	g.settle(ctx) // right after the start there is no connection yet
	if err := g.publishNotice(n); err != nil {
		g.log.Warn("the notice did not get to the bus", "error", err)
	}
	return answer{"Notification sent: " + n.Message}, nil
}

func (g *gateway) publishNotice(n notice) error {
	if err := g.connected(); err != nil {
		return err
	}
	data, err := json.Marshal(n)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(g.life, noticeTimeout)
	defer cancel()
	_, err = g.link.conn.Load().JS.PublishMsg(ctx, &nats.Msg{Subject: bus.NoticeSubject(n.Context), Data: data})
	return err
}
