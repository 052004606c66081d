package embedded

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"
)

const (
	// startTimeout is how long the server may take to accept clients.
	startTimeout = 30 * time.Second
	// unhealthyTimeout is how long after that the server may report that it is not healthy.
	// It has read its store by then, so it does not recover by itself.
	unhealthyTimeout = 2 * time.Second
)

// awaitReady waits until clients can connect and the store is recovered.
func (s *Server) awaitReady(ctx context.Context, logs *serverLog) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	var unhealthySince time.Time
	for {
		select {
		case msg := <-logs.fatal:
			return errors.New(msg)
		case <-ctx.Done():
			return fmt.Errorf("wait for it to be ready: %w", context.Cause(ctx))
		case <-tick.C:
		}
		if !s.ns.ReadyForConnections(time.Millisecond) {
			continue
		}
		health := s.ns.Healthz(nil)
		if health.StatusCode == http.StatusOK {
			return nil
		}
		if unhealthySince.IsZero() {
			unhealthySince = time.Now()
		}
		if d, found := damageOf(logs.damage, health.Error); found {
			return damaged(d.text, streamOf(d.file))
		}
		if time.Since(unhealthySince) > unhealthyTimeout {
			return damaged(health.Error, logs.store)
		}
	}
}

// damageOf returns what the server logged about the stream that its health names. It may
// have logged other files as well, and recovered them.
func damageOf(logged <-chan damage, health string) (damage, bool) {
	for {
		select {
		case d := <-logged:
			if strings.Contains(health, "> "+filepath.Base(streamOf(d.file))+"'") {
				return d, true
			}
		default:
			return damage{}, false
		}
	}
}

// damaged returns what is wrong with the store and what can be done. Nothing is removed: its
// owner decides what can be saved.
func damaged(reason, path string) error {
	return fmt.Errorf("its store is damaged: %s: restore %s from a backup, or move it away, which loses its content, and start again", reason, path)
}

// streamOf returns the directory of the stream to which a file of the store belongs, or the
// file itself where there is none.
func streamOf(file string) string {
	const streams = string(filepath.Separator) + "streams" + string(filepath.Separator)
	before, after, found := strings.Cut(file, streams)
	if !found {
		return file
	}
	name, _, _ := strings.Cut(after, string(filepath.Separator))
	return before + streams + name
}
