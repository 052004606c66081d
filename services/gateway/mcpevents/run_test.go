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

// runningStream is a stream in a synctest bubble.
type runningStream struct {
	m        *fakeSource
	lines    chan string
	stopping chan struct{}
	cancel   context.CancelFunc
	done     chan error
	begun    time.Time
}

// open runs a stream whose client reads when the test does.
func open(t *testing.T, m *fakeSource, from uint64) *runningStream {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := &runningStream{m: m, lines: make(chan string), stopping: make(chan struct{}), cancel: cancel, done: make(chan error, 1), begun: time.Now()}
	go func() {
		s.done <- newPush(json.RawMessage(`"s1"`), everything(), position(from)).run(ctx, m, false, s.stopping, func(l []byte) error {
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
func (s *runningStream) read(t *testing.T, n int) string {
	t.Helper()
	var all []string
	for range n {
		l := <-s.lines
		all = append(all, time.Since(s.begun).Round(time.Millisecond).String()+": "+l)
	}
	return strings.Join(all, "; ")
}

func (s *runningStream) end(t *testing.T) error {
	t.Helper()
	s.cancel()
	return <-s.done
}

// check compares lines of a stream.
func check(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("lines:\n got %s\nwant %s", got, want)
	}
}

func TestRunReplaysAndContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newFakeSource()
		m.add(testAlerts(3)...)
		s := open(t, m, 1)
		check(t, s.read(t, 2), "0s: active@1; 0s: a002@2")
		check(t, s.read(t, 1), "5s: a003@3")
		time.Sleep(10 * time.Second)
		m.add(testAlert("later"))
		check(t, s.read(t, 1), "15s: later@4")
		if err := s.end(t); err != nil {
			t.Errorf("run = %v, want nil", err)
		}
	})
}

// TestRunSuppressesPendingAlerts: alerts that are suppressed while they are pending are not
// sent.
func TestRunSuppressesPendingAlerts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newFakeSource()
		m.add(testAlerts(3)...)
		s := open(t, m, 0)
		check(t, s.read(t, 2), "0s: active@0; 0s: a001@1")
		m.suppress("a003")
		check(t, s.read(t, 1), "5s: a002@3")
		m.add(testAlert("B"), testAlert("C"))
		time.Sleep(time.Second)
		m.suppress("B", "C")
		check(t, s.read(t, 1), "25s: beat@5")
		_ = s.end(t)
	})
}

func TestRunSendsHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newFakeSource()
		s := open(t, m, 0)
		check(t, s.read(t, 3), "0s: active@0; 20s: beat@0; 40s: beat@0")
		m.add(nil, nil) // nothing for the client
		check(t, s.read(t, 1), "1m0s: beat@2")
		time.Sleep(15 * time.Second)
		m.add(testAlert("A"))
		check(t, s.read(t, 2), "1m15s: A@3; 1m35s: beat@3")
		_ = s.end(t)
	})
}

func TestRunReportsAnUnreachableBusOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newFakeSource()
		s := open(t, m, 0)
		s.read(t, 1)
		m.fail(errors.New("the bus is unreachable"))
		check(t, s.read(t, 3), "20s: error; 20s: beat@0; 40s: beat@0")
		m.fail(nil)
		check(t, s.read(t, 1), "1m0s: beat@0")
		m.fail(errors.New("the bus is unreachable"))
		check(t, s.read(t, 2), "1m20s: error; 1m20s: beat@0")
		_ = s.end(t)
	})
}

func TestRunReportsAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newFakeSource()
		m.add(testAlerts(5)...)
		s := open(t, m, 2)
		m.drop(4) // before the client reads the first line
		check(t, s.read(t, 3), "0s: active@2; 0s: gap@4; 0s: a005@5")
		_ = s.end(t)
	})
}

// TestRunWaitsForASlowReader: a client that reads nothing for an hour loses nothing, even if
// more alerts come than a batch holds.
func TestRunWaitsForASlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newFakeSource()
		s := open(t, m, 0)
		s.read(t, 1)
		m.add(testAlerts(1000)...)
		time.Sleep(time.Hour)
		seen := map[string]bool{}
		for len(seen) < 1000 {
			l := <-s.lines
			name, _, _ := strings.Cut(l, "@")
			if strings.HasPrefix(l, "a") && seen[name] || name == "gap" {
				t.Fatalf("line %q after %d alerts, want each alert once and no gap", l, len(seen))
			}
			if name != "beat" {
				seen[name] = true
			}
		}
		_ = s.end(t)
	})
}

func TestRunEnds(t *testing.T) {
	for name, end := range map[string]func(*runningStream){
		"with the request":                           func(s *runningStream) { s.cancel() },
		"with the gateway":                           func(s *runningStream) { close(s.stopping) },
		"while the client does not read":             func(s *runningStream) { s.m.add(testAlerts(500)...); synctest.Wait(); s.cancel() },
		"while alerts are pending":                   func(s *runningStream) { s.m.add(testAlerts(500)...); <-s.lines; time.Sleep(time.Second); s.cancel() },
		"with the gateway, with many alerts pending": func(s *runningStream) { s.m.add(testAlerts(500)...); <-s.lines; synctest.Wait(); close(s.stopping) },
		"with the request, without the bus":          func(s *runningStream) { s.m.fail(errors.New("unreachable")); s.cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, newFakeSource(), 0)
				s.read(t, 1)
				end(s)
				before := time.Now()
				if err := <-s.done; err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("run = %v, want nil or %v", err, context.Canceled)
				}
				if took := time.Since(before); took > 0 {
					t.Errorf("run returned after %s, want 0s", took)
				}
				s.cancel()
			})
		})
	}
}

func TestRunEndsWhenWriteFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newFakeSource()
		gone := errors.New("broken pipe")
		err := newPush(json.RawMessage(`"s1"`), everything(), position(0)).run(t.Context(), m, false, nil, func([]byte) error { return gone })
		if !errors.Is(err, gone) {
			t.Errorf("run = %v, want %v", err, gone)
		}
	})
}
