package httpserve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"golang.org/x/net/netutil"

	"github.com/tocsin-bus/tocsin/shared/httpguard"
	"github.com/tocsin-bus/tocsin/shared/service"
)

// Listener is where a server listens.
type Listener struct {
	// Purpose completes "listen for ...", such as "ingest".
	Purpose string
	// Setting is the environment variable, or the flag, by which people change Addr.
	Setting string
	// Addr is host:port; port 0 picks a free one. Anything but loopback needs a Token.
	Addr, Token string
	// MaxConns is how many connections may be open; further ones wait in the kernel's
	// queue. 0: no bound.
	MaxConns int
}

// Check returns why nothing may listen there, as a usage error, or nil.
func (l Listener) Check(ctx context.Context) error { return l.check(ctx, l.Addr) }

func (l Listener) check(ctx context.Context, addr string) error {
	if err := httpguard.CheckListen(ctx, l.Setting, addr, l.Token); err != nil {
		return service.Usagef("%s", err)
	}
	return nil
}

// Listen checks the address and opens it.
func (l Listener) Listen(ctx context.Context) (net.Listener, error) {
	if err := l.Check(ctx); err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	open, err := lc.Listen(ctx, "tcp", l.Addr)
	if err != nil {
		change := "set "
		if strings.HasPrefix(l.Setting, "-") {
			change = "name another with "
		}
		return nil, fmt.Errorf("listen for %s: %w: free the port or %s%s", l.Purpose, err, change, l.Setting)
	}
	// A name may have been resolved differently this time.
	if err := l.check(ctx, open.Addr().String()); err != nil {
		return nil, errors.Join(err, open.Close())
	}
	if l.MaxConns > 0 {
		open = netutil.LimitListener(open, l.MaxConns)
	}
	return open, nil
}
