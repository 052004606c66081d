package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/services/gateway/notify"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
)

// noticeTimeout bounds the publishing of a notice.
const noticeTimeout = time.Second

// noticeLevels are those that a notice is logged at.
var noticeLevels = map[notify.Level]slog.Level{notify.Info: slog.LevelInfo, notify.Warn: slog.LevelWarn, notify.Error: slog.LevelError}

// notify logs and publishes what the agent says, and hands it to the sinks that
// are set. None of them can fail the call: the agent could do nothing about it.
func (g *gateway) notify(ctx context.Context, data json.RawMessage) (answer, error) {
	a := readArguments(data)
	message := a.text("message", 64<<10)
	level := a.hint("level", "info", "warn", "error")
	topic := a.text("context", maxText)
	if err := a.done(); err != nil {
		return nil, err
	}
	if strings.TrimSpace(message) == "" {
		return nil, errors.New("message must not be empty")
	}
	n := notify.Notice{
		Message: message, Level: notify.Level(level), Context: topic, Client: g.link.client(), Timestamp: alert.FormatTime(time.Now()),
	}.Clean(g.mask)
	g.log.Log(g.life, noticeLevels[n.Level], "llm_notify", "message", n.Message, "context", n.Context, "client", n.Client)
	g.cfg.Notices.Send(n)
	g.settle(ctx) // right after the start there is no connection yet
	if err := g.publishNotice(n); err != nil {
		g.log.Warn("the notice did not get to the bus", "error", err)
	}
	return answer{"Notification sent: " + n.Message}, nil
}

func (g *gateway) publishNotice(n notify.Notice) error {
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
