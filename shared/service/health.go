package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/shared/httpguard"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// Health is what a service serves that has no other HTTP: what an orchestrator asks for.
type Health struct {
	// Addr is where it listens. Setting is the name of the variable that says so.
	Addr, Setting string
	// Token has to be set to listen on anything but loopback; from there /metrics needs
	// it, and the others give no reasons without it. Hosts may be named by requests
	// beside loopback.
	Token string
	Hosts []string
	// Ready is nil, or says why the service does not do its work.
	Ready func() error
	// Metrics answers /metrics.
	Metrics http.Handler
}

// Check refuses an address that it may not listen on.
func (h Health) Check(ctx context.Context) error {
	if err := httpguard.CheckListen(ctx, h.Setting, h.Addr, h.Token); err != nil {
		return Usagef("%s", err)
	}
	return nil
}

// Serve serves /healthz, /readyz and /metrics until ctx ends.
func (h Health) Serve(ctx context.Context) error {
	policy := httpguard.Policy{AllowedHosts: h.Hosts}.ListeningOn(h.Addr)
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", h.Addr)
	if err != nil {
		return fmt.Errorf("listen for health checks: %w: free the port or set %s", err, h.Setting)
	}
	access := httpguard.Access{Token: strings.TrimSpace(h.Token), Beyond: httpguard.Beyond(l.Addr())}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) { AnswerHealth(w, r, access, nil) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { AnswerHealth(w, r, access, h.Ready()) })
	mux.Handle("GET /metrics", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := access.CheckRead(r); err != nil {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		h.Metrics.ServeHTTP(w, r)
	}))
	return ServeHTTP(ctx, l, &http.Server{
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := errors.Join(policy.CheckHost(r), policy.CheckSameSite(r)); err != nil {
				http.Error(w, err.Error(), http.StatusForbidden)
				return
			}
			mux.ServeHTTP(w, r)
		}),
	})
}

// AnswerHealth answers for what is well, or with 503 and, to those who may read, why it
// is not.
func AnswerHealth(w http.ResponseWriter, r *http.Request, access httpguard.Access, err error) {
	w.Header().Set("Content-Type", "application/json")
	answer := struct {
		OK    bool   `json:"ok"`
		Error string `json:"error,omitempty"`
	}{OK: err == nil}
	if err != nil {
		if access.CheckRead(r) == nil {
			answer.Error = sanitize.Visible(err.Error())
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(answer) // nobody to tell
}
