package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tocsin-bus/tocsin/services/gateway/resources"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/clean"
)

// readAtOnce is how many alerts one question to the bus asks for.
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
	first, last, err := g.extent(ctx)
	if err != nil {
		return resources.Story{}, err
	}
	quoted := []byte(`"` + id + `"`)
	var s resources.Story
	var at uint64
	for end := last; at == 0 && end >= first && end > 0; {
		begin := max(first, end-min(end, readAtOnce-1))
		err := g.stored(ctx, begin, end, func(m bus.Message) {
			var a alert.Alert
			if at == 0 && bytes.Contains(m.Data, quoted) && json.Unmarshal(m.Data, &a) == nil && a.ID == id {
				s, at = resources.NewStory(a), m.Seq
			}
		})
		if err != nil {
			return resources.Story{}, err
		}
		end = begin - min(begin, 1)
	}
	if at == 0 {
		return resources.Story{}, resources.ErrNoSuchAlert
	}
	err = g.stored(ctx, at+1, last, func(m bus.Message) {
		var a alert.Alert
		if json.Unmarshal(m.Data, &a) == nil {
			s.GoOn(a)
		}
	})
	s.Show(clean.Alert(s.Alert, g.mask))
	return s, err
}

// extent is the first and the last place of the alerts that the bus holds. With
// none it is empty: the last comes before the first.
func (g *gateway) extent(ctx context.Context) (first, last uint64, err error) {
	if err := g.connected(); err != nil {
		return 0, 0, err
	}
	s, err := g.link.conn.Load().JS.Stream(ctx, bus.StreamAlerts)
	if err != nil {
		return 0, 0, g.unread(ctx, err)
	}
	state := s.CachedInfo().State
	return max(state.FirstSeq, 1), state.LastSeq, nil
}

// stored hands over the alerts from one place to another.
func (g *gateway) stored(ctx context.Context, from, to uint64, handle func(bus.Message)) error {
	for from <= to {
		msgs, err := g.link.conn.Load().StoredFrom(ctx, bus.StreamAlerts, from, readAtOnce)
		if err != nil {
			return g.unread(ctx, err)
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

// unread says why the alerts can't be read.
func (g *gateway) unread(ctx context.Context, err error) error {
	if away := g.connected(); away != nil {
		return away
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return errSilent
	}
	return fmt.Errorf("read the alerts: %w", err)
}
