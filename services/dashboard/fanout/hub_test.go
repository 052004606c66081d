package fanout

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func event(seq uint64) *Event {
	return &Event{Seq: seq, Frame: fmt.Appendf(nil, "%d", seq), App: "web", Category: alert.CI, Severity: alert.Error}
}

func events(from, to uint64) (list []*Event) {
	for seq := from; seq <= to; seq++ {
		list = append(list, event(seq))
	}
	return list
}

// seqs formats the sequences of alerts.
func seqs(list []*Event) string {
	all := make([]string, len(list))
	for i, e := range list {
		all[i] = fmt.Sprint(e.Seq)
	}
	return strings.Join(all, " ")
}

// take takes all alerts for a reader: "-2 5 6" for two missed alerts and then 5 and 6.
func take(t interface{ Fatal(...any) }, r *Reader) string {
	var all []string
	for more := true; more; {
		got, err := r.Take(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if got.Dropped > 0 {
			all = append(all, fmt.Sprintf("-%d", got.Dropped))
		}
		if len(got.Events) > 0 {
			all = append(all, seqs(got.Events))
		}
		more = got.More
	}
	return strings.Join(all, " ")
}

// span formats the sequences from one to another.
func span(from, to uint64) string { return seqs(events(from, to)) }

// running starts a hub, and returns it with the number of dropped alerts.
func running(t *testing.T, from uint64, past []*Event) (*Hub, *atomic.Int64) {
	t.Helper()
	var dropped atomic.Int64
	ctx, stop := context.WithCancel(context.Background())
	h := New(Bounds{}, func(n int) { dropped.Add(int64(n)) })
	var run sync.WaitGroup
	run.Go(func() { h.Run(ctx) })
	t.Cleanup(func() { stop(); run.Wait() })
	if err := h.Load(ctx, from, past); err != nil {
		t.Fatal(err)
	}
	return h, &dropped
}

func publish(t interface{ Fatal(...any) }, h *Hub, from, to uint64) {
	if err := h.Publish(context.Background(), to, events(from, to)); err != nil {
		t.Fatal(err)
	}
}

// TestJoin: a reader gets the alerts after its position, and an error if they are not all kept.
func TestJoin(t *testing.T) {
	h, _ := running(t, 11, events(11, 20))
	for _, tt := range []struct {
		name     string
		position Position
		want     string
		err      error
	}{
		{"at the end", Position{1, 20}, "", nil},
		{"behind", Position{1, 17}, "18 19 20", nil},
		{"at the oldest that is kept", Position{1, 10}, span(11, 20), nil},
		{"before the oldest that is kept", Position{1, 9}, "", ErrTooOld},
		{"beyond the end", Position{1, 99}, "", nil},
		{"in another stream", Position{2, 17}, "", ErrRecreated},
	} {
		r, err := h.Join(t.Context(), Filter{}, tt.position)
		if !errors.Is(err, tt.err) {
			t.Errorf("%s: Join = %v, want %v", tt.name, err, tt.err)
		}
		if (r == nil) != (err != nil) {
			t.Errorf("%s: Join = %v, %v, want a reader or an error", tt.name, r, err)
		}
		if r == nil {
			continue
		}
		if got, want := len(r.wake), min(len(tt.want), 1); got != want {
			t.Errorf("%s: woken %d times, want %d", tt.name, got, want)
		}
		checkTaken(t, tt.name, r, tt.want)
		h.Leave(r)
	}
}

// checkTaken takes all alerts for a reader, and compares them.
func checkTaken(t *testing.T, name string, r *Reader, want string) {
	t.Helper()
	if got := take(t, r); got != want {
		t.Errorf("%s: taken = %.80s, want %.80s", name, got, want)
	}
}

// TestSlowReader: a reader that takes nothing for a while misses the alerts that are no longer
// kept, and learns how many of them match its filter.
func TestSlowReader(t *testing.T) {
	h, dropped := running(t, 1, nil)
	ci := Filter{Categories: []alert.Category{alert.CI}}
	slow, err := h.Join(t.Context(), ci, Position{1, 0})
	if err != nil {
		t.Fatal(err)
	}
	none, err := h.Join(t.Context(), Filter{Apps: []string{"other"}}, Position{1, 0})
	if err != nil {
		t.Fatal(err)
	}
	publish(t, h, 1, 10)
	checkTaken(t, "first alerts", slow, span(1, 10))
	other := event(11)
	other.Category = alert.Security
	if err := h.Publish(t.Context(), 11, []*Event{other}); err != nil {
		t.Fatal(err)
	}
	publish(t, h, 12, 12+DefaultEvents+4)
	checkTaken(t, "after the loss", slow, "-5 "+span(17, 12+DefaultEvents+4))
	publish(t, h, 12+DefaultEvents+5, 12+DefaultEvents+5)
	checkTaken(t, "next alert", slow, fmt.Sprint(12+DefaultEvents+5))
	checkTaken(t, "reader without matches", none, "")
	if got := dropped.Load(); got != 5 {
		t.Errorf("dropped = %d, want 5", got)
	}
}

// TestRecreated: a reader continues with the first alert of a recreated stream.
func TestRecreated(t *testing.T) {
	h, _ := running(t, 1, events(1, 20))
	r, err := h.Join(t.Context(), Filter{}, Position{1, 18})
	if err != nil {
		t.Fatal(err)
	}
	checkTaken(t, "first stream", r, "19 20")
	publish(t, h, 21, 22)
	if err := h.Load(t.Context(), 1, nil); err != nil {
		t.Fatal(err)
	}
	publish(t, h, 1, 3)
	checkTaken(t, "recreated stream, after two that were not taken", r, "-2 1 2 3")
}

// TestBatches: a batch has at most maxBatchEvents and maxBatchBytes, but at least one alert.
func TestBatches(t *testing.T) {
	large := events(1, 10)
	for _, e := range large {
		e.Frame = make([]byte, maxBatchBytes/2-1)
	}
	for name, tt := range map[string]struct {
		past  []*Event
		sizes string
	}{
		"many":    {events(1, 2*maxBatchEvents+3), "64 64 3"},
		"large":   {large, "2 2 2 2 2"},
		"largest": {[]*Event{{Seq: 1, Frame: make([]byte, 2*maxBatchBytes)}, {Seq: 2, Frame: make([]byte, 2*maxBatchBytes)}}, "1 1"},
	} {
		h, _ := running(t, 1, tt.past)
		r, err := h.Join(t.Context(), Filter{}, Position{1, 0})
		if err != nil {
			t.Fatal(err)
		}
		var sizes []string
		for more := true; more; {
			got, err := r.Take(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			sizes, more = append(sizes, fmt.Sprint(len(got.Events))), got.More
		}
		if got := strings.Join(sizes, " "); got != tt.sizes {
			t.Errorf("%s: sizes of batches = %s, want %s", name, got, tt.sizes)
		}
	}
}

// TestBacklogBounds: the backlog has at most so many alerts and bytes, and knows from which
// sequence it is complete. Snapshots do not change.
func TestBacklogBounds(t *testing.T) {
	s := newLoopState(Bounds{DefaultEvents, DefaultBytes})
	s.load(1, nil)
	s.add(10, events(1, 10))
	early := s.snapshot()
	s.add(DefaultEvents+10, events(11, DefaultEvents+10))
	now := s.snapshot()
	checkSnapshot := func(name string, got *Snapshot, generation int, from, seq uint64, events string) {
		t.Helper()
		if want := (Position{generation, seq}); got.Position != want {
			t.Errorf("%s: position = %+v, want %+v", name, got.Position, want)
		}
		if got.From != from {
			t.Errorf("%s: From = %d, want %d", name, got.From, from)
		}
		if list := seqs(got.Events); list != events {
			t.Errorf("%s: events = %.80s, want %.80s", name, list, events)
		}
	}
	checkSnapshot("full", now, 1, 11, DefaultEvents+10, span(11, DefaultEvents+10))
	checkSnapshot("earlier", early, 1, 1, 10, span(1, 10))
	large := event(5000)
	large.Frame = make([]byte, DefaultBytes-10)
	s.add(5000, []*Event{large})
	three := span(DefaultEvents+9, DefaultEvents+10) + " 5000"
	checkSnapshot("with a large alert", s.snapshot(), 1, DefaultEvents+9, 5000, three)
	s.add(5001, nil) // a message that is not an alert
	checkSnapshot("after a message that is not an alert", s.snapshot(), 1, DefaultEvents+9, 5001, three)
	s.load(1, nil)
	checkSnapshot("recreated", s.snapshot(), 2, 1, 0, "")
}

// TestReaders: readers join, leave and are slow at random. Each gets every matching alert after
// its position in order, or the number of those that it missed.
func TestReaders(t *testing.T) {
	wants := func(seq uint64, every int) bool { return every == 1 || seq%uint64(every) == 0 }
	kind := func(seq uint64) *Event {
		e := event(seq)
		if wants(seq, 2) {
			e.App = "even"
		}
		return e
	}
	rapid.Check(t, func(rt *rapid.T) {
		h, dropped := running(t, 1, nil)
		type state struct {
			*Reader
			every int
			next  uint64 // the next sequence that it may get
		}
		var readers []*state
		var at uint64
		lost := 0
		takeAll := func(r *state, batches int) {
			for more := true; more && batches > 0; batches-- {
				got, err := r.Take(context.Background())
				if err != nil {
					rt.Fatal(err)
				}
				lost += got.Dropped
				for skip := got.Dropped; skip > 0; r.next++ {
					if wants(r.next, r.every) {
						skip--
					}
				}
				for _, e := range got.Events {
					for !wants(r.next, r.every) {
						r.next++
					}
					if e.Seq != r.next {
						rt.Fatalf("sequence of the next alert = %d, want %d", e.Seq, r.next)
					}
					r.next++
				}
				more = got.More
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"publish": func(rt *rapid.T) {
				n := uint64(rapid.IntRange(1, DefaultEvents/2).Draw(rt, "how many"))
				list := make([]*Event, 0, n)
				for seq := at + 1; seq <= at+n; seq++ {
					list = append(list, kind(seq))
				}
				if err := h.Publish(context.Background(), at+n, list); err != nil {
					rt.Fatal(err)
				}
				at += n
			},
			"join": func(rt *rapid.T) {
				position := uint64(rapid.IntRange(0, int(at)).Draw(rt, "position"))
				r := &state{every: rapid.IntRange(1, 2).Draw(rt, "every"), next: position + 1}
				var f Filter
				if r.every == 2 {
					f.Apps = []string{"even"}
				}
				var err error
				if r.Reader, err = h.Join(context.Background(), f, Position{1, position}); errors.Is(err, ErrTooOld) && position+1 < h.Snapshot().From {
					return
				}
				if err != nil {
					rt.Fatal(err)
				}
				readers = append(readers, r)
			},
			"leave": func(rt *rapid.T) {
				if len(readers) > 0 {
					i := rapid.IntRange(0, len(readers)-1).Draw(rt, "reader")
					h.Leave(readers[i].Reader)
					readers = append(readers[:i], readers[i+1:]...)
				}
			},
			"take": func(rt *rapid.T) {
				if len(readers) > 0 {
					takeAll(readers[rapid.IntRange(0, len(readers)-1).Draw(rt, "reader")], rapid.IntRange(1, 80).Draw(rt, "batches"))
				}
			},
		})
		for _, r := range readers {
			takeAll(r, 1000)
			for !wants(r.next, r.every) {
				r.next++
			}
			if r.next <= at {
				rt.Fatalf("alert %d of %d was neither taken nor counted as dropped, want one of both", r.next, at)
			}
		}
		if int(dropped.Load()) != lost {
			rt.Fatalf("dropped = %d, want %d as the readers got", dropped.Load(), lost)
		}
	})
}

// TestHub checks that the loop ends with its context, and that later readers get an error.
func TestHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		h := New(Bounds{}, nil)
		var running sync.WaitGroup
		running.Go(func() { h.Run(ctx) })
		select {
		case <-h.Loaded():
			t.Error("Loaded is closed before Load, want it open")
		default:
		}
		if err := h.Load(ctx, 1, events(1, 3)); err != nil {
			t.Fatal(err)
		}
		<-h.Loaded()
		r, err := h.Join(ctx, Filter{}, Position{1, 2})
		if err != nil {
			t.Fatal(err)
		}
		<-r.Wake()
		checkTaken(t, "after Load", r, "3")
		publish(t, h, 4, 4)
		<-r.Wake()
		checkTaken(t, "after Publish", r, "4")
		h.Leave(r)
		publish(t, h, 5, 5)
		synctest.Wait()
		if got := len(r.wake); got != 0 {
			t.Errorf("a reader that has left is woken %d times, want 0", got)
		}
		if err := h.Load(ctx, 1, nil); err != nil { // a recreated stream
			t.Errorf("Load = %v, want nil", err)
		}
		if _, err := h.Join(ctx, Filter{}, Position{1, 5}); !errors.Is(err, ErrRecreated) {
			t.Errorf("Join = %v, want %v", err, ErrRecreated)
		}
		stop()
		running.Wait()
		if _, err := h.Join(t.Context(), Filter{}, Position{}); !errors.Is(err, ErrStopped) {
			t.Errorf("Join after the end = %v, want %v", err, ErrStopped)
		}
		h.Leave(r)
	})
}

// TestPublishTimeout: Publish waits for the loop until its context ends.
func TestPublishTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(Bounds{}, nil) // not run
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := h.Publish(ctx, 1, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Publish = %v, want %v", err, context.DeadlineExceeded)
		}
	})
}

// BenchmarkPublish publishes one alert to 200 readers.
func BenchmarkPublish(b *testing.B) {
	ctx, stop := context.WithCancel(b.Context())
	h := New(Bounds{}, func(int) {})
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { h.Run(ctx) })
	if err := h.Load(ctx, 1, nil); err != nil {
		b.Fatal(err)
	}
	for range 200 {
		r, err := h.Join(ctx, Filter{}, Position{1, 0})
		if err != nil {
			b.Fatal(err)
		}
		running.Go(func() {
			for {
				select {
				case <-r.Wake():
					for more := true; more; {
						got, err := r.Take(ctx)
						more = err == nil && got.More
					}
				case <-ctx.Done():
					return
				}
			}
		})
	}
	b.ReportAllocs()
	seq := uint64(0)
	for b.Loop() {
		seq++
		if err := h.Publish(ctx, seq, []*Event{event(seq)}); err != nil {
			b.Fatal(err)
		}
	}
}
