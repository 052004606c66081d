// Package glance answers the hooks of a coding agent: each by one look into the
// inbox of its client, for a process that lives for milliseconds; or, while the
// agent is idle, by looking once more whenever an alert comes (Wait).
//
// It decides what is worth saying at which moment, and when an agent is held back
// or woken. What it tells counts as told for the client's gateway too (package
// cursor). It knows nothing of what clients send and read (package hook).
package glance

import (
	"context"
	"log/slog"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/brief"
	"github.com/tocsin-bus/tocsin/services/gateway/hook"
	"github.com/tocsin-bus/tocsin/services/gateway/namespaces"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/redact"
)

const (
	// nearConnect bounds the way to the bus, and nearRead what is asked of it: an
	// agent waits for its hooks on every use of a tool.
	nearConnect = 60 * time.Millisecond
	nearRead    = 250 * time.Millisecond
	// An external server may be far away.
	farConnect = 500 * time.Millisecond
	farRead    = time.Second
)

// Config says which hook was called, and in whose name.
type Config struct {
	// Bus is how to join; Name, Role and Once are filled in here.
	Bus bus.ConnConfig
	// Inbox is the key of the client's inbox, see package clients.
	Inbox string
	Call  hook.Call
	// Hold says whether an error may hold back an agent that is about to stop.
	Hold bool
	// Namespaces are those of Kubernetes whose alerts are told.
	Namespaces namespaces.Set
	Logger     *slog.Logger
}

// Answer answers one call of a client's hook: with the line to print, or nil where
// nothing is to say. What it tells counts as told, for a gateway of the client
// too. Its error says why it could not look, soon, and then all of it still waits:
// it is not worth an agent's attention.
func Answer(ctx context.Context, cfg Config) (line []byte, err error) {
	if cfg.Call.Moment == hook.Other || cfg.Call.Moment == hook.Stop && !cfg.Hold {
		return nil, nil
	}
	h, err := newHooked(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer h.conn.Close()
	ctx, cancel := context.WithTimeout(ctx, cfg.patience())
	defer cancel()
	var text string
	switch cfg.Call.Moment {
	case hook.AfterTool:
		text, err = h.tell(ctx, brief.MaxText, anything)
	case hook.Prompt:
		text, err = h.prompted(ctx)
	case hook.Stop:
		text, err = h.stop(ctx)
	case hook.SessionStart:
		text, err = h.situation(ctx)
	case hook.SessionEnd:
		err = h.remember(ctx, func(m *memory) { *m = memory{} }) // nobody waits for it any more
	default: // Other has returned
	}
	if err != nil {
		return nil, err
	}
	return hook.Render(cfg.Call, text)
}

// patience is how long the bus may take to say what it is asked.
func (c Config) patience() time.Duration {
	if c.Bus.URL != "" {
		return farRead
	}
	return nearRead
}

// hooked is one call of a hook, on the bus.
type hooked struct {
	reader
	cfg Config
}

func newHooked(ctx context.Context, cfg Config) (*hooked, error) {
	cfg.Bus.Name, cfg.Bus.Role, cfg.Bus.Once, cfg.Bus.Logger = "tocsin hook", bus.RoleGateway, nearConnect, cfg.Logger
	if cfg.Bus.URL != "" {
		cfg.Bus.Once = farConnect
	}
	conn, err := bus.Connect(ctx, cfg.Bus)
	if err != nil {
		return nil, err
	}
	return &hooked{reader{conn: conn, client: cfg.Inbox, mask: redact.New(), shows: cfg.Namespaces.ShowsAlert}, cfg}, nil
}

// wanted says whether what waits is worth telling now.
type wanted func(w *waiting) bool

func anything(w *waiting) bool { return w.box.Len() > 0 }

// tell takes what waits and returns it as a block, where it is wanted. The block
// is empty where nothing is.
func (h *hooked) tell(ctx context.Context, room int, want wanted) (string, error) {
	w, err := h.read(ctx)
	if err != nil {
		return "", err
	}
	return h.hand(ctx, w, room, want)
}

func (h *hooked) hand(ctx context.Context, w *waiting, room int, want wanted) (string, error) {
	if !want(w) {
		return "", nil
	}
	alerts, left, err := h.take(ctx, w)
	if err != nil || len(alerts) == 0 {
		return "", err
	}
	return brief.Block(alerts, left, room)
}

// prompted tells what waits, and remembers that the user knows of it by now.
func (h *hooked) prompted(ctx context.Context) (string, error) {
	w, err := h.read(ctx)
	if err != nil {
		return "", err
	}
	want := anything
	if !h.cfg.Call.Tells() {
		want = func(*waiting) bool { return false }
	}
	text, err := h.hand(ctx, w, brief.MaxText, want)
	if err != nil {
		return "", err
	}
	// A session that is not remembered is only held back less exactly.
	if err := h.remember(ctx, func(m *memory) { *m = memory{Prompt: w.end} }); err != nil {
		h.cfg.Logger.Debug("the prompt is not remembered", "error", err)
	}
	return text, nil
}

func (h *hooked) remember(ctx context.Context, change func(*memory)) error {
	return changeMemory(ctx, h.conn, h.client, h.cfg.Call.Session, change)
}
