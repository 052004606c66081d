package httpserve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// Bounds of [NewServer].
const (
	// HeaderTimeout is for the header of a request.
	HeaderTimeout = 5 * time.Second
	// ReadTimeout is for the whole request; what comes later is dropped.
	ReadTimeout = 10 * time.Second
	// WriteTimeout runs from the end of the header on, so it includes the time to read the
	// body and to make the answer. Streams set deadlines of their own.
	WriteTimeout = 30 * time.Second
	// IdleTimeout is how long a connection may wait for its next request.
	IdleTimeout = 60 * time.Second
	// MaxHeaderBytes is the largest header.
	MaxHeaderBytes = 32 << 10
)

// abortAfter is how long requests under way may take once a server stops accepting.
const abortAfter = 5 * time.Second

// NewServer makes a server with the bounds above. What net/http logs is logged at debug.
func NewServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: HeaderTimeout,
		ReadTimeout:       ReadTimeout,
		WriteTimeout:      WriteTimeout,
		IdleTimeout:       IdleTimeout,
		MaxHeaderBytes:    MaxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		// The handler answers OPTIONS *, because it checks Host and Origin.
		DisableGeneralOptionsHandler: true,
	}
}

// Serve serves until ctx ends. Then it stops accepting, lets requests under way finish
// for at most 5 s, and aborts those that are left, which it logs. It sets s.ConnState.
func Serve(ctx context.Context, l net.Listener, s *http.Server, log *slog.Logger) error {
	err := serve(ctx, l, s)
	if errors.Is(err, context.DeadlineExceeded) {
		log.Warn("requests that took too long were aborted", "error", err)
		return nil
	}
	return err
}

func serve(ctx context.Context, l net.Listener, s *http.Server) error {
	silent := silentConns{}
	s.ConnState = silent.track
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve HTTP on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortAfter)
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

// silentConns are the connections without a request so far. Shutdown would wait for them
// as for requests under way.
type silentConns struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

func (c *silentConns) track(conn net.Conn, state http.ConnState) {
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
		_ = conn.Close() // no request is lost
	}
}
