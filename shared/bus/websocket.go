package bus

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"
)

// websocketProxy stands in front of the server's own websocket listener and
// lets nobody through whose Host or Origin may not (contract, section 8).
type websocketProxy struct {
	url  string
	http *http.Server
	done chan struct{}
}

func startWebsocket(ctx context.Context, cfg ServerConfig, inner string) (*websocketProxy, error) {
	if cfg.WSGuard == nil {
		return nil, errors.New("start the websocket: no guard for its origins")
	}
	addr, err := hostPort(inner)
	if err != nil {
		return nil, fmt.Errorf("start the websocket: %w", err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", cfg.WSAddr)
	if err != nil {
		return nil, fmt.Errorf("listen for the NATS websocket: %w: free the port or set TOCSIN_NATS_WS_ADDR", err)
	}
	target := &url.URL{Scheme: "http", Host: addr}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Del("Origin")
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			http.Error(w, "the bus is away", http.StatusServiceUnavailable)
		},
	}
	p := &websocketProxy{
		url:  "ws://" + l.Addr().String(),
		done: make(chan struct{}),
		http: &http.Server{
			ReadHeaderTimeout: 5 * time.Second,
			MaxHeaderBytes:    16 << 10,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if err := cfg.WSGuard(r); err != nil {
					http.Error(w, err.Error(), http.StatusForbidden)
					return
				}
				proxy.ServeHTTP(w, r)
			}),
		},
	}
	go func() {
		defer close(p.done)
		if err := p.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			cfg.Logger.Error("the NATS websocket stopped", "error", err)
		}
	}()
	return p, nil
}

// close stops listening. Connections that are through end with the server.
func (p *websocketProxy) close() {
	_ = p.http.Close() // nothing of it is worth waiting for
	<-p.done
}
