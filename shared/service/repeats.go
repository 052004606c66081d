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
	// repeatEvery is how often a warning or error that repeats is written.
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

// repeats is a slog.Handler that bounds how much a fault can log. It handles warnings and
// errors; less severe lines pass.
//
// The first of equal lines (level, message, group and attributes) is written at once.
// Repeats within repeatEvery are counted, and written once at the end of that time, as the
// last of them with repeated=N; this continues for each repeatEvery while the line
// repeats. Of one message, digits ignored, maxVariants lines with different attributes are
// written; others are counted together and written as the last of them with similar=N.
// Past maxRepeats different lines, all others are one line with similar=N.
type repeats struct {
	inner slog.Handler
	// scope is what WithAttrs and WithGroup have added.
	scope string
	*repeatCounts
}

// newRepeats bounds what inner gets.
func newRepeats(inner slog.Handler) *repeats {
	return &repeats{inner: inner, repeatCounts: &repeatCounts{lines: map[uint64]*line{}, variants: map[uint64]int{}, seed: maphash.MakeSeed()}}
}

// Enabled implements slog.Handler.
func (h *repeats) Enabled(ctx context.Context, level slog.Level) bool {
	return h.inner.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (h *repeats) WithAttrs(attrs []slog.Attr) slog.Handler {
	scope := h.scope
	for _, a := range attrs {
		scope += textOf(a)
	}
	return &repeats{h.inner.WithAttrs(attrs), scope, h.repeatCounts}
}

// WithGroup implements slog.Handler.
func (h *repeats) WithGroup(name string) slog.Handler {
	return &repeats{h.inner.WithGroup(name), h.scope + "\x00" + name, h.repeatCounts}
}

// Handle implements slog.Handler.
func (h *repeats) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn || !h.count(h, r, time.Now()) {
		return h.inner.Handle(ctx, r)
	}
	return nil
}

// textOf is an attribute as part of what distinguishes lines.
func textOf(a slog.Attr) string { return "\x00" + a.Key + "\x00" + a.Value.Resolve().String() }

// messageOf is what lines of one message share: the level, the scope and the message
// without its digits, which are addresses and counts.
func (h *repeats) messageOf(r slog.Record) string {
	message := strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' {
			return -1
		}
		return c
	}, r.Message)
	return r.Level.String() + h.scope + "\x00" + message
}

// lineOf is what distinguishes a line from all others.
func (h *repeats) lineOf(r slog.Record) string {
	text := strings.Builder{}
	text.WriteString(r.Level.String() + h.scope + "\x00" + r.Message)
	r.Attrs(func(a slog.Attr) bool { text.WriteString(textOf(a)); return true })
	return text.String()
}

// repeatCounts is what all handlers of one logger share.
type repeatCounts struct {
	seed maphash.Seed
	mu   sync.Mutex
	// lines are those of the last repeatEvery, by the hash of what distinguishes them.
	lines map[uint64]*line
	// variants counts the lines of each message.
	variants map[uint64]int
	// others are the lines past maxRepeats, or nil.
	others *line
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
	// last is the latest repeat, and by writes it.
	last slog.Record
	by   slog.Handler
	// attr is the attribute with the count.
	attr string
}

// count reports whether a line is counted and not written.
func (c *repeatCounts) count(h *repeats, r slog.Record, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(now)
	key, message := maphash.String(c.seed, h.lineOf(r)), maphash.String(c.seed, "message\x00"+h.messageOf(r))
	switch {
	case c.lines[key] != nil:
		c.add(c.lines[key], h, r, now)
	case c.variants[message] >= maxVariants:
		if c.lines[message] == nil {
			c.lines[message] = &line{until: now.Add(repeatEvery), attr: attrSimilar}
		}
		c.add(c.lines[message], h, r, now)
	case len(c.lines) >= maxRepeats:
		if c.others == nil {
			c.others = &line{until: now.Add(repeatEvery), attr: attrSimilar}
		}
		c.add(c.others, h, r, now)
	default:
		c.lines[key] = &line{message: message, until: now.Add(repeatEvery), attr: attrRepeated}
		c.variants[message]++
		return false
	}
	return true
}

// add counts a line, and schedules the writing of the count.
func (c *repeatCounts) add(l *line, h *repeats, r slog.Record, now time.Time) {
	l.count++
	l.last, l.by = r.Clone(), h.inner
	if c.sweep == nil || l.until.Before(c.due) {
		c.await(l.until, now)
	}
}

// await sets the time at which counts are written. It needs mu.
func (c *repeatCounts) await(due, now time.Time) {
	if c.sweep != nil {
		c.sweep.Stop()
	}
	c.due, c.sweep = due, time.AfterFunc(due.Sub(now), c.writeDue)
}

// forget drops lines that did not repeat. It needs mu.
func (c *repeatCounts) forget(now time.Time) {
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
	if c.others != nil && over(c.others) {
		c.others = nil
	}
}

// writeDue writes the counts that are due, and waits for the next.
func (c *repeatCounts) writeDue() {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.write(now, false)
	c.sweep = nil
	var next time.Time
	c.each(func(l *line) {
		if l.count > 0 && (next.IsZero() || l.until.Before(next)) {
			next = l.until
		}
	})
	if !next.IsZero() {
		c.await(next, now)
	}
}

// flush writes all counts, because the process is about to end.
func (c *repeatCounts) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.write(time.Now(), true)
	if c.sweep != nil {
		c.sweep.Stop()
		c.sweep = nil
	}
}

// write needs mu.
func (c *repeatCounts) write(now time.Time, all bool) {
	c.each(func(l *line) {
		if l.count == 0 || !all && now.Before(l.until) {
			return
		}
		r := l.last
		r.AddAttrs(slog.Int(l.attr, l.count))
		_ = l.by.Handle(context.Background(), r) // stderr may be closed
		l.count, l.until, l.last, l.by = 0, now.Add(repeatEvery), slog.Record{}, nil
	})
}

// each needs mu.
func (c *repeatCounts) each(visit func(*line)) {
	for _, l := range c.lines {
		visit(l)
	}
	if c.others != nil {
		visit(c.others)
	}
}

// FlushLog writes the counts of repeated lines that a command's logger still holds: for a
// process that ends other than by returning from its command.
func FlushLog(l *slog.Logger) {
	if h, ok := l.Handler().(*repeats); ok {
		h.flush()
	}
}
