package leader_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tocsin-bus/tocsin/services/kubewatch/leader"
)

const ttl = 10 * time.Second

// store is one lock that is forgotten after its TTL, as far as it can be reached.
type store struct {
	mu       sync.Mutex
	value    string
	revision uint64
	written  time.Time
	// away are those who can't reach it; slow is how long an answer takes.
	away map[string]bool
	slow time.Duration
}

// side is the store as one process sees it.
type side struct {
	*store
	name string
}

var errAway = errors.New("away")

func (s side) do(ctx context.Context, write func() (uint64, error)) (uint64, error) {
	s.mu.Lock()
	slow := s.slow
	s.mu.Unlock()
	if slow > 0 {
		select {
		case <-time.After(slow):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	s.mu.Lock()
	away := s.away[s.name]
	s.mu.Unlock()
	if away {
		<-ctx.Done()
		return 0, errAway
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.written) >= ttl {
		s.value = ""
	}
	return write()
}

func (s side) Create(ctx context.Context, _ string, value []byte) (uint64, error) {
	return s.do(ctx, func() (uint64, error) {
		if s.value != "" {
			return 0, leader.ErrTaken
		}
		return s.write(value), nil
	})
}

func (s side) Update(ctx context.Context, _ string, value []byte, revision uint64) (uint64, error) {
	return s.do(ctx, func() (uint64, error) {
		if s.value == "" || s.revision != revision {
			return 0, leader.ErrTaken
		}
		return s.write(value), nil
	})
}

func (s side) Delete(ctx context.Context, _ string, revision uint64) error {
	_, err := s.do(ctx, func() (uint64, error) {
		if s.revision == revision {
			s.value = ""
		}
		return 0, nil
	})
	return err
}

func (s *store) write(value []byte) uint64 {
	s.value, s.written = string(value), time.Now()
	s.revision++
	return s.revision
}

func (s *store) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// stage is who acts now, and that there are never two.
type stage struct {
	t  *testing.T
	mu sync.Mutex
	on []string
	// last is when somebody acted last.
	last time.Time
}

func (s *stage) change(who string, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on = slices.DeleteFunc(s.on, func(w string) bool { return w == who })
	if on {
		s.on = append(s.on, who)
	}
	s.last = time.Now()
	if len(s.on) > 1 {
		s.t.Errorf("act at the same time: %v", s.on)
	}
}

func (s *stage) now() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.on)
}

// act acts until it may no longer, and takes a while to end in order.
func (s *stage) act(who string, orderly time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		s.change(who, true)
		defer s.change(who, false)
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), leader.ErrLapsed) {
			time.Sleep(orderly)
		}
		return nil
	}
}

func run(ctx context.Context, st *store, name string, act func(context.Context) error) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		leader.Run(ctx, leader.Config{
			Store: side{st, name}, Key: "dev", TTL: ttl, Value: func() []byte { return []byte(name) }, Logger: slog.New(slog.DiscardHandler),
		}, act)
	}()
	return ended
}

// TestTakeover: two processes, and what happens to the one that acts.
func TestTakeover(t *testing.T) {
	for name, tt := range map[string]struct {
		// happens ends the first one's reign in some way.
		happens func(st *store, end context.CancelFunc)
		// within is how long it may take until the other one acts, after at least so long.
		atLeast, within time.Duration
		// anyone says that it may be the first one again.
		anyone bool
	}{
		"nothing": {happens: func(*store, context.CancelFunc) {}},
		"an orderly end": {
			happens: func(_ *store, end context.CancelFunc) { end() },
			atLeast: 2 * time.Second, within: 3*time.Second + 10*time.Millisecond, // it takes 2 s to end
		},
		"it can't reach the store": {
			happens: func(st *store, _ context.CancelFunc) { st.set(func() { st.away["a"] = true }) },
			atLeast: ttl / 2, within: ttl + 2*time.Second,
		},
		"somebody has taken its lock": {
			happens: func(st *store, _ context.CancelFunc) { st.set(func() { st.write([]byte("c")) }) },
			atLeast: ttl, within: ttl + 2*time.Second, anyone: true, // who has taken it does not renew it
		},
		"the store is slow": {happens: func(st *store, _ context.CancelFunc) { st.set(func() { st.slow = 2 * time.Second }) }},
		"the store is away for all, for a moment": {happens: func(st *store, _ context.CancelFunc) {
			st.set(func() { st.away["a"], st.away["b"] = true, true })
			time.AfterFunc(3*time.Second, func() { st.set(func() { clear(st.away) }) })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := &store{away: map[string]bool{}}
				s := &stage{t: t}
				first, endFirst := context.WithCancel(t.Context())
				second, endSecond := context.WithCancel(t.Context())
				a := run(first, st, "a", s.act("a", 2*time.Second))
				time.Sleep(time.Second)
				b := run(second, st, "b", s.act("b", 0))
				time.Sleep(time.Minute)
				if got := s.now(); !slices.Equal(got, []string{"a"}) {
					t.Fatalf("%v act", got)
				}
				begun := time.Now()
				tt.happens(st, endFirst)
				if tt.within == 0 {
					time.Sleep(time.Minute)
					if got := s.now(); !slices.Equal(got, []string{"a"}) || s.last.After(begun) {
						t.Errorf("%v act, the last change was %s after it happened", got, s.last.Sub(begun))
					}
				} else {
					if tt.anyone {
						for len(s.now()) > 0 && time.Since(begun) < time.Minute {
							time.Sleep(time.Millisecond)
						}
					}
					for !slices.Equal(s.now(), []string{"b"}) && (!tt.anyone || len(s.now()) == 0) && time.Since(begun) < time.Minute {
						time.Sleep(time.Millisecond)
					}
					if took := time.Since(begun); took < tt.atLeast || took > tt.within {
						t.Errorf("the other one acts after %s, want %s to %s", took, tt.atLeast, tt.within)
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

// TestActFails: it begins anew, with the lock given up in between.
func TestActFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		times := 0
		var holds []bool
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			leader.Run(ctx, leader.Config{
				Store: side{&store{away: map[string]bool{}}, "a"}, TTL: ttl, Value: func() []byte { return []byte("a") },
				Holds: func(h bool) { holds = append(holds, h) }, Logger: slog.New(slog.DiscardHandler),
			}, func(ctx context.Context) error {
				if times++; times < 3 {
					return errors.New("as the test wants it")
				}
				<-ctx.Done()
				return nil
			})
		}()
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if times != 3 {
			t.Errorf("acted %d times", times)
		}
		end()
		<-ended
		if !slices.Equal(holds, []bool{true, false, true, false, true, false}) {
			t.Errorf("%v", holds)
		}
	})
}

// TestChanged: what the lock says is renewed at once.
func TestChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &store{away: map[string]bool{}}
		ctx, end := context.WithCancel(t.Context())
		changed, ended := make(chan struct{}), make(chan struct{})
		var mu sync.Mutex
		says := "well"
		go func() {
			defer close(ended)
			leader.Run(ctx, leader.Config{
				Store: side{st, "a"}, TTL: ttl, Changed: changed, Logger: slog.New(slog.DiscardHandler),
				Value: func() []byte { mu.Lock(); defer mu.Unlock(); return []byte(says) },
			}, func(ctx context.Context) error { <-ctx.Done(); return nil })
		}()
		time.Sleep(time.Second)
		mu.Lock()
		says = "degraded"
		mu.Unlock()
		changed <- struct{}{}
		synctest.Wait()
		if st.value != "degraded" {
			t.Errorf("it says %q", st.value)
		}
		end()
		<-ended
		if st.value != "" {
			t.Errorf("it was not given up: %q", st.value)
		}
	})
}

func TestLease(t *testing.T) {
	start := time.Now()
	at := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
	l := leader.NewLease(8 * time.Second)
	if l.Left(start) > 0 {
		t.Error("held without a renewal")
	}
	for _, tt := range []struct{ sent, now, want float64 }{
		{0, 0, 8}, {0, 7.5, 0.5}, {0, 8, 0}, {0, 9, -1},
		{6, 9, 5},
		{3, 9, 5}, // an older one came in late
	} {
		l.Renew(at(tt.sent))
		if got := l.Left(at(tt.now)).Seconds(); got != tt.want {
			t.Errorf("sent at %v, at %v: %v left, want %v", tt.sent, tt.now, got, tt.want)
		}
	}
	// The clock that only runs forward stood still while the machine was suspended.
	if l.Left(start.Round(0).Add(time.Hour)) > 0 {
		t.Error("held after an hour")
	}
}
