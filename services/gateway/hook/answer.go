// Package hook answers the hooks of coding agents and waits for alerts on behalf
// of an idle agent (tocsin hook, tocsin wait).
//
// [Parse] and [Render] speak the agents' hook formats: JSON on stdin and stdout,
// as the agents document it (testdata holds each format with its source). [Answer]
// reads the client's inbox once, for a process that lives for milliseconds, and
// decides what to report at which moment. [Wait] blocks until an alert is
// worth waking an idle agent. Alerts that they return count as delivered for the
// client's gateway too.
package hook

import (
	"context"
	"log/slog"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/truncate"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/namespaces"
	"github.com/tocsin-bus/tocsin/shared/redact"
)

// An agent waits for its hooks at every use of a tool, so connecting and all requests
// of one call are bounded.
const (
	localConnectTimeout = 60 * time.Millisecond
	localReadTimeout    = 250 * time.Millisecond
	// An external NATS server may be far away.
	externalConnectTimeout = 500 * time.Millisecond
	externalReadTimeout    = time.Second
)

// Config describes one call of a hook, and the client that it belongs to.
type Config struct {
	// Bus is how to connect. Name, Role and Once are set by this package.
	Bus bus.Config
	// Inbox is the key of the client's inbox, see [inbox.Key].
	Inbox string
	Call  Call
	// BlockStop allows that an error keeps an agent from stopping.
	BlockStop bool
	// Namespaces are the Kubernetes namespaces whose alerts are delivered.
	Namespaces namespaces.Set
	Logger     *slog.Logger
}

// Answer returns the line that answers one call of a hook, or nil if there is nothing
// to report. The alerts in it count as delivered. Errors are returned within the read
// timeout and leave the alerts pending; callers need not report them to the agent.
func Answer(ctx context.Context, cfg Config) (line []byte, err error) {
	if cfg.Call.Moment == Other || cfg.Call.Moment == Stop && !cfg.BlockStop {
		return nil, nil
	}
	r, err := newResponder(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer r.bus.Close()
	ctx, cancel := context.WithTimeout(ctx, cfg.readTimeout())
	defer cancel()
	var text string
	switch cfg.Call.Moment {
	case AfterTool:
		text, err = r.deliver(ctx, truncate.MaxText, anyPending)
	case Prompt:
		text, err = r.onPrompt(ctx)
	case Stop:
		text, err = r.onStop(ctx)
	case SessionStart:
		text, err = r.summary(ctx)
	case SessionEnd:
		err = r.updateState(ctx, func(s *sessionState) { *s = sessionState{} })
	default: // Other has returned
	}
	if err != nil {
		return nil, err
	}
	return Render(cfg.Call, text)
}

// readTimeout bounds all requests of one call.
func (c Config) readTimeout() time.Duration {
	if c.Bus.URL != "" {
		return externalReadTimeout
	}
	return localReadTimeout
}

// responder answers one call of a hook.
type responder struct {
	reader
	cfg Config
}

func newResponder(ctx context.Context, cfg Config) (*responder, error) {
	cfg.Bus.Name, cfg.Bus.Role, cfg.Bus.Once, cfg.Bus.Logger = "tocsin hook", bus.RoleGateway, localConnectTimeout, cfg.Logger
	if cfg.Bus.URL != "" {
		cfg.Bus.Once = externalConnectTimeout
	}
	session, err := bus.Connect(ctx, cfg.Bus)
	if err != nil {
		return nil, err
	}
	return &responder{reader{bus: session, client: cfg.Inbox, mask: redact.New(), isVisible: cfg.Namespaces.ShowsAlert}, cfg}, nil
}

// condition decides whether the pending alerts are worth delivering now.
type condition func(p *pendingAlerts) bool

func anyPending(p *pendingAlerts) bool { return p.inbox.Len() > 0 }

func never(*pendingAlerts) bool { return false }

// deliver reads the inbox and, if the condition holds, takes the pending alerts and
// returns them as a block of at most maxBytes; otherwise it returns "".
func (r *responder) deliver(ctx context.Context, maxBytes int, when condition) (string, error) {
	p, err := r.read(ctx)
	if err != nil {
		return "", err
	}
	return r.deliverPending(ctx, p, maxBytes, when)
}

func (r *responder) deliverPending(ctx context.Context, p *pendingAlerts, maxBytes int, when condition) (string, error) {
	if !when(p) {
		return "", nil
	}
	alerts, omitted, err := r.claim(ctx, p)
	if err != nil || len(alerts) == 0 {
		return "", err
	}
	return truncate.Block(alerts, omitted, maxBytes)
}

// onPrompt delivers the pending alerts and records that the user has sent a prompt, so
// that older errors no longer block a stop.
func (r *responder) onPrompt(ctx context.Context) (string, error) {
	p, err := r.read(ctx)
	if err != nil {
		return "", err
	}
	when := anyPending
	if !r.cfg.Call.CanAnswer() {
		when = never
	}
	text, err := r.deliverPending(ctx, p, truncate.MaxText, when)
	if err != nil {
		return "", err
	}
	// Without the record, only the next stop is blocked less exactly.
	if err := r.updateState(ctx, func(s *sessionState) { *s = sessionState{Prompt: p.end} }); err != nil {
		r.cfg.Logger.Debug("the prompt was not recorded", "error", err)
	}
	return text, nil
}

func (r *responder) updateState(ctx context.Context, change func(*sessionState)) error {
	return updateState(ctx, r.bus, r.client, r.cfg.Call.Session, change)
}
