// Package hook answers the hooks of coding agents and waits for alerts on behalf
// of an idle agent (tocsin hook, tocsin wait).
//
// [Parse] and [Render] speak the agents' hook formats: JSON on stdin and stdout,
// as the agents document it (testdata holds each format with its source). [Answer]
// reads the client's inbox once, for a process that lives for milliseconds, and
// decides what is worth saying at which moment. [Wait] blocks until an alert is
// worth waking an idle agent. Alerts that it returns count as delivered for the
// client's gateway too.
package hook

import (
	"context"
	"log/slog"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/namespaces"
	"github.com/tocsin-bus/tocsin/services/gateway/truncate"
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
	// Inbox is the key of the client's inbox, see [inbox.Key].
	Inbox string
	Call  Call
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
	if cfg.Call.Moment == Other || cfg.Call.Moment == Stop && !cfg.Hold {
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
	case AfterTool:
		text, err = h.tell(ctx, truncate.MaxText, anything)
	case Prompt:
		text, err = h.prompted(ctx)
	case Stop:
		text, err = h.stop(ctx)
	case SessionStart:
		text, err = h.situation(ctx)
	case SessionEnd:
		err = h.remember(ctx, func(m *memory) { *m = memory{} }) // nobody waits for it any more
	default: // Other has returned
	}
	if err != nil {
		return nil, err
	}
	return Render(cfg.Call, text)
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
	return truncate.Block(alerts, left, room)
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
	text, err := h.hand(ctx, w, truncate.MaxText, want)
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
