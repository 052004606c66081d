package mcpserver

import (
	"errors"
	"time"
)

// errTimeout is returned by [within] when the time is up.
var errTimeout = errors.New("timed out")

// within calls f and waits for it, at most for limit: a client that stopped reading can
// block a write to it until the process ends. It returns f's error, or [errTimeout]; f
// then goes on in the background.
func within(limit time.Duration, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return errTimeout
	}
}
