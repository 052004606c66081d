package httpserve

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tocsin-bus/tocsin/shared/httpguard"
)

// Alive answers /healthz: the process serves requests.
func Alive(*http.Request) (Answer, error) { return OK(), nil }

// Ready is Route.Answer of /readyz. An error of check is answered with 503; its text is
// sent only to those who may read, because /readyz needs no token. A retry above 0 is
// when to ask again, in seconds.
func Ready(access httpguard.Access, retry int, check func(*http.Request) error) func(*http.Request) (Answer, error) {
	return func(r *http.Request) (Answer, error) {
		err := check(r)
		if err == nil {
			return OK(), nil
		}
		refusal := Refuse(http.StatusServiceUnavailable, "").Retry(retry)
		if access.CheckRead(r) == nil {
			refusal.Message = err.Error()
		}
		return Answer{}, refusal
	}
}

// Health serves /healthz, /readyz and /metrics for a service that has no other HTTP.
type Health struct {
	// Addr is where it listens; Setting is the environment variable that sets it.
	Addr, Setting string
	// Token is needed to listen on anything but loopback. From there, /metrics needs it,
	// and the others give no reasons without it.
	Token string
	// Hosts are those that requests may name beside loopback.
	Hosts []string
	// Ready returns why the service does not work, or nil.
	Ready func() error
	// Registry is shown at /metrics.
	Registry *prometheus.Registry
	Logger   *slog.Logger
}

func (h Health) listener() Listener {
	return Listener{Purpose: "health checks", Setting: h.Setting, Addr: h.Addr, Token: h.Token}
}

// Check returns why nothing may listen on Addr, or nil.
func (h Health) Check(ctx context.Context) error { return h.listener().Check(ctx) }

// Serve serves until ctx ends.
func (h Health) Serve(ctx context.Context) error {
	l, err := h.listener().Listen(ctx)
	if err != nil {
		return err
	}
	server := NewServer(h.front(httpguard.Exposed(l.Addr())), h.Logger)
	server.WriteTimeout = 10 * time.Second
	return Serve(ctx, l, server, h.Logger)
}

// front answers the requests. Refusals are plain text, except that of readiness.
func (h Health) front(exposed bool) *Front {
	access := httpguard.Access{Token: strings.TrimSpace(h.Token), Exposed: exposed}
	return New(Config{
		Name: "the service", Policy: httpguard.Policy{AllowedHosts: h.Hosts}.WithListener(h.Addr), Access: access,
		Routes: []Route{
			{Pattern: "GET /healthz", Answer: Alive},
			{Pattern: "GET /readyz", Answer: Ready(access, 0, func(*http.Request) error { return h.Ready() })},
			{Pattern: "GET /metrics", Handle: Plain(Metrics{registry: h.Registry}.Handler()), Proof: ReadProof},
		},
		NotFound: "404 page not found", EndLine: true, Logger: h.Logger,
		Refuse: func(_ *http.Request, refusal *Refusal) Answer {
			switch refusal.Status {
			case http.StatusServiceUnavailable:
				return refusal.Answer()
			case http.StatusMethodNotAllowed:
				refusal.Message = http.StatusText(http.StatusMethodNotAllowed)
			}
			return refusal.Wrap([]byte(refusal.Message)).With("Content-Type", "text/plain; charset=utf-8").With("X-Content-Type-Options", "nosniff")
		},
	})
}
