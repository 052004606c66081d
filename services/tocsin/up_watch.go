package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/busclient"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// idleChecks is the number of times that gateways are counted within the idle time.
const idleChecks = 20

// idle returns true when no event was accepted, no gateway was connected and no investigation was
// open for the idle time from now on, and false when ctx ends first.
func (u *up) idle(ctx context.Context) bool {
	u.lastUse.Store(time.Now().UnixNano())
	tick := time.NewTicker(max(u.cmd.IdleExit/idleChecks, 10*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case now := <-tick.C:
			if u.server.Connections(busclient.GatewayName) > 0 || u.investigations.OpenSessions() > 0 {
				u.lastUse.Store(now.UnixNano())
			}
			if now.Sub(time.Unix(0, u.lastUse.Load())) >= u.cmd.IdleExit {
				u.env.Logger.Info("the bus is idle and stops", "idle", u.cmd.IdleExit)
				return true
			}
		}
	}
}

// announceTick is the time between two comparisons of runtime.json with what was announced.
const announceTick = time.Second

// keepAnnounced restores runtime.json whenever it was removed or changed, until ctx ends.
// Without the file, clients can neither find this bus nor start another.
func (u *up) keepAnnounced(ctx context.Context) {
	tick := time.NewTicker(announceTick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		switch restored, err := u.lock.Restore(u.runtime); {
		case err != nil:
			u.env.Logger.Warn("runtime.json was removed or changed, and can't be restored", "error", err)
		case restored:
			u.env.Logger.Warn("restored runtime.json, which was removed or changed")
		}
	}
}

// faultTick is the time between two checks of a failed store for free space.
const faultTick = time.Second

// errWritable is returned when a failed store can be written again. The NATS server itself
// does not try again.
var errWritable = errors.New("the store can be written again")

// untilWritable returns [errWritable] when the server's store has failed and can be
// written again, and nil when ctx ends.
func (u *up) untilWritable(ctx context.Context) error {
	tick := time.NewTicker(faultTick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		fault := u.server.Fault()
		if fault == nil {
			continue
		}
		if err := checkSpace(u.env.StateDir, statedir.At(u.env.StateDir).JetStream()); err != nil {
			u.env.Logger.Warn("the store failed; free disk space to have it used again", "error", err)
			continue
		}
		return fmt.Errorf("%w after it failed: %w", errWritable, fault)
	}
}
