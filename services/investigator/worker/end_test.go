package worker

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/services/investigator/journal"
	"github.com/tocsin-bus/tocsin/services/investigator/session"
)

const otherID = "01JD3ZK9Q2W4X6Y8Z0A1B2C3D5"

// An effect that does not heed its cancellation holds up no later attempt of its session.
func TestEffectThatNeverEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, w := newMemory(), newWorld()
		release := make(chan struct{})
		var called atomic.Bool
		w.tool = func(context.Context, string) ToolResult {
			if !called.Swap(true) {
				<-release
			}
			return ToolResult{Text: "3 pods"}
		}
		m.submit(testID, testPlan())
		_, stop := w.worker(m, "a")
		synctest.Wait()
		m.foreign(testID, session.Fact{CancelRequested: &session.CancelRequested{By: "me"}})
		time.Sleep(time.Second)
		m.foreign(testID, session.Fact{Retried: &session.Retried{By: "me", Plan: testPlan()}})
		m.enqueue(testID, 2)
		time.Sleep(10 * time.Second)
		if s := m.fold(t, testID); s.Status() != session.StatusCompleted {
			t.Errorf("status %s of the second attempt while a call of the first hangs, want completed", s.Status())
		}
		if n := m.inForce(); n != 0 {
			t.Errorf("%d claims, want none", n)
		}
		close(release)
		stop()
		if w.open != 0 || w.running != 0 {
			t.Errorf("%d open sets, %d sessions active; want none", w.open, w.running)
		}
	})
}

// A session that was started again right after its end is not reported as ended.
func TestRetryBeforeTheHookOfTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, w := newMemory(), newWorld()
		var tried atomic.Bool
		w.hook = func(name string) error {
			if name == "ended" && !tried.Swap(true) {
				m.foreign(testID, session.Fact{Retried: &session.Retried{By: "me", Plan: testPlan()}})
				return errors.New("not yet")
			}
			return nil
		}
		m.foreign(testID, submitted(testID, testPlan()), session.Fact{Claimed: &session.Claimed{Worker: "gone", Epoch: 1}}, session.Fact{Ended: &session.Ended{Status: session.StatusFailed}})
		m.enqueue(testID, 1)
		_, stop := w.worker(m, "a")
		time.Sleep(time.Minute)
		if len(w.ends()) != 0 || m.left() != 0 {
			t.Errorf("hook ended %v, %d claims and places in the queue; want none for the replaced attempt", w.ends(), m.left())
		}
		m.enqueue(testID, 2)
		time.Sleep(time.Minute)
		stop()
		if diff := cmp.Diff([]string{testID + " completed"}, w.ends()); diff != "" {
			t.Errorf("hook ended (-want +got):\n%s", diff)
		}
	})
}

// Hooks that fail hold up no other session. The hook of the end is left out after some minutes.
func TestHooksThatFailHoldNoPlace(t *testing.T) {
	for _, name := range []string{"started", "ended"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, w := newMemory(), newWorld()
				var mended atomic.Bool
				w.hook = func(hook string) error {
					if !mended.Load() && hook == name {
						return errors.New("the bus refuses it")
					}
					return nil
				}
				m.submit(testID, testPlan())
				worker, stop := w.worker(m, "a")
				worker.SetLimits(Limits{Workers: 1, Sessions: 1})
				synctest.Wait()
				m.submit(otherID, testPlan())
				time.Sleep(2*hookTimeout + hookTurn)
				if s := m.fold(t, otherID); s.Status() != session.StatusCompleted {
					t.Errorf("status %s of the second session, want completed while the hook of the first fails", s.Status())
				}
				if name == "ended" {
					time.Sleep(2 * hookTurn)
					mended.Store(true)
					time.Sleep(3 * hookTurn)
					if diff := cmp.Diff(2, len(w.ends())); diff != "" {
						t.Errorf("ends that were reported (-want +got):\n%s", diff)
					}
				}
				if n := m.left(); n != 0 && name == "ended" {
					t.Errorf("%d claims and places in the queue, want none", n)
				}
				stop()
			})
		})
	}
	t.Run("for good", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m, w := newMemory(), newWorld()
			w.hook = func(hook string) error {
				if hook == "ended" {
					return errors.New("the bus refuses it")
				}
				return nil
			}
			m.submit(testID, testPlan())
			_, stop := w.worker(m, "a")
			time.Sleep(hookTurn + (maxTurns-1)*maxPause)
			if n := m.left(); n != 1 {
				t.Errorf("%d claims and places in the queue, want 1 before the last turn", n)
			}
			time.Sleep(hookTurn + 2*maxPause)
			if n := m.left(); n != 0 {
				t.Errorf("%d claims and places in the queue, want none after it", n)
			}
			stop()
		})
	})
	t.Run("for an hour, and then works", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m, w := newMemory(), newWorld()
			var mended atomic.Bool
			w.hook = func(hook string) error {
				if hook == "ended" && !mended.Load() {
					return errors.New("the bus refuses it")
				}
				return nil
			}
			// It ended long ago: no process ran since, or none reached the bus.
			m.foreign(testID, submitted(testID, testPlan()), session.Fact{Claimed: &session.Claimed{Worker: "gone", Epoch: 1}}, session.Fact{Ended: &session.Ended{Status: session.StatusFailed}})
			m.enqueue(testID, 1)
			time.Sleep(time.Hour)
			_, stop := w.worker(m, "a")
			time.Sleep(time.Hour)
			mended.Store(true)
			time.Sleep(2 * maxPause)
			if diff := cmp.Diff([]string{testID + " failed"}, w.ends()); diff != "" {
				t.Errorf("hook ended (-want +got):\n%s", diff)
			}
			if n := m.left(); n != 0 {
				t.Errorf("%d claims and places in the queue, want none", n)
			}
			stop()
		})
	})
}

// The hook of the end is called for a session that can't be folded too, as for its dedup_key.
func TestHookOfASessionThatCannotBeRead(t *testing.T) {
	for name, retried := range map[string]bool{"first attempt": false, "second attempt": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, w := newMemory(), newWorld()
				w.unreadable = true
				facts := []session.Fact{submitted(testID, testPlan()), {Claimed: &session.Claimed{Worker: "gone", Epoch: 1}}}
				attempt := 1
				if retried {
					attempt = 2
					facts = append(facts, session.Fact{Ended: &session.Ended{Status: session.StatusFailed}}, session.Fact{Retried: &session.Retried{By: "me", Plan: testPlan()}})
				}
				m.foreign(testID, facts...)
				m.mu.Lock()
				m.seq++
				m.logs[testID] = append(m.logs[testID], journal.Message{Session: testID, Data: []byte("{"), Seq: m.seq, Time: time.Now()})
				m.mu.Unlock()
				m.enqueue(testID, attempt)
				var got []string
				began, unreachable := time.Now(), 10*time.Minute
				cfg := w.config("a", m, m, m)
				cfg.Ended = func(_ context.Context, s *session.Session) error {
					if time.Since(began) < unreachable {
						return errAway
					}
					text := session.Summary(s).ErrorMessage
					if s.Attempt() != attempt || text == nil || !strings.Contains(*text, "internal error") {
						t.Errorf("attempt %d with the error %v, want %d with an internal error", s.Attempt(), text, attempt)
					}
					got = append(got, s.ID()+" "+string(s.Status()))
					return nil
				}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() { defer close(done); _ = New(cfg).Run(ctx) }()
				time.Sleep(unreachable + time.Minute)
				cancel()
				<-done
				if n, want := len(m.logs[testID]), 3; n != want {
					t.Errorf("%d messages in the log, want %d: the end is stored once", n, want)
				}
				if diff := cmp.Diff([]string{testID + " failed"}, got); diff != "" {
					t.Errorf("hook ended (-want +got):\n%s", diff)
				}
				if n := m.left(); n != 0 {
					t.Errorf("%d claims and places in the queue, want none", n)
				}
			})
		})
	}
}
