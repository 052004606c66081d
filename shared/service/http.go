package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// stopTimeout is how long requests under way may take once a server stops.
const stopTimeout = 5 * time.Second

// ServeHTTP serves until ctx ends, then lets requests under way finish, for at
// most 5 s. It returns nil after such an end. It sets s.ConnState.
func ServeHTTP(ctx context.Context, l net.Listener, s *http.Server) error {
	silent := silentConns{}
	s.ConnState = silent.note
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve HTTP on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(stop) }()
	serveErr := <-served // from here on there are no new connections
	silent.close()
	err := <-stopped
	if err != nil {
		err = errors.Join(fmt.Errorf("stop HTTP on %s: %w", l.Addr(), err), s.Close())
	}
	if !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("serve HTTP on %s: %w", l.Addr(), serveErr))
	}
	return err
}

// silentConns are connections on which nothing was asked yet. Shutdown would wait
// for them as for requests under way.
type silentConns struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

func (c *silentConns) note(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if state != http.StateNew {
		delete(c.conns, conn)
		return
	}
	if c.conns == nil {
		c.conns = map[net.Conn]struct{}{}
	}
	c.conns[conn] = struct{}{}
}

func (c *silentConns) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.conns {
		_ = conn.Close() // nobody would be told
	}
}
