package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/tocsin-bus/tocsin/shared/httpguard"
	"github.com/tocsin-bus/tocsin/shared/untrusted"
)

// Health is what a service serves that has no other HTTP: what an orchestrator asks for.
type Health struct {
	// Addr is where it listens. Setting is the name of the variable that says so.
	Addr, Setting string
	// Token has to be set to listen on anything but loopback. Hosts may be named by
	// requests beside that.
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
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { AnswerHealth(w, nil) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { AnswerHealth(w, h.Ready()) })
	mux.Handle("GET /metrics", h.Metrics)
	policy := httpguard.Policy{AllowedHosts: h.Hosts}.ListeningOn(h.Addr)
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", h.Addr)
	if err != nil {
		return fmt.Errorf("listen for health checks: %w: free the port or set %s", err, h.Setting)
	}
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

// AnswerHealth answers for what is well, or with 503 and why it is not.
func AnswerHealth(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "application/json")
	answer := struct {
		OK    bool   `json:"ok"`
		Error string `json:"error,omitempty"`
	}{OK: err == nil}
	if err != nil {
		answer.Error = untrusted.Visible(err.Error())
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(answer) // nobody to tell
}
