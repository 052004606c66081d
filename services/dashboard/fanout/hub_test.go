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

// seqs writes the places of alerts.
func seqs(list []*Event) string {
	all := make([]string, len(list))
	for i, e := range list {
		all[i] = fmt.Sprint(e.Seq)
	}
	return strings.Join(all, " ")
}

// take takes all that there is for a reader, drops included.
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

// span writes the places from one to another.
func span(from, to uint64) string { return seqs(events(from, to)) }

// running is a hub that has begun, and what was dropped there.
func running(t *testing.T, from uint64, past []*Event) (*Hub, *atomic.Int64) {
	t.Helper()
	var dropped atomic.Int64
	ctx, end := context.WithCancel(context.Background())
	h := New(Bounds{}, func(n int) { dropped.Add(int64(n)) })
	var run sync.WaitGroup
	run.Go(func() { h.Run(ctx) })
	t.Cleanup(func() { end(); run.Wait() })
	if err := h.Load(ctx, from, past); err != nil {
		t.Fatal(err)
	}
	return h, &dropped
}

func tell(t interface{ Fatal(...any) }, h *Hub, from, to uint64) {
	if err := h.Publish(context.Background(), to, events(from, to)); err != nil {
		t.Fatal(err)
	}
}

// TestJoin: a reader gets what came after its place, once, and is refused where that
// is not known.
func TestJoin(t *testing.T) {
	h, _ := running(t, 11, events(11, 20))
	for _, tt := range []struct {
		name  string
		at    Position
		since string
		err   error
	}{
		{"at the end", Position{1, 20}, "", nil},
		{"behind", Position{1, 17}, "18 19 20", nil},
		{"at the beginning of what is kept", Position{1, 10}, span(11, 20), nil},
		{"before that", Position{1, 9}, "", ErrTooOld},
		{"beyond the end", Position{1, 99}, "", nil},
		{"of another stream", Position{2, 17}, "", ErrRecreated},
	} {
		r, err := h.Join(t.Context(), Filter{}, tt.at)
		if !errors.Is(err, tt.err) || (r == nil) != (err != nil) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if r == nil {
			continue
		}
		if len(r.wake) != min(len(tt.since), 1) {
			t.Errorf("%s: woken %d times", tt.name, len(r.wake))
		}
		if got := take(t, r); got != tt.since {
			t.Errorf("%s: %s", tt.name, got)
		}
		h.Leave(r)
	}
}

// TestSlow: a reader that takes nothing loses what is not kept any more, and is told
// how much of what it wants that was.
func TestSlow(t *testing.T) {
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
	tell(t, h, 1, 10)
	if got := take(t, slow); got != span(1, 10) {
		t.Errorf("at first %s", got)
	}
	unwanted := event(11)
	unwanted.Category = alert.Security
	if err := h.Publish(t.Context(), 11, []*Event{unwanted}); err != nil {
		t.Fatal(err)
	}
	tell(t, h, 12, 12+DefaultEvents+4)
	if got, want := take(t, slow), "-5 "+span(17, 12+DefaultEvents+4); got != want {
		t.Errorf("%.40s, want %.40s", got, want)
	}
	tell(t, h, 12+DefaultEvents+5, 12+DefaultEvents+5)
	if got, want := take(t, slow), fmt.Sprint(12+DefaultEvents+5); got != want {
		t.Errorf("then %s, want %s", got, want)
	}
	if got := take(t, none); got != "" || dropped.Load() != 5 {
		t.Errorf("%s, dropped %d", got, dropped.Load())
	}
}

// TestRenewed: a reader goes on with another stream from its beginning.
func TestRenewed(t *testing.T) {
	h, _ := running(t, 1, events(1, 20))
	r, err := h.Join(t.Context(), Filter{}, Position{1, 18})
	if err != nil {
		t.Fatal(err)
	}
	if got := take(t, r); got != "19 20" {
		t.Error(got)
	}
	tell(t, h, 21, 22)
	if err := h.Load(t.Context(), 1, nil); err != nil {
		t.Fatal(err)
	}
	tell(t, h, 1, 3)
	if got := take(t, r); got != "-2 1 2 3" { // what it had not taken is gone
		t.Error(got)
	}
}

// TestTaken: a reader takes a little at a time, however much there is.
func TestTaken(t *testing.T) {
	large := events(1, 10)
	for _, e := range large {
		e.Frame = make([]byte, maxBatchBytes/2-1)
	}
	for name, tt := range map[string]struct {
		past   []*Event
		pieces string
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
		var pieces []string
		for more := true; more; {
			got, err := r.Take(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			pieces, more = append(pieces, fmt.Sprint(len(got.Events))), got.More
		}
		if got := strings.Join(pieces, " "); got != tt.pieces {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestPast: what is kept has bounds, in number and in bytes, and says from where on
// it is whole. What was handed out stays as it is.
func TestPast(t *testing.T) {
	c := newLoopState(Bounds{DefaultEvents, DefaultBytes})
	c.load(1, nil)
	c.add(10, events(1, 10))
	early := c.snapshot()
	c.add(DefaultEvents+10, events(11, DefaultEvents+10))
	now := c.snapshot()
	if len(now.Events) != DefaultEvents || now.From != 11 || now.Seq != DefaultEvents+10 || now.Events[0].Seq != 11 {
		t.Errorf("%d from %d, at %d", len(now.Events), now.From, now.Seq)
	}
	if seqs(early.Events) != span(1, 10) || early.From != 1 {
		t.Errorf("%s from %d", seqs(early.Events), early.From)
	}
	large := event(5000)
	large.Frame = make([]byte, DefaultBytes-10)
	c.add(5000, []*Event{large})
	if now = c.snapshot(); len(now.Events) != 3 || now.From != DefaultEvents+9 {
		t.Errorf("%d from %d", len(now.Events), now.From)
	}
	c.add(5001, nil) // no alert
	if now = c.snapshot(); now.Seq != 5001 {
		t.Errorf("at %d", now.Seq)
	}
	c.load(1, nil)
	if now = c.snapshot(); len(now.Events) != 0 || now.Seq != 0 || now.Generation != 2 {
		t.Errorf("%+v", now)
	}
}

// TestReaders: whatever readers come, go and are slow, each gets every alert that it
// wants from its place on, in order, or is told how many it did not.
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
			next  uint64 // the next that it may get
		}
		var readers []*state
		var at uint64
		lost := 0
		takeAll := func(r *state, pieces int) {
			for more := true; more && pieces > 0; pieces-- {
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
						rt.Fatalf("%d comes, and %d is next", e.Seq, r.next)
					}
					r.next++
				}
				more = got.More
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"tell": func(rt *rapid.T) {
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
				place := uint64(rapid.IntRange(0, int(at)).Draw(rt, "place"))
				r := &state{every: rapid.IntRange(1, 2).Draw(rt, "every"), next: place + 1}
				var f Filter
				if r.every == 2 {
					f.Apps = []string{"even"}
				}
				var err error
				if r.Reader, err = h.Join(context.Background(), f, Position{1, place}); errors.Is(err, ErrTooOld) && place+1 < h.Snapshot().From {
					return
				}
				if err != nil {
					rt.Fatal(err)
				}
				readers = append(readers, r)
			},
			"leave": func(rt *rapid.T) {
				if len(readers) > 0 {
					i := rapid.IntRange(0, len(readers)-1).Draw(rt, "who")
					h.Leave(readers[i].Reader)
					readers = append(readers[:i], readers[i+1:]...)
				}
			},
			"take": func(rt *rapid.T) {
				if len(readers) > 0 {
					takeAll(readers[rapid.IntRange(0, len(readers)-1).Draw(rt, "who")], rapid.IntRange(1, 80).Draw(rt, "pieces"))
				}
			},
		})
		for _, r := range readers {
			takeAll(r, 1000)
			for !wants(r.next, r.every) {
				r.next++
			}
			if r.next <= at {
				rt.Fatalf("%d of %d was neither told nor counted", r.next, at)
			}
		}
		if int(dropped.Load()) != lost {
			rt.Fatalf("%d dropped, counted as %d", lost, dropped.Load())
		}
	})
}

// TestHub checks that the loop ends with its context, and that later readers get an error.
func TestHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		h := New(Bounds{}, nil)
		var running sync.WaitGroup
		running.Go(func() { h.Run(ctx) })
		select {
		case <-h.Loaded():
			t.Error("it has not begun")
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
		if got := take(t, r); got != "3" {
			t.Error(got)
		}
		tell(t, h, 4, 4)
		<-r.Wake()
		if got := take(t, r); got != "4" {
			t.Error(got)
		}
		h.Leave(r)
		tell(t, h, 5, 5)
		synctest.Wait()
		if len(r.wake) != 0 {
			t.Error("who has left is woken")
		}
		if err := h.Load(ctx, 1, nil); err != nil { // another stream
			t.Error(err)
		}
		if _, err := h.Join(ctx, Filter{}, Position{1, 5}); !errors.Is(err, ErrRecreated) {
			t.Error(err)
		}
		end()
		running.Wait()
		if _, err := h.Join(t.Context(), Filter{}, Position{}); !errors.Is(err, ErrStopped) {
			t.Error(err)
		}
		h.Leave(r)
	})
}

// TestHubIsBusy: who has no time to wait does not wait.
func TestHubIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(Bounds{}, nil) // nobody runs it
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := h.Publish(ctx, 1, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

// BenchmarkTell is one alert to 200 readers that read along.
func BenchmarkTell(b *testing.B) {
	ctx, end := context.WithCancel(b.Context())
	h := New(Bounds{}, func(int) {})
	var running sync.WaitGroup
	defer running.Wait()
	defer end()
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
