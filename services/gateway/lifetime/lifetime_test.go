package lifetime_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/lifetime"
)

func TestCall(t *testing.T) {
	for _, tt := range []struct {
		name  string
		do    func(l *lifetime.Lifetime, cancelCall func())
		ended bool
	}{
		{"a cancelled call", func(_ *lifetime.Lifetime, cancelCall func()) { cancelCall() }, true},
		{"an aborted lifetime", func(l *lifetime.Lifetime, _ func()) { l.Abort() }, true},
		{"a lifetime that stopped accepting", func(l *lifetime.Lifetime, _ func()) { l.StopAccepting() }, false},
		{"stdin's end after it stopped accepting", func(l *lifetime.Lifetime, cancelCall func()) {
			l.StopAccepting()
			cancelCall()
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := lifetime.New(t.Context())
				defer l.Abort()
				call, cancelCall := context.WithCancel(t.Context())
				defer cancelCall()
				ctx, cancel := l.Call(call)
				defer cancel()
				tt.do(l, cancelCall)
				synctest.Wait()
				if got := ctx.Err() != nil; got != tt.ended {
					t.Errorf("the call has ended = %v, want %v", got, tt.ended)
				}
			})
		})
	}
}

func TestWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := errors.New("failed")
		if err := lifetime.Within(time.Second, func() error { return failed }); !errors.Is(err, failed) {
			t.Errorf("Within = %v, want %v", err, failed)
		}
		if err := lifetime.Within(time.Second, func() error { time.Sleep(2 * time.Second); return nil }); !errors.Is(err, lifetime.ErrTimeout) {
			t.Errorf("Within = %v, want %v", err, lifetime.ErrTimeout)
		}
		time.Sleep(2 * time.Second) // the first call ends
	})
}
