package service

import (
	"context"
	"hash/maphash"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// Bounds of repeated log lines.
const (
	// repeatEvery is the time between two lines of a warning or error that repeats.
	repeatEvery = time.Minute
	// maxVariants is how many lines with one message and different attributes are written
	// within repeatEvery; more are counted as similar.
	maxVariants = 5
	// maxRepeats is how many different lines are remembered. Further ones are counted in
	// one line for all.
	maxRepeats = 256
)

// Attributes of lines that stand for several.
const (
	attrRepeated = "repeated"
	attrSimilar  = "similar"
)

// repeatHandler is a slog.Handler that bounds how much a fault can log. It handles warnings and
// errors; less severe lines pass.
//
// The first of equal lines (level, message, group and attributes) is written at once.
// Repeats within repeatEvery are counted, and written once at the end of that time, as the
// last of them with repeated=N; this continues for each repeatEvery while the line
// repeats. Of one message, digits ignored, maxVariants lines with different attributes are
// written; others are counted together and written as the last of them with similar=N.
// Past maxRepeats different lines, all others are one line with similar=N.
type repeatHandler struct {
	inner slog.Handler
	// scope has the attributes and groups of WithAttrs and WithGroup.
	scope string
	*repeatCounts
}

// newRepeatHandler returns a handler that bounds the lines that inner gets.
func newRepeatHandler(inner slog.Handler) *repeatHandler {
	return &repeatHandler{inner: inner, repeatCounts: &repeatCounts{lines: map[uint64]*line{}, variants: map[uint64]int{}, seed: maphash.MakeSeed()}}
}

// Enabled implements slog.Handler.
func (h *repeatHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.inner.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (h *repeatHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	scope := h.scope
	for _, a := range attrs {
		scope += attrText(a)
	}
	return &repeatHandler{h.inner.WithAttrs(attrs), scope, h.repeatCounts}
}

// WithGroup implements slog.Handler.
func (h *repeatHandler) WithGroup(name string) slog.Handler {
	return &repeatHandler{h.inner.WithGroup(name), h.scope + "\x00" + name, h.repeatCounts}
}

// Handle implements slog.Handler.
func (h *repeatHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn || !h.countRepeat(h, r, time.Now()) {
		return h.inner.Handle(ctx, r)
	}
	return nil
}

// attrText returns an attribute for a key that distinguishes lines.
func attrText(a slog.Attr) string { return "\x00" + a.Key + "\x00" + a.Value.Resolve().String() }

// messageKey returns what lines of one message share: the level, the scope and the message
// without digits, which are addresses and counts.
func (h *repeatHandler) messageKey(r slog.Record) string {
	message := strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' {
			return -1
		}
		return c
	}, r.Message)
	return r.Level.String() + h.scope + "\x00" + message
}

// lineKey returns what distinguishes a line from all others.
func (h *repeatHandler) lineKey(r slog.Record) string {
	text := strings.Builder{}
	text.WriteString(r.Level.String() + h.scope + "\x00" + r.Message)
	r.Attrs(func(a slog.Attr) bool { text.WriteString(attrText(a)); return true })
	return text.String()
}

// repeatCounts is the state that all handlers of one logger share.
type repeatCounts struct {
	seed maphash.Seed
	mu   sync.Mutex
	// lines are the lines of the last repeatEvery, by the hash of their lineKey or messageKey.
	lines map[uint64]*line
	// variants counts the lines of each message.
	variants map[uint64]int
	// overflow are the lines past maxRepeats, or nil.
	overflow *line
	// sweep fires at due while a line waits to be written; else it is nil.
	sweep *time.Timer
	due   time.Time
}

// line is a line that was written, and its repeats.
type line struct {
	// message is the key in variants, or 0 if the line stands for several.
	message uint64
	// until is when it is written again, or forgotten if count is 0.
	until time.Time
	count int
	// last is the latest repeat, and handler writes it.
	last    slog.Record
	handler slog.Handler
	// attr is the attribute with the count.
	attr string
}

// countRepeat counts a line, and reports whether it must not be written now.
func (c *repeatCounts) countRepeat(h *repeatHandler, r slog.Record, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropExpired(now)
	key, message := maphash.String(c.seed, h.lineKey(r)), maphash.String(c.seed, "message\x00"+h.messageKey(r))
	switch {
	case c.lines[key] != nil:
		c.add(c.lines[key], h, r, now)
	case c.variants[message] >= maxVariants:
		if c.lines[message] == nil {
			c.lines[message] = &line{until: now.Add(repeatEvery), attr: attrSimilar}
		}
		c.add(c.lines[message], h, r, now)
	case len(c.lines) >= maxRepeats:
		if c.overflow == nil {
			c.overflow = &line{until: now.Add(repeatEvery), attr: attrSimilar}
		}
		c.add(c.overflow, h, r, now)
	default:
		c.lines[key] = &line{message: message, until: now.Add(repeatEvery), attr: attrRepeated}
		c.variants[message]++
		return false
	}
	return true
}

// add counts a line, and schedules the writing of the count.
func (c *repeatCounts) add(l *line, h *repeatHandler, r slog.Record, now time.Time) {
	l.count++
	l.last, l.handler = r.Clone(), h.inner
	if c.sweep == nil || l.until.Before(c.due) {
		c.scheduleSweep(l.until, now)
	}
}

// scheduleSweep sets the time at which counts are written. The caller holds mu.
func (c *repeatCounts) scheduleSweep(due, now time.Time) {
	if c.sweep != nil {
		c.sweep.Stop()
	}
	c.due, c.sweep = due, time.AfterFunc(due.Sub(now), c.writeDue)
}

// dropExpired drops lines that did not repeat. The caller holds mu.
func (c *repeatCounts) dropExpired(now time.Time) {
	over := func(l *line) bool { return l.count == 0 && !now.Before(l.until) }
	for key, l := range c.lines {
		if !over(l) {
			continue
		}
		delete(c.lines, key)
		if l.message == 0 {
			continue
		}
		if c.variants[l.message]--; c.variants[l.message] == 0 {
			delete(c.variants, l.message)
		}
	}
	if c.overflow != nil && over(c.overflow) {
		c.overflow = nil
	}
}

// writeDue writes the counts that are due, and waits for the next.
func (c *repeatCounts) writeDue() {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writeCounts(now, false)
	c.sweep = nil
	var next time.Time
	c.eachLine(func(l *line) {
		if l.count > 0 && (next.IsZero() || l.until.Before(next)) {
			next = l.until
		}
	})
	if !next.IsZero() {
		c.scheduleSweep(next, now)
	}
}

// flush writes all counts, because the process is about to end.
func (c *repeatCounts) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writeCounts(time.Now(), true)
	if c.sweep != nil {
		c.sweep.Stop()
		c.sweep = nil
	}
}

// writeCounts writes the counts that are due, or all. The caller holds mu.
func (c *repeatCounts) writeCounts(now time.Time, all bool) {
	c.eachLine(func(l *line) {
		if l.count == 0 || !all && now.Before(l.until) {
			return
		}
		r := l.last
		r.AddAttrs(slog.Int(l.attr, l.count))
		_ = l.handler.Handle(context.Background(), r) // stderr may be closed
		l.count, l.until, l.last, l.handler = 0, now.Add(repeatEvery), slog.Record{}, nil
	})
}

// eachLine visits all lines. The caller holds mu.
func (c *repeatCounts) eachLine(visit func(*line)) {
	for _, l := range c.lines {
		visit(l)
	}
	if c.overflow != nil {
		visit(c.overflow)
	}
}

// FlushLog writes the counts of repeated lines that a command's logger still holds: for a
// process that ends other than by returning from its command.
func FlushLog(l *slog.Logger) {
	if h, ok := l.Handler().(*repeatHandler); ok {
		h.flush()
	}
}
