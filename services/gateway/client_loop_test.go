package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/services/gateway/notifier"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// runSession runs a session loop whose lines the test reads from out.
func runSession(t *testing.T) (s *session, out chan string) {
	t.Helper()
	s = newSession(quietLog())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s, s.out
}

func (s *session) give(n int) {
	s.arrivals <- arrival{at: inbox.Position{Seq: uint64(n)}, alert: alert.Alert{
		ID: fmt.Sprint("id", n), Seq: uint64(n), Severity: alert.Error, Category: alert.CI, Title: fmt.Sprint("alert ", n), DedupKey: fmt.Sprint("key", n), App: "web", Timestamp: time.Now(),
	}}
}

func enable(t *testing.T, s *session, throttle int) {
	t.Helper()
	err := s.do(t.Context(), func(s *session, _ time.Time) {
		c := notifier.DefaultConfig()
		c.Enabled, c.ThrottleSeconds = true, throttle
		s.stream.Enable(c)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestSessionTimer: the loop's own timer sends the batch when it is due.
func TestSessionTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, out := runSession(t)
		enable(t, s, 5)
		begun := time.Now()
		var got []string
		for i := range 3 { // at 0, 0.2 and 0.4 s
			s.give(i)
			if i == 0 {
				got = append(got, fmt.Sprint(time.Since(begun), " ", strings.Contains(<-out, `"category":"ci"`)))
			}
			time.Sleep(200 * time.Millisecond)
		}
		line := <-out
		got = append(got, fmt.Sprint(time.Since(begun), " ", strings.Contains(line, `"category":"batch"`) && strings.Contains(line, `"count":2`)))
		if want := "[0s true 5s true]"; fmt.Sprint(got) != want {
			t.Errorf("got %v, want %s", got, want)
		}
	})
}

// TestSessionOfAClientThatDoesNotRead: what waits is bounded and counted, and
// the loop goes on.
func TestSessionOfAClientThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := runSession(t)
		enable(t, s, 1)
		for i := range 100 {
			s.give(i)
			time.Sleep(6 * time.Second)
		}
		err := s.do(t.Context(), func(s *session, _ time.Time) {
			if len(s.lines) != maxLines || s.lost != 100-maxLines || s.inbox.Len() != 50 {
				t.Errorf("%d lines, %d lost, %d in the inbox", len(s.lines), s.lost, s.inbox.Len())
			}
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestSessionWait(t *testing.T) {
	for _, tt := range []struct {
		name string
		rank int
		end  func(s *session, closing chan struct{}, cancel func())
		want time.Duration
		why  waited
	}{
		{"until an alert", 0, func(s *session, _ chan struct{}, _ func()) { s.give(1) }, 3 * time.Second, alertPends},
		{"until an urgent alert", 3, func(s *session, _ chan struct{}, _ func()) { s.give(1) }, 3 * time.Second, alertPends},
		{"not for one that is not urgent enough", 4, func(s *session, _ chan struct{}, _ func()) { s.give(1) }, 10 * time.Second, timeUp},
		{"until the time is up", 0, func(*session, chan struct{}, func()) {}, 10 * time.Second, timeUp},
		{"until stdin ends", 0, func(_ *session, closing chan struct{}, _ func()) { close(closing) }, 3 * time.Second, callEnded},
		{"until the call is cancelled", 0, func(_ *session, _ chan struct{}, cancel func()) { cancel() }, 3 * time.Second, callEnded},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := runSession(t)
				closing := make(chan struct{})
				call, cancel := context.WithCancel(t.Context())
				defer cancel()
				begun := time.Now()
				go func() {
					time.Sleep(3 * time.Second)
					tt.end(s, closing, cancel)
				}()
				why, err := s.wait(t.Context(), call, closing, tt.rank, 10*time.Second)
				if err != nil || why != tt.why {
					t.Fatalf("why: %v, %v", why, err)
				}
				if got := time.Since(begun); got != tt.want {
					t.Errorf("waited %s, want %s", got, tt.want)
				}
				err = s.do(t.Context(), func(s *session, _ time.Time) {
					if len(s.waiters) != 0 {
						t.Errorf("%d waiters are left", len(s.waiters))
					}
				})
				if err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func quietLog() *slog.Logger { return slog.New(slog.DiscardHandler) }
