package mcpserver

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

// noticeLevels are the levels at which notices are logged.
var noticeLevels = map[notify.Level]slog.Level{notify.Info: slog.LevelInfo, notify.Warn: slog.LevelWarn, notify.Error: slog.LevelError}

// notifyArgs are the arguments of notify. An unknown level counts as info.
type notifyArgs struct {
	Message string       `json:"message" max:"65536" required:"true"`
	Level   notify.Level `json:"level" enum:"level" default:"info" lenient:"true"`
	Context string       `json:"context" max:"2048" default:"llm" jsonschema:"Topic under which it is shown"`
}

// notify logs and publishes a message for the user, and hands it to the outlets that are
// set. None of them can fail the call: the agent could do nothing about it.
func (s *server) notify(ctx context.Context, args notifyArgs, _ call) (answer, error) {
	if strings.TrimSpace(args.Message) == "" {
		return nil, errors.New("message must not be empty")
	}
	n := notify.Notice{
		Message: args.Message, Level: args.Level, Context: args.Context, Client: s.alerts.Inbox(), Timestamp: alert.FormatTime(time.Now()),
	}.Clean(s.mask)
	s.log.Log(s.life.Context(), noticeLevels[n.Level], "llm_notify", "message", n.Message, "context", n.Context, "client", n.Client)
	s.cfg.Notices.Send(n)
	s.alerts.WaitForPast(ctx) // right after the start there is no connection yet
	if err := s.publishNotice(n); err != nil {
		s.log.Warn("cannot publish a notice", "error", err)
	}
	return answer{"Notification sent: " + n.Message}, nil
}

func (s *server) publishNotice(n notify.Notice) error {
	session, err := s.bus.Session()
	if err != nil {
		return err
	}
	data, err := json.Marshal(n)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(s.life.Context(), noticeTimeout)
	defer cancel()
	_, err = session.JS.PublishMsg(ctx, &nats.Msg{Subject: bus.NoticeSubject(n.Context), Data: data})
	return err
}
