package mcpserver

import (
	"context"
	"crypto/rand"
	"log/slog"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tocsin-bus/tocsin/services/gateway/busclient"
	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/services/gateway/kubernetes"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
)

const (
	// headerResponse passes the number of a request to the handlers that answer it. A value
	// sent by the client is overwritten.
	headerResponse = "Tocsin-Reply"
	headerSession  = "Mcp-Session-Id"
	headerProtocol = "Mcp-Protocol-Version"
)

// httpServer serves each HTTP request with the server of its client.
type httpServer struct {
	ctx   context.Context
	cfg   Config
	quota *kubernetes.Quota
	log   *slog.Logger
	// front checks requests and finds their routes.
	front *httpserve.Front
	// probe checks the bus for readiness.
	probe   *busclient.Probe
	metrics httpMetrics

	// sessions serves the protocol versions that have sessions, sessionless the others.
	sessions, sessionless http.Handler

	// now returns the time; tests replace it.
	now func() time.Time

	responses sync.Map // number of a request -> *response
	number    atomic.Uint64

	mu      sync.Mutex
	clients map[string]*httpClient // by session id, or by inbox key if sessionless
	ended   bool
	// serving counts the requests under way, ending the clients that are ending.
	serving, ending sync.WaitGroup
}

func newHTTPServer(ctx context.Context, cfg Config, httpCfg HTTPConfig) *httpServer {
	h := &httpServer{
		ctx: ctx, cfg: cfg, quota: cfg.Kubernetes.NewQuota(), log: cfg.Logger.With("component", "gateway"),
		clients: map[string]*httpClient{}, now: time.Now,
	}
	h.probe = busclient.NewProbe(cfg.Bus, h.log)
	h.metrics = newHTTPMetrics(h)
	h.front = h.newFront(httpCfg)
	server := func(r *http.Request) *mcp.Server {
		if c := httpClientOf(r); c != nil {
			return c.mcp
		}
		return nil
	}
	// The front has checked the Host, and knows which others are allowed.
	options := mcp.StreamableHTTPOptions{
		Logger: slog.New(slog.DiscardHandler), DisableLocalhostProtection: true, MaxRequestBodyBytes: maxMessage,
	}
	h.sessions = mcp.NewStreamableHTTPHandler(server, &options)
	options.Stateless, options.PropagateRequestCancellation = true, true
	h.sessionless = mcp.NewStreamableHTTPHandler(server, &options)
	return h
}

// ServeHTTP implements [http.Handler].
func (h *httpServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := limitBody(w); err != nil {
		return // the connection is gone
	}
	h.front.ServeHTTP(w, r)
}

// serveMCP serves a request that the front has checked.
func (h *httpServer) serveMCP(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	if r.Method == http.MethodPost {
		if !h.beginRequest() {
			return httpserve.Refuse(http.StatusServiceUnavailable, busclient.ErrShutdown.Error())
		}
		defer h.serving.Done()
	}
	to := &response{ctx: r.Context(), w: w}
	number := strconv.FormatUint(h.number.Add(1), 10)
	r.Header.Set(headerResponse, number)
	h.responses.Store(number, to)
	defer func() {
		to.finish()
		h.responses.Delete(number)
	}()
	if h.cfg.Protocol == Latest && r.Header.Get(headerProtocol) >= version20260728 {
		return h.serveSessionless(to, r, body)
	}
	return h.serveSession(to, r, body)
}

// serveSession serves the protocol versions that have sessions.
func (h *httpServer) serveSession(to *response, r *http.Request, body []byte) error {
	id := r.Header.Get(headerSession)
	if id == "" && r.Method == http.MethodPost {
		if method := methodOf(body); method != "" && method != "initialize" && r.Header.Get(headerProtocol) < version20260728 {
			return httpserve.Refuse(http.StatusBadRequest, "there is no session: send initialize first, then the "+headerSession+" of its answer with every request")
		}
		return h.serveNew(to, r)
	}
	h.mu.Lock()
	c := h.clients[id]
	if c != nil {
		c.openRequests++
		if r.Method == http.MethodPost {
			c.answering.Add(1)
			defer c.answering.Done()
		}
	}
	h.mu.Unlock()
	if c == nil { // the SDK answers with an error
		h.sessions.ServeHTTP(to, r)
		return nil
	}
	defer h.releaseClient(c)
	to.client.Store(c)
	if r.Method == http.MethodGet && r.Header.Get("Last-Event-ID") == "" {
		to.opened = func() {
			c.stream.attach(to)
			c.toolset.announceIfStale()
		}
		defer c.stream.detach(to)
	}
	if r.Method == http.MethodDelete {
		c.life.StopAccepting()
		h.awaitAnswers(&c.answering, c)
	}
	h.sessions.ServeHTTP(to, withHTTPClient(r, c))
	return nil
}

// serveNew serves a request that may start a session.
func (h *httpServer) serveNew(to *response, r *http.Request) error {
	if h.full() {
		h.metrics.refused.Inc()
		return httpserve.Refuse(http.StatusServiceUnavailable, errClientLimit.Error())
	}
	id, name := rand.Text(), inboxName(r)
	var c *httpClient
	c = h.newClient(name, transport{
		ephemeral: name == "", // without a name it can't find its inbox again
		inboxKey:  func(client string) string { return client + " over HTTP, session " + id },
		sessionID: func() string { return id },
		sessionStarted: func(session *mcp.ServerSession) bool {
			if !h.addClient(id, c) {
				return false
			}
			c.start()
			h.ending.Go(func() {
				_ = session.Wait() // how it ended does not matter
				h.removeClient(id, c)
			})
			return true
		},
	})
	h.sessions.ServeHTTP(to, withHTTPClient(r, c))
	h.mu.Lock()
	late := h.clients[id] != c
	c.startMissed = late
	h.mu.Unlock()
	if late {
		for session := range c.mcp.Sessions() {
			_ = session.Close() // it never started
		}
		c.life.Abort()
	}
	return nil
}

// serveSessionless serves the protocol versions without sessions, in which each request
// names its client.
func (h *httpServer) serveSessionless(to *response, r *http.Request, body []byte) error {
	name := inboxName(r)
	key := inbox.NamedKey(name)
	if name == "" {
		key = announcedName(body) + " over HTTP"
	}
	c := h.acquireClient(name, key)
	if c == nil {
		h.metrics.refused.Inc()
		return httpserve.Refuse(http.StatusServiceUnavailable, errClientLimit.Error())
	}
	defer h.releaseClient(c)
	h.sessionless.ServeHTTP(to, withHTTPClient(r, c))
	return nil
}

// beginRequest counts a request, unless the server has stopped accepting.
func (h *httpServer) beginRequest() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ended {
		h.serving.Add(1)
	}
	return !h.ended
}

// awaitAnswers gives requests under way answerTimeout to be answered. Then it cuts off those
// of a client, or all if client is nil: a client that does not read would block the end.
func (h *httpServer) awaitAnswers(underway *sync.WaitGroup, client *httpClient) {
	if err := within(answerTimeout, func() error { underway.Wait(); return nil }); err != nil {
		h.log.Debug("cut off requests that were not answered in time", "error", err)
	}
	h.responses.Range(func(_, value any) bool {
		if to, ok := value.(*response); ok && (client == nil || to.client.Load() == client) {
			to.cut()
		}
		return true
	})
}

// end stops accepting, gives the calls under way answerTimeout, and ends every client.
func (h *httpServer) end() {
	h.mu.Lock()
	h.ended = true
	clients := maps.Clone(h.clients)
	h.mu.Unlock()
	for _, c := range clients {
		c.life.StopAccepting()
	}
	h.awaitAnswers(&h.serving, nil)
	for key, c := range clients {
		h.ending.Go(func() { h.endClient(key, c) })
	}
	h.ending.Wait()
}

// connected returns the clients that are connected now.
func (h *httpServer) connected() []*httpClient {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]*httpClient, 0, len(h.clients))
	for _, c := range h.clients {
		all = append(all, c)
	}
	return all
}
