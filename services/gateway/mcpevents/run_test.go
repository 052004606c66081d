package mcpevents

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// started is a stream in a bubble of time.
type started struct {
	m      *memory
	lines  chan string
	ending chan struct{}
	cancel context.CancelFunc
	done   chan error
	begun  time.Time
}

// open runs a stream whose client reads when the test does.
func open(t *testing.T, m *memory, from uint64) *started {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := &started{m: m, lines: make(chan string), ending: make(chan struct{}), cancel: cancel, done: make(chan error, 1), begun: time.Now()}
	go func() {
		s.done <- newPush(json.RawMessage(`"s1"`), everything(), at(from)).run(ctx, m, false, s.ending, func(l []byte) error {
			select {
			case s.lines <- parse(l).String():
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	return s
}

// read returns the next n lines as "seconds: line".
func (s *started) read(t *testing.T, n int) string {
	t.Helper()
	var all []string
	for range n {
		l := <-s.lines
		all = append(all, time.Since(s.begun).Round(time.Millisecond).String()+": "+l)
	}
	return strings.Join(all, "; ")
}

func (s *started) end(t *testing.T) error {
	t.Helper()
	s.cancel()
	return <-s.done
}

func want(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

func TestRunReplaysAndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.add(many(3)...)
		s := open(t, m, 1)
		want(t, s.read(t, 2), "0s: active@1; 0s: a002@2")
		want(t, s.read(t, 1), "5s: a003@3")
		time.Sleep(10 * time.Second)
		m.add(made("later"))
		want(t, s.read(t, 1), "15s: later@4")
		if err := s.end(t); err != nil {
			t.Error(err)
		}
	})
}

// TestRunTellsNothingThatWasHushedMeanwhile: what is held back can be silenced.
func TestRunTellsNothingThatWasHushedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.add(many(3)...)
		s := open(t, m, 0)
		want(t, s.read(t, 2), "0s: active@0; 0s: a001@1")
		m.hush("a003")
		want(t, s.read(t, 1), "5s: a002@3")
		m.add(made("B"), made("C"))
		time.Sleep(time.Second)
		m.hush("B", "C")
		want(t, s.read(t, 1), "25s: beat@5")
		_ = s.end(t)
	})
}

func TestRunBeatsWhenThereIsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		s := open(t, m, 0)
		want(t, s.read(t, 3), "0s: active@0; 20s: beat@0; 40s: beat@0")
		m.add(nil, nil) // nothing for the client
		want(t, s.read(t, 1), "1m0s: beat@2")
		time.Sleep(15 * time.Second)
		m.add(made("A"))
		want(t, s.read(t, 2), "1m15s: A@3; 1m35s: beat@3")
		_ = s.end(t)
	})
}

func TestRunSaysOnceThatTheBusIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		s := open(t, m, 0)
		s.read(t, 1)
		m.fail(errors.New("the bus is away"))
		want(t, s.read(t, 3), "20s: error; 20s: beat@0; 40s: beat@0")
		m.fail(nil)
		want(t, s.read(t, 1), "1m0s: beat@0")
		m.fail(errors.New("the bus is away"))
		want(t, s.read(t, 2), "1m20s: error; 1m20s: beat@0")
		_ = s.end(t)
	})
}

func TestRunTellsOfAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.add(many(5)...)
		s := open(t, m, 2)
		m.drop(4) // while the client does not read even the first line
		want(t, s.read(t, 3), "0s: active@2; 0s: gap@4; 0s: a005@5")
		_ = s.end(t)
	})
}

// TestRunWaitsForASlowReader shows that a client which reads nothing for an hour
// loses nothing, though more comes than a batch holds.
func TestRunWaitsForASlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		s := open(t, m, 0)
		s.read(t, 1)
		m.add(many(1000)...)
		time.Sleep(time.Hour)
		seen := map[string]bool{}
		for len(seen) < 1000 {
			l := <-s.lines
			name, _, _ := strings.Cut(l, "@")
			if strings.HasPrefix(l, "a") && seen[name] || name == "gap" {
				t.Fatalf("%s after %d alerts", l, len(seen))
			}
			if name != "beat" {
				seen[name] = true
			}
		}
		_ = s.end(t)
	})
}

func TestRunEnds(t *testing.T) {
	for name, end := range map[string]func(*started){
		"with the request":                   func(s *started) { s.cancel() },
		"with the gateway":                   func(s *started) { close(s.ending) },
		"while the client does not read":     func(s *started) { s.m.add(many(500)...); synctest.Wait(); s.cancel() },
		"while alerts are held back":         func(s *started) { s.m.add(many(500)...); <-s.lines; time.Sleep(time.Second); s.cancel() },
		"with the gateway, much held back":   func(s *started) { s.m.add(many(500)...); <-s.lines; synctest.Wait(); close(s.ending) },
		"with the request, and the bus away": func(s *started) { s.m.fail(errors.New("away")); s.cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, newMemory(), 0)
				s.read(t, 1)
				end(s)
				before := time.Now()
				if err := <-s.done; err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				if took := time.Since(before); took > 0 {
					t.Errorf("it took %s", took)
				}
				s.cancel()
			})
		})
	}
}

func TestRunEndsWhenNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		gone := errors.New("broken pipe")
		err := newPush(json.RawMessage(`"s1"`), everything(), at(0)).run(t.Context(), m, false, nil, func([]byte) error { return gone })
		if !errors.Is(err, gone) {
			t.Error(err)
		}
	})
}
