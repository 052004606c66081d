package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"github.com/tocsin-bus/tocsin/shared/httpguard"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
	"github.com/tocsin-bus/tocsin/shared/service"
)

const (
	// pathMCP is where MCP is served; the root is taken too.
	pathMCP = "/mcp"
	// maxConns is how many connections may be open; past it they wait.
	maxConns = 1024
	// headerTimeout bounds how slow the header of a request may come.
	headerTimeout = 5 * time.Second
)

// HTTPConfig says where MCP is served on HTTP, and to whom.
type HTTPConfig struct {
	// Addr is host:port; port 0 picks a free one. Anything but loopback needs a
	// Token.
	Addr string
	// Token, when set, must come with every request as Authorization: Bearer.
	Token string
	// AllowedHosts and AllowedOrigins may beside loopback; see httpguard.Policy.
	AllowedHosts, AllowedOrigins []string
	// Proxy is one in front whose users need no Token.
	Proxy httpguard.Proxy
	// Ready is called once, with the URL, when requests are taken. It may be nil.
	Ready func(url string)

	// beyond reports whether other machines can reach the listener.
	beyond bool
}

// Serve serves MCP on HTTP until ctx ends. Each client has an inbox, a stream
// and filters of its own, which end with its session.
func Serve(ctx context.Context, cfg Config, at HTTPConfig) error {
	if err := httpguard.CheckListen(ctx, "--http", at.Addr, at.Token); err != nil {
		return service.Usagef("%s", err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", at.Addr)
	if err != nil {
		return fmt.Errorf("listen for MCP clients: %w: free the port or name another with --http", err)
	}
	// A name is whatever the resolver makes of it: what counts is what it was now.
	if err := httpguard.CheckListen(ctx, "--http", l.Addr().String(), at.Token); err != nil {
		return errors.Join(service.Usagef("%s", err), l.Close())
	}
	at.beyond = httpguard.Beyond(l.Addr())
	f := newFront(ctx, cfg, at)
	url := "http://" + httpguard.Reachable(l.Addr()) + pathMCP
	f.log.Info("the gateway listens", "url", url)
	if at.Ready != nil {
		at.Ready(url)
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	var looking sync.WaitGroup
	looking.Go(func() { f.outlook.run(serving) })
	defer looking.Wait()
	defer stop() // also where it can't serve
	go func() {
		f.sweep(ctx)
		f.end() // streams that clients hold open end with their sessions
		stop()
	}()
	return httpserve.Serve(serving, netutil.LimitListener(l, maxConns), &http.Server{
		Handler: f, ReadHeaderTimeout: headerTimeout, MaxHeaderBytes: 32 << 10,
		ErrorLog: slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelDebug),
	}, f.log)
}
