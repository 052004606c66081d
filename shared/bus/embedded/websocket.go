package embedded

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/httpguard"
)

// websocketBounds bound the websocket's listener. The timeouts apply until a connection is a
// websocket; from then on the server's pings find dead ones.
type websocketBounds struct {
	header, read, idle time.Duration
	// headerBytes is the largest header, conns how many connections there may be, with
	// websockets; further ones are closed at once.
	headerBytes, conns int
}

func defaultWebsocketBounds() websocketBounds {
	return websocketBounds{header: 5 * time.Second, read: 10 * time.Second, idle: 30 * time.Second, headerBytes: 16 << 10, conns: 1024}
}

// websocketProxy is in front of the server's own websocket listener, and refuses requests
// with a foreign Host or Origin.
type websocketProxy struct {
	url  string
	http *http.Server
	done chan struct{}
	// inner has the connections to the server's listener.
	inner *http.Transport
}

// secretOrigin returns an origin that only this process knows. The server's own websocket
// listener allows no other, so that a page that finds its port is refused.
//
// The server accepts requests without an Origin, which can't be configured. A browser never
// sends one for a websocket. Any other program can connect to the NATS port as well, and
// needs a role's key on either. The inner listener stays on loopback.
func secretOrigin() string { return "https://" + rand.Text() + ".invalid" }

// startWebsocket serves cfg.WSAddr in front of the listener at inner. Requests that the guard
// accepts reach it with an origin.
func startWebsocket(ctx context.Context, cfg Config, inner, origin string, bounds websocketBounds) (*websocketProxy, error) {
	if cfg.WSGuard == nil {
		return nil, errors.New("start the websocket: no guard for its origins")
	}
	listener, err := url.Parse(inner)
	if err != nil {
		return nil, fmt.Errorf("start the websocket: %w", err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", cfg.WSAddr)
	if err != nil {
		return nil, fmt.Errorf("listen for the NATS websocket: %w: free the port or set TOCSIN_NATS_WS_ADDR", err)
	}
	target := &url.URL{Scheme: "http", Host: listener.Host}
	p := &websocketProxy{
		url: "ws://" + httpguard.DialAddress(l.Addr()), done: make(chan struct{}),
		// No proxy from the environment: the listener is in this process.
		inner: &http.Transport{DisableKeepAlives: true, ResponseHeaderTimeout: bounds.read},
	}
	proxy := &httputil.ReverseProxy{
		Transport: p.inner,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Set("Origin", origin)
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			http.Error(w, bus.ErrUnreachable.Error(), http.StatusServiceUnavailable)
		},
	}
	p.http = &http.Server{
		ReadHeaderTimeout: bounds.header,
		ReadTimeout:       bounds.read,
		IdleTimeout:       bounds.idle,
		MaxHeaderBytes:    bounds.headerBytes,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := cfg.WSGuard(r); err != nil {
				http.Error(w, err.Error(), http.StatusForbidden)
				return
			}
			proxy.ServeHTTP(w, r)
		}),
	}
	go func() {
		defer close(p.done)
		if err := p.http.Serve(&boundedListener{Listener: l, slots: make(chan struct{}, bounds.conns)}); !errors.Is(err, http.ErrServerClosed) {
			cfg.Logger.Error("the NATS websocket stopped", "error", err)
		}
	}()
	return p, nil
}

// close stops listening. Open websockets end with the server.
func (p *websocketProxy) close() {
	_ = p.http.Close() // the websockets are not its connections any more
	<-p.done
	p.inner.CloseIdleConnections()
}

// boundedListener closes connections for which there is no slot. They don't wait, because open
// websockets may stay for days.
type boundedListener struct {
	net.Listener
	slots chan struct{}
}

// Accept returns the next connection that has a slot.
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.slots <- struct{}{}:
			return &boundedConn{Conn: c, release: sync.OnceFunc(func() { <-l.slots })}, nil
		default:
			_ = c.Close() // it was never used
		}
	}
}

// boundedConn releases its slot when it is closed, also as a websocket.
type boundedConn struct {
	net.Conn
	release func()
}

// Close ends the connection.
func (c *boundedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
