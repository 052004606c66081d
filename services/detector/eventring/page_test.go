package eventring_test

import (
	"fmt"
	"testing"

	"github.com/tocsin-bus/tocsin/services/detector/eventring"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// TestPages reads all events in pages, while others arrive: each that was there at
// the first page is on one page. The events of one message have one time.
func TestPages(t *testing.T) {
	s := eventring.New(eventring.Config{})
	add := func(seq uint64, app string, n int) {
		for i := range n {
			s.AddAt(query.EventPosition{Seq: seq, Index: i}, line(app, telemetry.LevelInfo, fmt.Sprintf("%d.%d", seq, i)), at(int(seq)), "")
		}
	}
	for seq := range uint64(5) {
		add(seq+1, []string{"web", "shop"}[seq%2], 7)
	}
	ask := query.EventsRequest{Limit: 4, Paged: true}
	var got []string
	for left := 35; ; left -= 4 {
		p := s.Page(ask)
		if want := max(left-4, 0); p.Older != want {
			t.Fatalf("got %d older after %d events, want %d", p.Older, len(got)+len(p.Events), want)
		}
		for _, e := range p.Events {
			got = append(got, e.Log.Message)
		}
		if p.Older == 0 {
			break
		}
		ask.Before = p.Events[len(p.Events)-1].Position
		add(uint64(100+left), "web", 1)
	}
	for i, name := range got {
		if want := fmt.Sprintf("%d.%d", 5-i/7, 6-i%7); name != want {
			t.Fatalf("event %d of %v = %s, want %s", i, got, name, want)
		}
	}
	if len(got) != 35 {
		t.Errorf("got %d events, want 35", len(got))
	}
}

// TestOlderIsBounded checks that older events are counted up to MaxOlder, and only for a
// paged query.
func TestOlderIsBounded(t *testing.T) {
	s := eventring.New(eventring.Config{})
	for i := range 2 * eventring.MaxEvents {
		s.AddAt(query.EventPosition{Seq: uint64(i + 1)}, line(fmt.Sprint("app", i%2), telemetry.LevelInfo, "x"), at(0), "")
	}
	if p := s.Page(query.EventsRequest{Paged: true}); p.Older != query.MaxOlder || p.Events[0].Position.Seq != 2*eventring.MaxEvents {
		t.Errorf("got %d older behind position %v, want %d behind %d", p.Older, p.Events[0].Position, query.MaxOlder, 2*eventring.MaxEvents)
	}
	if p := s.Page(query.EventsRequest{}); p.Older != 0 || p.Events[0].Position != (query.EventPosition{}) {
		t.Errorf("not paged: got %d older and position %v, want none", p.Older, p.Events[0].Position)
	}
}
