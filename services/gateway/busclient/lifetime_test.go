package busclient_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/tocsin-bus/tocsin/services/gateway/busclient"
)

func TestLifetimeCall(t *testing.T) {
	for _, tt := range []struct {
		name  string
		do    func(l *busclient.Lifetime, cancelCall func())
		ended bool
	}{
		{"a cancelled call", func(_ *busclient.Lifetime, cancelCall func()) { cancelCall() }, true},
		{"an aborted lifetime", func(l *busclient.Lifetime, _ func()) { l.Abort() }, true},
		{"a lifetime that stopped accepting", func(l *busclient.Lifetime, _ func()) { l.StopAccepting() }, false},
		{"stdin's end after it stopped accepting", func(l *busclient.Lifetime, cancelCall func()) {
			l.StopAccepting()
			cancelCall()
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := busclient.NewLifetime(t.Context())
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
