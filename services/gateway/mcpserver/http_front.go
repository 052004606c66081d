package mcpserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tocsin-bus/tocsin/services/gateway/delivery"
	"github.com/tocsin-bus/tocsin/services/gateway/history"
	"github.com/tocsin-bus/tocsin/services/gateway/mcpevents"
	"github.com/tocsin-bus/tocsin/shared/httpguard"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
)

const (
	// pathMCP is where MCP is served; the root is accepted too.
	pathMCP = "/mcp"
	// maxConns is how many connections may be open. Beyond it they wait.
	maxConns = 1024
	// bodyTimeout bounds how long the body of a request may take to arrive.
	bodyTimeout = 10 * time.Second
)

// HTTPConfig configures the HTTP listener, and who may use it.
type HTTPConfig struct {
	// Addr is host:port; port 0 picks a free one. Anything but loopback needs a Token.
	Addr string
	// Token, when set, must come with every request as Authorization: Bearer.
	Token string
	// AllowedHosts and AllowedOrigins are allowed in addition to loopback, see
	// [httpguard.Policy].
	AllowedHosts, AllowedOrigins []string
	// Proxy is a reverse proxy whose users need no Token.
	Proxy httpguard.Proxy
	// Ready is called once, with the URL, when requests are accepted. It may be nil.
	Ready func(url string)

	// exposed reports whether other machines can reach the listener.
	exposed bool
}

// ServeHTTP serves MCP on HTTP until ctx ends. Each client has an inbox, notifications
// and filters of its own, which end with its session.
func ServeHTTP(ctx context.Context, cfg Config, httpCfg HTTPConfig) error {
	l, err := httpserve.Listener{Purpose: "MCP clients", Setting: "--http", Addr: httpCfg.Addr, Token: httpCfg.Token, MaxConns: maxConns}.Listen(ctx)
	if err != nil {
		return err
	}
	httpCfg.exposed = httpguard.Exposed(l.Addr())
	h := newHTTPServer(ctx, cfg, httpCfg)
	url := "http://" + httpguard.DialAddress(l.Addr()) + pathMCP
	h.log.Info("listening for MCP clients", "url", url)
	if httpCfg.Ready != nil {
		httpCfg.Ready(url)
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	var probing sync.WaitGroup
	probing.Go(func() { h.probe.Run(serving) })
	defer probing.Wait()
	defer stop() // also if it can't serve
	go func() {
		h.endIdleClients(ctx)
		h.end() // streams that clients hold open end with their sessions
		stop()
	}()
	return httpserve.Serve(serving, l, &http.Server{
		Handler: h, ReadHeaderTimeout: httpserve.HeaderTimeout, MaxHeaderBytes: httpserve.MaxHeaderBytes,
		ErrorLog: slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelDebug),
	}, h.log)
}

// newFront returns the front, which checks requests and finds their routes.
func (h *httpServer) newFront(httpCfg HTTPConfig) *httpserve.Front {
	policy := httpguard.Policy{AllowedHosts: httpCfg.AllowedHosts, AllowedOrigins: httpCfg.AllowedOrigins}.WithListener(httpCfg.Addr)
	access := httpguard.Access{Token: strings.TrimSpace(httpCfg.Token), Exposed: httpCfg.exposed, Proxy: httpCfg.Proxy}
	configured := func(r *http.Request) bool { return policy.PageKind(r) == httpguard.ConfiguredPage }
	return httpserve.New(httpserve.Config{
		Name: "the gateway",
		Routes: []httpserve.Route{
			{Pattern: pathMCP, Handle: h.serveMCP, Proof: httpserve.WriteProof}, // every request of MCP counts as a write
			{Pattern: "/{$}", Handle: h.serveMCP, Proof: httpserve.WriteProof},
			{Pattern: "/healthz", Answer: httpserve.Alive},
			{Pattern: "/readyz", Answer: httpserve.Ready(access, 0, h.ready), Refuse: refuseReady},
			{Pattern: "/metrics", Handle: httpserve.Plain(h.metrics.handler), Proof: httpserve.ReadProof},
		},
		Policy: policy, Access: access,
		CheckSite: func(r *http.Request, _ *httpserve.Route) error { return checkSite(policy, r) },
		Header: func(header http.Header, r *http.Request, _ *httpserve.Route) {
			if configured(r) && policy.CheckHost(r) == nil {
				allowPage(header, r)
			}
		},
		Preflight: func(r *http.Request, _ *httpserve.Route) (httpserve.Answer, bool) {
			return httpserve.Answer{Status: http.StatusNoContent}, r.Method == http.MethodOptions && configured(r)
		},
		NotFound: "not found: MCP is at " + pathMCP,
		Refuse:   func(_ *http.Request, refusal *httpserve.Refusal) httpserve.Answer { return rpcRefusal(refusal) },
		EndLine:  true, Logger: h.log,
	})
}

// checkSite returns why the Host or the Origin of a request is refused, or nil.
func checkSite(policy httpguard.Policy, r *http.Request) error {
	if err := policy.CheckHost(r); err != nil {
		return err
	}
	switch policy.PageKind(r) {
	case httpguard.LoopbackPage, httpguard.ForeignPage:
		return errors.New("origin not allowed: only programs may connect, and pages whose origin is in TOCSIN_ALLOWED_ORIGINS")
	case httpguard.NoPage, httpguard.OwnPage, httpguard.ConfiguredPage:
	}
	return nil
}

// allowPage lets the page of a configured origin read the answer.
func allowPage(h http.Header, r *http.Request) {
	h.Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
	h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
	h.Set("Access-Control-Allow-Headers", "Accept, Authorization, Content-Type, Last-Event-ID, Mcp-Method, Mcp-Name, "+headerProtocol+", "+headerSession+", "+HeaderClient)
	h.Set("Access-Control-Expose-Headers", headerSession+", "+headerProtocol)
	h.Add("Vary", "Origin")
}

// rpcRefusal words a refusal as a JSON-RPC error with the id null.
func rpcRefusal(refusal *httpserve.Refusal) httpserve.Answer {
	text, err := history.Encode(refusal.Text())
	if err != nil {
		text = `"refused"`
	}
	return refusal.Wrap(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":%s}}`, jsonrpc.CodeInvalidRequest, text))
}

// refuseReady words a refusal of /readyz. That the gateway is not ready is plain JSON, not
// JSON-RPC.
func refuseReady(_ *http.Request, refusal *httpserve.Refusal) httpserve.Answer {
	if refusal.Status == http.StatusServiceUnavailable {
		return refusal.Answer()
	}
	return rpcRefusal(refusal)
}

// limitBody gives a request bodyTimeout to arrive, also one that is refused: net/http reads
// it to its end.
func limitBody(w http.ResponseWriter) error { return setReadDeadline(w, time.Now().Add(bodyTimeout)) }

func setReadDeadline(w http.ResponseWriter, deadline time.Time) error {
	err := http.NewResponseController(w).SetReadDeadline(deadline)
	if errors.Is(err, http.ErrNotSupported) { // as with a recorder
		return nil
	}
	return err
}

// readBody reads the body of a request within its bounds of time and size, and lets the next
// handler read it again. It then removes the read deadline of the connection. Its error is a
// refusal.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessage))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, httpserve.Refuse(http.StatusRequestEntityTooLarge, fmt.Sprintf("a message must have at most %d bytes", maxMessage)).With("Connection", "close")
	case err == nil:
		err = setReadDeadline(w, time.Time{})
	}
	if err != nil {
		return nil, httpserve.Refuse(http.StatusRequestTimeout, fmt.Sprintf("a request must arrive within %s", bodyTimeout))
	}
	if r.Method != http.MethodPost {
		return nil, nil
	}
	body = mcpevents.SetSubscriptionIDInBody(body)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return body, nil
}

// errClientLimit refuses another client.
var errClientLimit = fmt.Errorf("%d clients are connected, the maximum: end one of their sessions", maxClients)

// ready returns why a new client would not be served, or nil.
func (h *httpServer) ready(r *http.Request) error {
	if h.full() {
		return errClientLimit
	}
	return h.probe.Ready(r.Context())
}

// httpMetrics are the metrics of the HTTP server.
type httpMetrics struct {
	handler           http.Handler
	accepted, refused prometheus.Counter
}

func newHTTPMetrics(h *httpServer) httpMetrics {
	m := httpserve.NewMetrics(prometheus.NewRegistry(), "gateway")
	m.GaugeFunc("clients", "Clients connected over HTTP now.", func() float64 { return float64(len(h.connected())) })
	m.GaugeFunc("clients_limit", "Most clients that may be connected at once.", func() float64 { return maxClients })
	m.GaugeFunc("inbox_alerts", "Alerts pending in the inboxes of those clients.", func() float64 { return float64(h.pending()) })
	m.GaugeFunc("bus_connected", "Whether the bus is reachable: 1 or 0.", func() float64 {
		if h.probe.Connected() {
			return 1
		}
		return 0
	})
	return httpMetrics{
		handler:  m.Handler(),
		accepted: m.Counter("clients_total", "Clients that were accepted."),
		refused:  m.Counter("refused_total", "Clients that were refused because there was no room."),
	}
}

// pending counts the alerts in the inboxes of the connected clients.
func (h *httpServer) pending() (n int) {
	for _, c := range h.connected() {
		_ = c.alerts.Do(func(state *delivery.State, _ time.Time) { n += state.Inbox.Len() }) // it fails at shutdown only
	}
	return n
}
