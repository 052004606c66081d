package sequencer_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/dashboard/sequencer"
)

// stream is a stream as its servers have it: what it holds, and what was ever in it.
type stream struct{ held, ever []sequencer.Mark }

// from is what a replica answers from a sequence on that lacks the newest.
func (s *stream) from(seq uint64, limit, lag int) (marks []sequencer.Mark) {
	for _, m := range s.held[:max(len(s.held)-lag, 0)] {
		if m.Seq >= seq && len(marks) < limit {
			marks = append(marks, m)
		}
	}
	return marks
}

func (s *stream) last(lag int) (sequencer.Mark, bool) {
	held := s.held[:max(len(s.held)-lag, 0)]
	if len(held) == 0 {
		return sequencer.Mark{}, false
	}
	return held[len(held)-1], true
}

// world is a bus on which anything may happen, and one reader of it.
type world struct {
	t       *rapid.T
	now     time.Time
	streams []*stream
	// live is what was published and has not arrived, and connected whether it can.
	live      []sequencer.Mark
	connected bool
	tape      sequencer.Tape
	told      []sequencer.Mark
}

const batch = 4

func (w *world) stream() *stream { return w.streams[len(w.streams)-1] }

func (w *world) publish() {
	s := w.stream()
	w.now = w.now.Add(time.Millisecond)
	m := sequencer.Mark{Seq: uint64(len(s.ever)) + 1, Time: w.now}
	s.held, s.ever = append(s.held, m), append(s.ever, m)
	if w.connected {
		w.live = append(w.live, m)
	}
}

func (w *world) hear() {
	if len(w.live) == 0 {
		return
	}
	m := w.live[0]
	w.live = w.live[1:]
	if w.tape.Heard(m) {
		w.told = append(w.told, m)
	}
}

// read does what the reader does where something is wanted: one round.
func (w *world) read(lag int) {
	from, wanted := w.tape.Want()
	if !wanted || !w.connected {
		return
	}
	marks := w.stream().from(from, batch, lag)
	tell, outcome := w.tape.Read(marks, len(marks) == batch)
	w.told = append(w.told, marks[tell:]...)
	if outcome == sequencer.Empty {
		w.tape.End(w.stream().last(lag))
	}
}

// check fails where something was told twice, in another order, or too early: of
// each stream an unbroken stretch is told, and of each after the first from its
// beginning on. What the stream itself dropped may be missing.
func (w *world) check(whole bool) {
	rest := w.told
	for i, s := range w.streams {
		var of []sequencer.Mark
		for len(rest) > 0 && slices.Contains(s.ever, rest[0]) {
			of, rest = append(of, rest[0]), rest[1:]
		}
		last := uint64(0)
		for _, m := range of {
			for seq := last + 1; seq < m.Seq; seq++ {
				if slices.Contains(s.held, s.ever[seq-1]) {
					w.t.Fatalf("stream %d: %d is not told, and %d is", i, seq, m.Seq)
				}
			}
			if m.Seq <= last {
				w.t.Fatalf("stream %d: %d after %d", i, m.Seq, last)
			}
			last = m.Seq
		}
		if !whole || i < len(w.streams)-1 {
			continue
		}
		if end, found := s.last(0); found && last != end.Seq {
			w.t.Fatalf("the end is %d, and told is %d", end.Seq, last)
		}
	}
	if len(rest) > 0 {
		w.t.Fatalf("told twice, or out of order: %v", rest)
	}
}

// TestTape: whatever happens, every alert is told once and in order.
func TestTape(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{t: t, now: noon, streams: []*stream{{}}, connected: true}
		t.Repeat(map[string]func(*rapid.T){
			"publish": func(*rapid.T) { w.publish() },
			"hear":    func(*rapid.T) { w.hear() },
			"hear again": func(t *rapid.T) {
				if n := len(w.stream().ever); n > 0 && w.connected && len(w.live) == 0 && len(w.streams) == 1 {
					if m := w.stream().ever[rapid.IntRange(0, n-1).Draw(t, "which")]; m.Seq <= w.tape.At().Seq && w.tape.Heard(m) {
						t.Fatalf("%d is told twice", m.Seq)
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
					w.tape.Checked(w.stream().last(rapid.IntRange(0, 3).Draw(t, "lag")))
				}
			},
			"disconnect": func(*rapid.T) { w.connected, w.live = false, nil },
			"connect": func(*rapid.T) {
				if !w.connected {
					w.connected = true
					w.tape.Doubt()
				}
			},
			"drop": func(t *rapid.T) { // the oldest, as a stream does at its limit
				s := w.stream()
				s.held = s.held[rapid.IntRange(0, len(s.held)).Draw(t, "how many"):]
			},
			"renew": func(*rapid.T) { // only while nobody is connected: a bus that starts anew
				if !w.connected {
					w.streams = append(w.streams, &stream{})
				}
			},
			"": func(*rapid.T) { w.check(false) },
		})
		if !w.connected {
			w.connected = true
			w.tape.Doubt()
		}
		for len(w.live) > 0 {
			w.hear()
		}
		w.tape.Checked(w.stream().last(0))
		for range 1000 {
			if _, wanted := w.tape.Want(); !wanted {
				break
			}
			w.read(0)
			if _, found := w.stream().last(0); !found { // all was dropped before it was read
				w.tape.GiveUp()
			}
		}
		if _, wanted := w.tape.Want(); wanted {
			t.Fatal("it never has enough")
		}
		w.check(true)
	})
}
