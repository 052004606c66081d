package mcpserver

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := errors.New("failed")
		if err := within(time.Second, func() error { return failed }); !errors.Is(err, failed) {
			t.Errorf("within = %v, want %v", err, failed)
		}
		if err := within(time.Second, func() error { time.Sleep(2 * time.Second); return nil }); !errors.Is(err, errTimeout) {
			t.Errorf("within = %v, want %v", err, errTimeout)
		}
		time.Sleep(2 * time.Second) // the first call ends
	})
}
