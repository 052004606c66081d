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
	// startTimeout is how long the server may take to let clients in.
	startTimeout = 30 * time.Second
	// healthPatience is how long after that it may say that it is not well. It
	// reads its store before, so it does not get better by itself.
	healthPatience = 2 * time.Second
)

// ready waits until clients can connect and the store is recovered.
func (s *Server) ready(ctx context.Context, says *serverLog) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	var unwell time.Time
	for {
		select {
		case msg := <-says.fatal:
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
		if unwell.IsZero() {
			unwell = time.Now()
		}
		if d, found := damageOf(says.damage, health.Error); found {
			return damaged(d.text, streamOf(d.file))
		}
		if time.Since(unwell) > healthPatience {
			return damaged(health.Error, says.store)
		}
	}
}

// damageOf is what the server said of the stream that its health names: of
// other files it may have said something, and have got over it.
func damageOf(said <-chan damage, health string) (damage, bool) {
	for {
		select {
		case d := <-said:
			if strings.Contains(health, "> "+filepath.Base(streamOf(d.file))+"'") {
				return d, true
			}
		default:
			return damage{}, false
		}
	}
}

// damaged says what is wrong with the store and what can be done. Nothing is
// removed: what can still be saved of it is for its owner to say.
func damaged(reason, path string) error {
	return fmt.Errorf("its store is damaged: %s: restore %s from a backup, or move it away, without what is in it, and start again", reason, path)
}

// streamOf is the directory of the stream to which a file of the store belongs,
// or the file itself where there is none.
func streamOf(file string) string {
	const streams = string(filepath.Separator) + "streams" + string(filepath.Separator)
	before, after, found := strings.Cut(file, streams)
	if !found {
		return file
	}
	name, _, _ := strings.Cut(after, string(filepath.Separator))
	return before + streams + name
}
