package delivery

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/services/gateway/busclient"
	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/services/gateway/notifier"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
)

// newClient returns a client that is not connected: the test gives it its alerts, and
// answers its attempts to store a position, which come from saver.jobs.
func newClient(t *testing.T) *Client {
	t.Helper()
	return New(Config{
		Bus: busclient.New(bus.Config{}, quietLog()), Life: busclient.NewLifetime(t.Context()),
		Visible: func(alert.Alert) bool { return true }, Logger: quietLog(),
	})
}

// runClient runs the loop of a client until the test ends.
func runClient(t *testing.T) *Client {
	t.Helper()
	c := newClient(t)
	done := make(chan error, 1)
	go func() { done <- c.loop.run(c.life.Context()) }()
	t.Cleanup(func() {
		c.life.Abort()
		if err := <-done; err != nil {
			t.Errorf("the loop ends with %v, want no error", err)
		}
	})
	return c
}

// give hands the client its alert number n.
func (c *Client) give(n int) {
	c.loop.arrivals <- arrival{position: bus.Position{Seq: uint64(n)}, alert: alert.Alert{
		ID: fmt.Sprint("id", n), Seq: uint64(n), Severity: alert.Error, Category: alert.CI, Title: fmt.Sprint("alert ", n), DedupKey: fmt.Sprint("key", n), App: "web", Timestamp: time.Now(),
	}}
}

// do is [Client.Do] that must succeed.
func (c *Client) do(t *testing.T, f func(*State, time.Time)) {
	t.Helper()
	if err := c.Do(f); err != nil {
		t.Fatalf("Do = %v, want no error", err)
	}
}

func enable(t *testing.T, c *Client, throttle int) {
	t.Helper()
	c.do(t, func(s *State, _ time.Time) {
		cfg := notifier.DefaultConfig()
		cfg.ThrottleSeconds = throttle
		s.Enable(cfg, []Channel{ChannelMessage})
	})
}

// TestBatchTimer: the loop's own timer sends the batch when it is due.
func TestBatchTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := runClient(t)
		enable(t, c, 5)
		begun := time.Now()
		var got []string
		for i := range 3 { // at 0, 0.2 and 0.4 s
			c.give(i)
			if i == 0 {
				got = append(got, fmt.Sprint(time.Since(begun), " ", strings.Contains(<-c.Notifications(), `"category":"ci"`)))
			}
			time.Sleep(200 * time.Millisecond)
		}
		line := <-c.Notifications()
		got = append(got, fmt.Sprint(time.Since(begun), " ", strings.Contains(line, `"category":"batch"`) && strings.Contains(line, `"count":2`)))
		if diff := cmp.Diff([]string{"0s true", "5s true"}, got); diff != "" {
			t.Errorf("notifications (-want +got):\n%s", diff)
		}
	})
}

// TestClientThatDoesNotRead: the notifications that wait are bounded, the others are
// counted, and the loop goes on.
func TestClientThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := runClient(t)
		enable(t, c, 1)
		for i := range 100 {
			c.give(i)
			time.Sleep(6 * time.Second)
		}
		c.do(t, func(s *State, _ time.Time) {
			if got := len(s.lines); got != maxLines {
				t.Errorf("%d notifications wait, want %d", got, maxLines)
			}
			if got, want := s.Dropped, uint64(100-maxLines); got != want {
				t.Errorf("Dropped = %d, want %d", got, want)
			}
			if got := s.Inbox.Len(); got != inbox.Capacity {
				t.Errorf("%d alerts in the inbox, want %d", got, inbox.Capacity)
			}
		})
	})
}

func TestWait(t *testing.T) {
	for _, tt := range []struct {
		name string
		rank int
		end  func(c *Client, cancel func())
		want time.Duration
		why  Outcome
	}{
		{"until an alert", 0, func(c *Client, _ func()) { c.give(1) }, 3 * time.Second, AlertPending},
		{"until a severe alert", 3, func(c *Client, _ func()) { c.give(1) }, 3 * time.Second, AlertPending},
		{"not for one that is not severe enough", 4, func(c *Client, _ func()) { c.give(1) }, 10 * time.Second, TimeUp},
		{"until the time is up", 0, func(*Client, func()) {}, 10 * time.Second, TimeUp},
		{"until the gateway stops accepting", 0, func(c *Client, _ func()) { c.life.StopAccepting() }, 3 * time.Second, CallEnded},
		{"until the call is cancelled", 0, func(_ *Client, cancel func()) { cancel() }, 3 * time.Second, CallEnded},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := runClient(t)
				call, cancel := context.WithCancel(t.Context())
				defer cancel()
				begun := time.Now()
				go func() {
					time.Sleep(3 * time.Second)
					tt.end(c, cancel)
				}()
				why, err := c.Wait(call, tt.rank, 10*time.Second)
				if err != nil {
					t.Fatalf("Wait = %v, want no error", err)
				}
				if why != tt.why {
					t.Errorf("Wait = %v, want %v", why, tt.why)
				}
				if got := time.Since(begun); got != tt.want {
					t.Errorf("waited %s, want %s", got, tt.want)
				}
				c.do(t, func(*State, time.Time) {
					if got := len(c.loop.waiters); got != 0 {
						t.Errorf("%d waiters are left, want none", got)
					}
				})
			})
		})
	}
}

func quietLog() *slog.Logger { return slog.New(slog.DiscardHandler) }
