package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/busclient"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// idleLooks is how many times in the idle time is looked for gateways.
const idleLooks = 20

// idle returns true once nothing was taken in and no gateway was there for the
// idle time, and false when ctx ends first.
func (u *up) idle(ctx context.Context) bool {
	tick := time.NewTicker(max(u.cmd.IdleExit/idleLooks, 10*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case now := <-tick.C:
			if u.server.Connections(busclient.GatewayName) > 0 {
				u.lastUse.Store(now.UnixNano())
			}
			if now.Sub(time.Unix(0, u.lastUse.Load())) >= u.cmd.IdleExit {
				u.env.Logger.Info("nobody uses the bus: it ends", "idle", u.cmd.IdleExit)
				return true
			}
		}
	}
}

// announceTick is how often runtime.json is compared with what was announced.
const announceTick = time.Second

// keepAnnounced writes runtime.json again when it was removed or changed, until ctx
// ends: without it nobody finds the bus, and nobody may start another.
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
			u.env.Logger.Warn("runtime.json is not as it was written, and can't be written again", "error", err)
		case restored:
			u.env.Logger.Warn("runtime.json was removed or changed: it is written again")
		}
	}
}

// faultTick is the time between looks at a store that failed and may be writable again.
const faultTick = time.Second

// errWritable says that a store which could not be written has room again. The
// server itself does not try again.
var errWritable = errors.New("there is room for the store again")

// untilWritable returns errWritable for a server whose store failed, as soon as
// a new one could write it, and nil when ctx ends.
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
		if err := hasRoom(u.env.StateDir, statedir.At(u.env.StateDir).JetStream()); err != nil {
			u.env.Logger.Warn("the store failed and can't be written yet: it is used again once there is room", "error", err)
			continue
		}
		return fmt.Errorf("%w: it had failed: %w", errWritable, fault)
	}
}
