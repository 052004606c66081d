package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/display"
	"github.com/tocsin-bus/tocsin/shared/silence"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// queryTimeout bounds what a call asks of the bus and the detector.
const queryTimeout = 3 * time.Second

// What a call says when it can't look.
var (
	errAway       = errors.New("the bus is away: alerts that come meanwhile are told once it is back; tocsin doctor says what is wrong")
	errSilent     = errors.New("the bus does not answer: alerts that come meanwhile are told once it does; tocsin doctor says what is wrong")
	errNoDetector = errors.New("the detector does not answer: tocsin doctor says what is wrong")
)

// connected is nil, or says that the bus is away.
func (g *gateway) connected() error {
	if c := g.link.conn.Load(); c == nil || !c.Connected() {
		return errAway
	}
	return nil
}

// ask asks the detector.
func ask[T any](ctx context.Context, g *gateway, subject string, request any) (reply T, err error) {
	if err := g.connected(); err != nil {
		return reply, err
	}
	data, err := bus.Ask(ctx, g.link.conn.Load(), subject, request)
	switch {
	case errors.Is(err, bus.ErrAway):
		return reply, errAway
	case errors.Is(err, bus.ErrNoAnswer):
		return reply, errNoDetector
	case err != nil:
		return reply, err
	}
	if err := json.Unmarshal(data, &reply); err != nil {
		return reply, fmt.Errorf("decode the detector's answer: %w", err)
	}
	return reply, nil
}

// history reads the alerts as they were published, newest first. A bus that does
// not answer in time gives those that were read by then, and that is said.
func (g *gateway) history(ctx context.Context, l look) (p page, err error) {
	read := 0
	err = g.newest(ctx, bus.StreamAlerts, l, func(m bus.Message) bool {
		read++
		var a alert.Alert
		if json.Unmarshal(m.Data, &a) != nil { // said when the inbox met it
			return true
		}
		if (l.app == "" || a.App == l.app) && strings.Contains(a.URL, l.url) && a.Severity.Rank() >= l.minRank && g.shows(a) {
			if len(p.entries) == l.limit {
				p.older++
			} else {
				p.entries = append(p.entries, entry{display.Alert(a, g.mask), position{Seq: m.Seq}})
			}
		}
		return p.older < maxLeftOut
	})
	notes, err := shortfall(err, read)
	p.incomplete = strings.Join(notes, "; ")
	return p, err
}

// newest hands over what a stream holds before the cursor and since the time that a
// call looks back to, newest first, until handle wants no more. What comes while it
// reads is not read.
func (g *gateway) newest(ctx context.Context, stream string, l look, handle func(bus.Message) (more bool)) error {
	first, last, err := g.extent(ctx, stream)
	if err != nil {
		return err
	}
	if l.before.Seq > 0 {
		last = min(last, l.before.Seq-1)
	}
	return g.backwards(ctx, stream, first, last, readAtOnce, func(m bus.Message) bool {
		return !m.Time.Before(l.from) && handle(m)
	})
}

// storedResult is a CI result with the bus's stamp of its arrival.
type storedResult struct {
	ci.Result
	Received time.Time `json:"received"`
	seq      uint64
}

// results reads the newest CI results, newest first.
func (g *gateway) results(ctx context.Context, l look) (p page, err error) {
	all, err := g.newestResults(ctx, l)
	for _, s := range all {
		switch {
		case l.before.Seq > 0 && s.seq >= l.before.Seq:
		case len(p.entries) == l.limit:
			p.older++
		default:
			p.entries = append(p.entries, entry{s, position{Seq: s.seq}})
		}
	}
	return p, err
}

// newestResults reads all CI results that are kept and were asked for.
func (g *gateway) newestResults(ctx context.Context, l look) ([]storedResult, error) {
	var stored []storedResult
	err := g.read(ctx, bus.StreamCI, l.from, func(m bus.Message) {
		r, err := ci.Decode(m.Data)
		if err != nil {
			g.log.Warn("skipped what is no CI result", "subject", m.Subject, "error", err)
			return
		}
		stored = append(stored, storedResult{Result: r, Received: m.Time, seq: m.Seq})
	})
	kept, _ := ci.Newest(stored, func(s storedResult) ci.Result { return s.Result })
	newest := []storedResult{}
	for _, s := range slices.Backward(kept) {
		if l.wantsResult(s.Result) {
			s.Result = display.Result(s.Result, g.mask)
			newest = append(newest, s)
		}
	}
	return newest, err
}

// wantsResult says whether a CI result was asked for. Its app is the default
// one, as that of its alert is.
func (l look) wantsResult(r ci.Result) bool {
	rank := alert.Error.Rank()
	if r.Status == ci.StatusSuccess {
		rank = alert.Info.Rank()
	}
	return (l.app == "" || l.app == telemetry.DefaultApp) && strings.Contains(r.URL, l.url) && rank >= l.minRank
}

// read hands over what a stream holds that arrived since a time, of which there must
// be little.
func (g *gateway) read(ctx context.Context, name string, since time.Time, handle func(bus.Message)) error {
	if err := g.connected(); err != nil {
		return err
	}
	err := bus.ReadSince(ctx, g.link.conn.Load(), name, since, g.log, handle)
	switch {
	case errors.Is(err, bus.ErrNoEnd):
		return fmt.Errorf("read stream %s: no end within %s: ask for less with since_seconds", name, queryTimeout)
	case errors.Is(err, context.DeadlineExceeded):
		return errSilent
	default:
		return err
	}
}

// silences changes what is told to nobody, for who is connected.
func (g *gateway) silences() silence.Store {
	return silence.NewStore(g.link.conn.Load(), g.mask, g.log)
}

// encode is json.Marshal without the escaping of <, > and &, which a model
// would have to read.
func encode(v any) (string, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "", fmt.Errorf("encode the answer: %w", err)
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}
