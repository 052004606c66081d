package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// stopTimeout is how long requests under way may take once a server stops.
const stopTimeout = 5 * time.Second

// ServeHTTP serves until ctx ends, then lets requests under way finish, for at
// most 5 s. It returns nil after such an end.
func ServeHTTP(ctx context.Context, l net.Listener, s *http.Server) error {
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve HTTP on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	err := s.Shutdown(stop)
	if err != nil {
		err = errors.Join(fmt.Errorf("stop HTTP on %s: %w", l.Addr(), err), s.Close())
	}
	if serveErr := <-served; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("serve HTTP on %s: %w", l.Addr(), serveErr))
	}
	return err
}
