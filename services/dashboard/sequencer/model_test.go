package sequencer_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/dashboard/sequencer"
)

// stream is a stream as its servers have it: what it holds now, and what it ever held.
type stream struct{ held, ever []sequencer.Stamp }

// from returns what a replica that lacks the newest lag messages answers from a sequence on.
func (s *stream) from(seq uint64, limit, lag int) (stamps []sequencer.Stamp) {
	for _, m := range s.held[:max(len(s.held)-lag, 0)] {
		if m.Seq >= seq && len(stamps) < limit {
			stamps = append(stamps, m)
		}
	}
	return stamps
}

func (s *stream) last(lag int) (sequencer.Stamp, bool) {
	held := s.held[:max(len(s.held)-lag, 0)]
	if len(held) == 0 {
		return sequencer.Stamp{}, false
	}
	return held[len(held)-1], true
}

// world is a bus on which anything may happen, with one reader.
type world struct {
	t       *rapid.T
	now     time.Time
	streams []*stream
	// live has the published messages that have not arrived; connected reports whether they can.
	live      []sequencer.Stamp
	connected bool
	sequencer sequencer.Sequencer
	delivered []sequencer.Stamp
}

const batch = 4

func (w *world) stream() *stream { return w.streams[len(w.streams)-1] }

func (w *world) publish() {
	s := w.stream()
	w.now = w.now.Add(time.Millisecond)
	m := sequencer.Stamp{Seq: uint64(len(s.ever)) + 1, Time: w.now}
	s.held, s.ever = append(s.held, m), append(s.ever, m)
	if w.connected {
		w.live = append(w.live, m)
	}
}

func (w *world) receive() {
	if len(w.live) == 0 {
		return
	}
	m := w.live[0]
	w.live = w.live[1:]
	if w.sequencer.AddLive(m) {
		w.delivered = append(w.delivered, m)
	}
}

// read does one round of what the reader does while something is wanted.
func (w *world) read(lag int) {
	from, wanted := w.sequencer.NextRead()
	if !wanted || !w.connected {
		return
	}
	stamps := w.stream().from(from, batch, lag)
	first, outcome := w.sequencer.AddRead(stamps, len(stamps) == batch)
	w.delivered = append(w.delivered, stamps[first:]...)
	if outcome == sequencer.Empty {
		w.sequencer.AddEmptyRead(w.stream().last(lag))
	}
}

// check fails if something was delivered twice, out of order or too early. Each stream is
// delivered without a gap, and each after the first from its beginning; only what the
// stream itself dropped may be missing.
func (w *world) check(whole bool) {
	rest := w.delivered
	for i, s := range w.streams {
		var ofStream []sequencer.Stamp
		for len(rest) > 0 && slices.Contains(s.ever, rest[0]) {
			ofStream, rest = append(ofStream, rest[0]), rest[1:]
		}
		last := uint64(0)
		for _, m := range ofStream {
			for seq := last + 1; seq < m.Seq; seq++ {
				if slices.Contains(s.held, s.ever[seq-1]) {
					w.t.Fatalf("stream %d: delivered %d before %d, want them in order", i, m.Seq, seq)
				}
			}
			if m.Seq <= last {
				w.t.Fatalf("stream %d: delivered %d after %d, want a higher one", i, m.Seq, last)
			}
			last = m.Seq
		}
		if !whole || i < len(w.streams)-1 {
			continue
		}
		if end, found := s.last(0); found && last != end.Seq {
			w.t.Fatalf("delivered up to %[2]d, want up to the end, %[1]d", end.Seq, last)
		}
	}
	if len(rest) > 0 {
		w.t.Fatalf("delivered twice or out of order: %v, want none", rest)
	}
}

// TestSequencer delivers every alert once and in order, over random losses and restarts.
func TestSequencer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{t: t, now: noon, streams: []*stream{{}}, connected: true}
		t.Repeat(map[string]func(*rapid.T){
			"publish": func(*rapid.T) { w.publish() },
			"receive": func(*rapid.T) { w.receive() },
			"publish again": func(t *rapid.T) {
				if n := len(w.stream().ever); n > 0 && w.connected && len(w.live) == 0 && len(w.streams) == 1 {
					if m := w.stream().ever[rapid.IntRange(0, n-1).Draw(t, "which")]; m.Seq <= w.sequencer.Delivered().Seq && w.sequencer.AddLive(m) {
						t.Fatalf("AddLive of the delivered message %d = true, want false", m.Seq)
					}
				}
			},
			"lose": func(*rapid.T) {
				if len(w.live) > 0 {
					w.live = w.live[1:]
				}
			},
			"read": func(t *rapid.T) { w.read(rapid.IntRange(0, 3).Draw(t, "lag")) },
			"check": func(t *rapid.T) {
				if w.connected {
					w.sequencer.CheckEnd(w.stream().last(rapid.IntRange(0, 3).Draw(t, "lag")))
				}
			},
			"disconnect": func(*rapid.T) { w.connected, w.live = false, nil },
			"connect": func(*rapid.T) {
				if !w.connected {
					w.connected = true
					w.sequencer.SuspectRecreation()
				}
			},
			"drop": func(t *rapid.T) { // the oldest, as a stream does at its limit
				s := w.stream()
				s.held = s.held[rapid.IntRange(0, len(s.held)).Draw(t, "how many"):]
			},
			"recreate": func(*rapid.T) { // only while disconnected: a bus that restarts without its store
				if !w.connected {
					w.streams = append(w.streams, &stream{})
				}
			},
			"": func(*rapid.T) { w.check(false) },
		})
		if !w.connected {
			w.connected = true
			w.sequencer.SuspectRecreation()
		}
		for len(w.live) > 0 {
			w.receive()
		}
		w.sequencer.CheckEnd(w.stream().last(0))
		for range 1000 {
			if _, wanted := w.sequencer.NextRead(); !wanted {
				break
			}
			w.read(0)
			if _, found := w.stream().last(0); !found { // all was dropped before it was read
				w.sequencer.Skip()
			}
		}
		if _, wanted := w.sequencer.NextRead(); wanted {
			t.Fatal("NextRead wants messages after 1000 reads, want none")
		}
		w.check(true)
	})
}
