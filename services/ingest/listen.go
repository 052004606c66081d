package ingest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"

	"golang.org/x/net/netutil"

	"github.com/tocsin-bus/tocsin/shared/httpguard"
	"github.com/tocsin-bus/tocsin/shared/service"
)

// listener is what listens, or nothing.
type listener struct{ net.Listener }

func (l listener) url() string {
	if l.Listener == nil {
		return ""
	}
	return "http://" + httpguard.Reachable(l.Addr())
}

// at is where it listens, or nil.
func (l listener) at() net.Addr {
	if l.Listener == nil {
		return nil
	}
	return l.Addr()
}

// Close ends it, if it listens.
func (l listener) Close() error {
	if l.Listener == nil {
		return nil
	}
	return l.Listener.Close()
}

// listen opens the listener of the intake, and that of OTLP where it is wanted
// and its port is free: another collector may be there with better right.
func (c Config) listen(ctx context.Context) (intake, otlp listener, err error) {
	intake, err = listenOn(ctx, "TOCSIN_INGEST_ADDR", c.Addr, c.Token)
	if err != nil || c.OTLPAddr == "" {
		return intake, listener{}, err
	}
	otlp, err = listenOn(ctx, "TOCSIN_OTLP_ADDR", c.OTLPAddr, c.Token)
	if errors.Is(err, syscall.EADDRINUSE) {
		c.Logger.Warn("nothing listens for OTLP at its usual port, because it is taken: name the intake in OTEL_EXPORTER_OTLP_ENDPOINT",
			"taken", c.OTLPAddr, "intake", intake.url())
		return intake, listener{}, nil
	}
	if err != nil {
		return listener{}, listener{}, errors.Join(err, intake.Close())
	}
	return intake, otlp, nil
}

func listenOn(ctx context.Context, setting, addr, token string) (listener, error) {
	if err := mayListen(ctx, setting, addr, token); err != nil {
		return listener{}, err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return listener{}, fmt.Errorf("listen for the intake: %w: free the port or set %s", err, setting)
	}
	// A name is whatever the resolver makes of it: what counts is what it was now.
	if err := mayListen(ctx, setting, l.Addr().String(), token); err != nil {
		return listener{}, errors.Join(err, l.Close())
	}
	return listener{netutil.LimitListener(l, maxConns)}, nil
}

func mayListen(ctx context.Context, setting, addr, token string) error {
	if err := httpguard.CheckListen(ctx, setting, addr, token); err != nil {
		return service.Usagef("%s", err)
	}
	return nil
}

// otlpAlone answers what senders of OTLP ask, and nothing else.
func (h *handler) otlpAlone() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case pathOTLPLogs, pathOTLPTraces, pathOTLPMetrics, pathHealth, pathReady:
			h.ServeHTTP(w, r)
		default:
			if err := h.policy.CheckSameSite(r); err != nil {
				refuse(http.StatusForbidden, err.Error()).write(w)
				return
			}
			drain(r)
			refuse(http.StatusNotFound, "not found: this port takes OTLP alone").write(w)
		}
	})
}
