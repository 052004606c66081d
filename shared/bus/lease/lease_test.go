package lease_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
	"github.com/tocsin-bus/tocsin/shared/bus/lease"
)

const ttl = 10 * time.Second

// fakeStore is a store of one lease that is forgotten after its TTL.
type fakeStore struct {
	mu       sync.Mutex
	value    string
	revision uint64
	written  time.Time
	// unreachable names the processes that can't reach it; delay is how long an answer takes.
	unreachable map[string]bool
	delay       time.Duration
}

// storeOf is the store as one process sees it.
type storeOf struct {
	*fakeStore
	process string
}

var errUnreachable = errors.New("unreachable")

func (s storeOf) do(ctx context.Context, write func() (uint64, error)) (uint64, error) {
	s.mu.Lock()
	delay := s.delay
	s.mu.Unlock()
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	s.mu.Lock()
	unreachable := s.unreachable[s.process]
	s.mu.Unlock()
	if unreachable {
		<-ctx.Done()
		return 0, errUnreachable
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.written) >= ttl {
		s.value = ""
	}
	return write()
}

func (s storeOf) Acquire(ctx context.Context, value []byte) (uint64, error) {
	return s.do(ctx, func() (uint64, error) {
		if s.value != "" {
			return 0, lease.ErrHeld
		}
		return s.write(value), nil
	})
}

func (s storeOf) Renew(ctx context.Context, value []byte, revision uint64) (uint64, error) {
	return s.do(ctx, func() (uint64, error) {
		if s.value == "" || s.revision != revision {
			return 0, lease.ErrHeld
		}
		return s.write(value), nil
	})
}

func (s storeOf) Release(ctx context.Context, revision uint64) error {
	_, err := s.do(ctx, func() (uint64, error) {
		if s.revision == revision {
			s.value = ""
		}
		return 0, nil
	})
	return err
}

func (s *fakeStore) write(value []byte) uint64 {
	s.value, s.written = string(value), time.Now()
	s.revision++
	return s.revision
}

func (s *fakeStore) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// actors records who acts, and fails the test when two do at once.
type actors struct {
	t   *testing.T
	mu  sync.Mutex
	now []string
	// changed is when that changed last.
	changed time.Time
}

func (a *actors) set(process string, acts bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now = slices.DeleteFunc(a.now, func(p string) bool { return p == process })
	if acts {
		a.now = append(a.now, process)
	}
	a.changed = time.Now()
	if len(a.now) > 1 {
		a.t.Errorf("%v act at the same time, want one at most", a.now)
	}
}

func (a *actors) list() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.now)
}

// act returns what a process does: it acts until it may no longer, and takes a while to
// stop in order.
func (a *actors) act(process string, orderly time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		a.set(process, true)
		defer a.set(process, false)
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), lease.ErrLost) {
			time.Sleep(orderly)
		}
		return nil
	}
}

// run takes part as a process; the channel is closed when Run returns.
func run(ctx context.Context, st *fakeStore, process string, act func(context.Context) error) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		lease.Run(ctx, lease.Config{
			Store: storeOf{st, process}, TTL: ttl, Value: func() []byte { return []byte(process) }, Logger: slog.New(slog.DiscardHandler),
		}, act)
	}()
	return ended
}

// TestTakeover checks that the second of two processes takes over when it has to, and only then.
func TestTakeover(t *testing.T) {
	for name, tt := range map[string]struct {
		// happens is what happens to the first process.
		happens func(st *fakeStore, end context.CancelFunc)
		// atLeast and within bound how long it takes until the second process acts; within
		// is 0 where it must not.
		atLeast, within time.Duration
		// anyone means that the first process may act again as well.
		anyone bool
	}{
		"nothing": {happens: func(*fakeStore, context.CancelFunc) {}},
		"it stops in order": {
			happens: func(_ *fakeStore, end context.CancelFunc) { end() },
			atLeast: 2 * time.Second, within: 3*time.Second + 10*time.Millisecond, // it takes 2 s to end
		},
		"it can't reach the store": {
			happens: func(st *fakeStore, _ context.CancelFunc) { st.set(func() { st.unreachable["a"] = true }) },
			atLeast: ttl / 2, within: ttl + 2*time.Second,
		},
		"another process has written the lease": {
			happens: func(st *fakeStore, _ context.CancelFunc) { st.set(func() { st.write([]byte("c")) }) },
			atLeast: ttl, within: ttl + 2*time.Second, anyone: true, // that process does not renew it
		},
		"the store is slow": {happens: func(st *fakeStore, _ context.CancelFunc) { st.set(func() { st.delay = 2 * time.Second }) }},
		"no process can reach the store for a moment": {happens: func(st *fakeStore, _ context.CancelFunc) {
			st.set(func() { st.unreachable["a"], st.unreachable["b"] = true, true })
			time.AfterFunc(3*time.Second, func() { st.set(func() { clear(st.unreachable) }) })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := &fakeStore{unreachable: map[string]bool{}}
				s := &actors{t: t}
				first, endFirst := context.WithCancel(t.Context())
				second, endSecond := context.WithCancel(t.Context())
				a := run(first, st, "a", s.act("a", 2*time.Second))
				time.Sleep(time.Second)
				b := run(second, st, "b", s.act("b", 0))
				time.Sleep(time.Minute)
				if got := s.list(); !slices.Equal(got, []string{"a"}) {
					t.Fatalf("%v act, want the first process", got)
				}
				begun := time.Now()
				tt.happens(st, endFirst)
				if tt.within == 0 {
					time.Sleep(time.Minute)
					if got := s.list(); !slices.Equal(got, []string{"a"}) || s.changed.After(begun) {
						t.Errorf("%v act, changed %s after it happened, want the first process throughout", got, s.changed.Sub(begun))
					}
				} else {
					if tt.anyone {
						for len(s.list()) > 0 && time.Since(begun) < time.Minute {
							time.Sleep(time.Millisecond)
						}
					}
					for !slices.Equal(s.list(), []string{"b"}) && (!tt.anyone || len(s.list()) == 0) && time.Since(begun) < time.Minute {
						time.Sleep(time.Millisecond)
					}
					if took := time.Since(begun); took < tt.atLeast || took > tt.within {
						t.Errorf("the second process acts after %s, want %s to %s", took, tt.atLeast, tt.within)
					}
				}
				endFirst()
				endSecond()
				<-a
				<-b
			})
		})
	}
}

// TestActFails: work that fails starts over, with the lease released in between.
func TestActFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		times := 0
		var holds []bool
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			lease.Run(ctx, lease.Config{
				Store: storeOf{&fakeStore{unreachable: map[string]bool{}}, "a"}, TTL: ttl, Value: func() []byte { return []byte("a") },
				Held: func(h bool) { holds = append(holds, h) }, Logger: slog.New(slog.DiscardHandler),
			}, func(ctx context.Context) error {
				if times++; times < 3 {
					return errors.New("the first two fail")
				}
				<-ctx.Done()
				return nil
			})
		}()
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if times != 3 {
			t.Errorf("acted %d times, want 3", times)
		}
		end()
		<-ended
		if diff := cmp.Diff([]bool{true, false, true, false, true, false}, holds); diff != "" {
			t.Errorf("calls of Held (-want +got):\n%s", diff)
		}
	})
}

// TestChanged: a changed value is written at once.
func TestChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &fakeStore{unreachable: map[string]bool{}}
		ctx, end := context.WithCancel(t.Context())
		changed, ended := make(chan struct{}), make(chan struct{})
		var mu sync.Mutex
		state := "healthy"
		go func() {
			defer close(ended)
			lease.Run(ctx, lease.Config{
				Store: storeOf{st, "a"}, TTL: ttl, Changed: changed, Logger: slog.New(slog.DiscardHandler),
				Value: func() []byte { mu.Lock(); defer mu.Unlock(); return []byte(state) },
			}, func(ctx context.Context) error { <-ctx.Done(); return nil })
		}()
		time.Sleep(time.Second)
		mu.Lock()
		state = "degraded"
		mu.Unlock()
		changed <- struct{}{}
		synctest.Wait()
		if st.value != "degraded" {
			t.Errorf("value = %q, want degraded", st.value)
		}
		end()
		<-ended
		if st.value != "" {
			t.Errorf("value after the end = %q, want none: released", st.value)
		}
	})
}

func TestClock(t *testing.T) {
	start := time.Now()
	at := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
	c := lease.NewClock(8 * time.Second)
	if left := c.Left(start); left > 0 {
		t.Errorf("%s left without a renewal, want none", left)
	}
	if c.Epoch() != 0 || c.Holds(0, start) {
		t.Errorf("epoch %d before the first renewal, want 0, not held", c.Epoch())
	}
	for _, tt := range []struct {
		sent, acknowledged, now, left float64
		epoch                         uint64
	}{
		{0, 0, 0, 8, 1}, {0, 1, 7.5, 0.5, 1}, {0, 1, 8, 0, 1}, {0, 1, 9, -1, 1},
		{6, 7, 9, 5, 1},
		{3, 8, 9, 5, 1},       // an older one was acknowledged late
		{15, 15, 16, 7, 2},    // it had expired at 14
		{15, 23.5, 24, -1, 3}, // acknowledged too late: not held
	} {
		c.Renew(at(tt.sent), at(tt.acknowledged))
		if got := c.Left(at(tt.now)).Seconds(); got != tt.left {
			t.Errorf("renewal sent at %v: %v s left at %v, want %v", tt.sent, got, tt.now, tt.left)
		}
		if got := c.Epoch(); got != tt.epoch {
			t.Errorf("renewal sent at %v: epoch %d, want %d", tt.sent, got, tt.epoch)
		}
		if got, want := c.Holds(tt.epoch, at(tt.now)), tt.left > 0; got != want {
			t.Errorf("renewal sent at %v: Holds = %t at %v, want %t", tt.sent, got, tt.now, want)
		}
		if c.Holds(tt.epoch-1, at(tt.now)) {
			t.Errorf("renewal sent at %v: the epoch before is held, want only epoch %d", tt.sent, tt.epoch)
		}
	}
	// The monotonic clock stood still while the machine was suspended.
	c.Renew(at(30), at(30))
	if left := c.Left(at(30).Round(0).Add(time.Hour)); left > 0 {
		t.Errorf("%s left after an hour, want none", left)
	}
}

// TestInBucket: leases in a bucket of the bus exclude each other, and one whose answer was
// lost is recognized as our own.
func TestInBucket(t *testing.T) {
	s := bustest.Start(t).Connect(bus.RoleKubewatch)
	of := func(process string) lease.Store {
		return lease.InBucket(s.Document(bus.BucketKubewatch, "dev"), func(value []byte) bool { return string(value) == process })
	}
	a, b := of("a"), of("b")
	first, err := a.Acquire(t.Context(), []byte("a"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Acquire(t.Context(), []byte("b")); !errors.Is(err, lease.ErrHeld) {
		t.Errorf("Acquire of a lease that is held = %v, want ErrHeld", err)
	}
	again, err := a.Acquire(t.Context(), []byte("a"))
	if err != nil || again <= first {
		t.Errorf("Acquire of our own lease = %d, %v, want a revision after %d", again, err, first)
	}
	renewed, err := a.Renew(t.Context(), []byte("a"), first) // as when the answer was lost
	if err != nil || renewed <= again {
		t.Errorf("Renew at an old revision = %d, %v, want a revision after %d", renewed, err, again)
	}
	if err := a.Release(t.Context(), first); !errors.Is(err, bus.ErrConflict) {
		t.Errorf("Release at an old revision = %v, want ErrConflict", err)
	}
	if err := a.Release(t.Context(), renewed); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Renew(t.Context(), []byte("a"), renewed); !errors.Is(err, lease.ErrHeld) {
		t.Errorf("Renew of a released lease = %v, want ErrHeld", err)
	}
	if _, err := b.Acquire(t.Context(), []byte("b")); err != nil {
		t.Errorf("Acquire of a released lease = %v, want nil", err)
	}
	if _, err := a.Renew(t.Context(), []byte("a"), renewed); !errors.Is(err, lease.ErrHeld) {
		t.Errorf("Renew of a lease that another process has = %v, want ErrHeld", err)
	}
}
