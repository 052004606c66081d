package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/tocsin-bus/tocsin/services/gateway/resources"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/display"
)

// readAtOnce is how many messages one question to the bus asks for.
const readAtOnce = 500

// story is find once the past is here, and bounded.
func (g *gateway) story(ctx context.Context, id string) (resources.Story, error) {
	g.settle(ctx)
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	return g.find(ctx, id)
}

// find reads an alert of the history and what became of it. It looks from the
// newest alert back, because that is where those are that are asked for.
func (g *gateway) find(ctx context.Context, id string) (resources.Story, error) {
	first, last, err := g.extent(ctx, bus.StreamAlerts)
	if err != nil {
		return resources.Story{}, err
	}
	quoted := []byte(`"` + id + `"`)
	var s resources.Story
	var at uint64
	err = g.backwards(ctx, bus.StreamAlerts, first, last, readAtOnce, func(m bus.Message) bool {
		var a alert.Alert
		if bytes.Contains(m.Data, quoted) && json.Unmarshal(m.Data, &a) == nil && a.ID == id && g.shows(a) {
			s, at = resources.NewStory(a), m.Seq
		}
		return at == 0
	})
	if err != nil {
		return resources.Story{}, err
	}
	if at == 0 {
		return resources.Story{}, resources.ErrNoSuchAlert
	}
	err = g.stored(ctx, bus.StreamAlerts, at+1, last, func(m bus.Message) {
		var a alert.Alert
		if json.Unmarshal(m.Data, &a) == nil && g.shows(a) {
			s.GoOn(a)
		}
	})
	s.Show(display.Alert(s.Alert, g.mask))
	return s, err
}

// shows says whether an alert may be told by this gateway; see package namespaces.
// One that may not is as if it did not exist.
func (g *gateway) shows(a alert.Alert) bool { return g.cfg.Kubernetes.Namespaces.ShowsAlert(a) }

// extent is the first and the last place of what a stream holds. With nothing it is
// empty: the last comes before the first.
func (g *gateway) extent(ctx context.Context, stream string) (first, last uint64, err error) {
	if err := g.connected(); err != nil {
		return 0, 0, err
	}
	s, err := g.link.conn.Load().JS.Stream(ctx, stream)
	if err != nil {
		return 0, 0, g.unread(ctx, stream, err)
	}
	state := s.CachedInfo().State
	return max(state.FirstSeq, 1), state.LastSeq, nil
}

// backwards hands over what a stream holds from one place to another, the newest
// first, until handle wants no more. It asks for so many at once.
func (g *gateway) backwards(ctx context.Context, stream string, first, last, atOnce uint64, handle func(bus.Message) (more bool)) error {
	for end := last; end >= first && end > 0; {
		begin := max(first, end-min(end, atOnce-1))
		var chunk []bus.Message
		if err := g.stored(ctx, stream, begin, end, func(m bus.Message) { chunk = append(chunk, m) }); err != nil {
			return err
		}
		for _, m := range slices.Backward(chunk) {
			if !handle(m) {
				return nil
			}
		}
		end = begin - min(begin, 1)
	}
	return nil
}

// stored hands over what a stream holds from one place to another.
func (g *gateway) stored(ctx context.Context, stream string, from, to uint64, handle func(bus.Message)) error {
	for from <= to {
		msgs, err := g.link.conn.Load().StoredFrom(ctx, stream, from, readAtOnce)
		if err != nil {
			return g.unread(ctx, stream, err)
		}
		if len(msgs) == 0 {
			return nil
		}
		for _, m := range msgs {
			if m.Seq > to {
				return nil
			}
			handle(m)
			from = m.Seq + 1
		}
	}
	return nil
}

// unread says why a stream can't be read.
func (g *gateway) unread(ctx context.Context, stream string, err error) error {
	if away := g.connected(); away != nil {
		return away
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return errSilent
	}
	if stream == bus.StreamKubernetes {
		return fmt.Errorf("read what clusters said: %w", err)
	}
	return fmt.Errorf("read the alerts: %w", err)
}
