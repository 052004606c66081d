package mcpserver

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestAwaitServices checks how long a request waits until it is known which services run.
func TestAwaitServices(t *testing.T) {
	const timeout = 3 * time.Second
	never := time.Duration(0)
	for _, tt := range []struct {
		name string
		// age is how long ago the server started, read after how much longer the services are
		// known, and ended after how much longer the request is cancelled.
		age, read, ended time.Duration
		known            bool
		took             time.Duration
	}{
		{name: "known in time", age: time.Second, read: time.Second, known: true, took: time.Second},
		{name: "known at once", age: time.Second, read: 1, known: true, took: 1},
		{name: "too late", age: time.Second, read: 5 * time.Second, took: 2 * time.Second},
		{name: "not known long after the start", age: time.Minute, read: never, took: 0},
		{name: "cancelled", age: time.Second, read: never, ended: time.Second, took: time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{toolset: newToolset(), started: time.Now().Add(-tt.age)}
				call, end := context.WithCancel(t.Context())
				defer end()
				if tt.read != never {
					time.AfterFunc(tt.read, s.toolset.kubernetes.setRead)
				}
				if tt.ended > 0 {
					time.AfterFunc(tt.ended, end)
				}
				began := time.Now()
				if known := s.awaitServices(call, timeout, s.toolset.kubernetes); known != tt.known || time.Since(began) != tt.took {
					t.Errorf("awaitServices = %t after %s, want %t after %s", known, time.Since(began), tt.known, tt.took)
				}
				time.Sleep(10 * time.Second) // the timers end
				if !tt.known && tt.read != never && !s.awaitServices(t.Context(), timeout, s.toolset.kubernetes) {
					t.Error("awaitServices = false once it is known, want true however late")
				}
			})
		})
	}
}
